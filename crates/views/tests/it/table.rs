use proptest::prelude::*;
use tunesmith_algorithms::problem::{ConstraintSpec, Goal};
use tunesmith_domain::{Trial, TrialFields, TrialNote};
use tunesmith_views::{Cell, position, table};

use crate::any_samples;
use crate::sample::{Sample, columns, columns_with_limit, trial};

proptest! {
    #[test]
    fn pages_together_are_all_trials_in_order(samples in any_samples(60), page in 1..20_usize, is_descending in any::<bool>()) {
        let columns = columns(&samples);
        let rows = columns.live();
        let direction = if is_descending { " desc" } else { "" };
        for field in ["", "id", "metric.loss", "parameters.optimizer", "state", "endTime", "duration"] {
            let order = columns.order(&format!("{field}{}", if field.is_empty() { "" } else { direction })).unwrap();
            let whole: Vec<u64> = table(&columns, &rows, order, 0, usize::MAX).rows.iter().map(|row| row.id).collect();
            let mut paged = Vec::new();
            for offset in (0..samples.len()).step_by(page) {
                paged.extend(table(&columns, &rows, order, offset, page).rows.iter().map(|row| row.id));
            }
            prop_assert_eq!(&paged, &whole, "{}", field);
            prop_assert_eq!(whole.len(), rows.count());
            let positions: Vec<Option<usize>> =
                whole.iter().map(|number| position(&columns, &rows, order, *number as usize - 1)).collect();
            prop_assert_eq!(positions, (0..whole.len()).map(Some).collect::<Vec<_>>());
            prop_assert_eq!(position(&columns, &rows, order, samples.len()), None);
            if field == "metric.loss" {
                let mut expected: Vec<(bool, f64, u64)> = rows.iter().map(|row| {
                    let loss = columns.metric(0, row);
                    let key = loss.map_or(0.0, |loss| if is_descending { -loss } else { loss });
                    (loss.is_none(), key, columns.number(row))
                }).collect();
                expected.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
                prop_assert_eq!(whole, expected.into_iter().map(|(_, _, number)| number).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn rows_have_exact_values() {
    let columns = columns(&[Sample { rate: 0.1 + 0.2, level: Some(2), ..Sample::of_loss(1.0 / 3.0) }]);
    let order = columns.order(" metric.loss  desc ").unwrap();
    let row = table(&columns, &columns.live(), order, 0, 10).rows.remove(0);
    assert_eq!((row.id, row.state, row.metrics["loss"], row.duration), (1, "SUCCEEDED", 1.0 / 3.0, Some(1.0)));
    assert_eq!(row.parameters["rate"], Cell::Number(0.300_000_000_000_000_04));
    assert_eq!(row.parameters["optimizer"], Cell::Text("<b>".to_owned()));
    assert_eq!(row.end_time.as_deref(), Some("1970-01-01T00:00:01Z"));
    assert_eq!(columns.order("metric.acc desc").unwrap_err().field, "orderBy");
    let quoted = columns.order("parameters.\"batch size\" desc").unwrap();
    assert_eq!(quoted, columns.order("parameters.batch size  desc").unwrap());
}

#[test]
fn trials_are_selected_by_their_notes() {
    let mut columns = columns(&[1.0, 2.0, 3.0].map(Sample::of_loss));
    let bytes = columns.bytes();
    let mut annotate = |number: usize, text: &str| {
        let time = jiff::Timestamp::UNIX_EPOCH;
        let note = TrialNote { text: text.to_owned(), author: None, time, version: 1 };
        let fields = (*trial(number, &Sample::of_loss(1.0))).clone();
        columns.apply(&Trial::restore(TrialFields { last_note: Some(note), ..fields }));
    };
    annotate(2, &"é".repeat(301));
    annotate(3, "too large\na batch");
    annotate(1, "");
    assert!(columns.bytes() > bytes + 600);
    let numbers = |filter: &str| -> Vec<u64> {
        let rows = columns.select(&filter.parse().unwrap()).unwrap();
        rows.iter().map(|row| columns.number(row)).collect()
    };
    assert_eq!(numbers("note:*"), [2, 3]);
    assert_eq!(numbers("note:\"too large\"*"), [3]);
    let rows = table(&columns, &columns.live(), columns.order("note desc").unwrap(), 0, 10).rows;
    let notes: Vec<(u64, &str)> = rows.iter().map(|row| (row.id, row.note.as_str())).collect();
    assert_eq!(notes, [(2, "é".repeat(300).as_str()), (3, "too large\na batch"), (1, "")]);
}

#[test]
fn trials_are_selected_and_ordered_by_constraints() {
    let samples = [3.0, 1.0, 2.0, 0.5].map(|loss| Sample { speed: 10.0 - loss, ..Sample::of_loss(loss) });
    let columns = columns_with_limit(&samples, ConstraintSpec::new("speed limit", Goal::Minimize, 8.5));
    let selected = |filter: &str| -> Vec<u64> {
        let rows = columns.select(&filter.parse().unwrap()).unwrap();
        rows.iter().map(|row| columns.number(row)).collect()
    };
    assert_eq!(selected("metric.\"speed limit\" >= 8"), [2, 3, 4]);
    assert_eq!(selected("violatedConstraint:*"), [2, 4]);
    assert_eq!(selected("violatedConstraint = \"speed limit\" AND metric.loss > 0.7"), [2]);
    assert_eq!(selected("NOT violatedConstraint:*"), [1, 3]);
    let ordered = |text: &str| -> Vec<u64> {
        let order = columns.order(text).unwrap();
        table(&columns, &columns.live(), order, 0, 10).rows.iter().map(|row| row.id).collect()
    };
    assert_eq!(ordered("metric.\"speed limit\" desc"), [4, 2, 3, 1]);
    assert_eq!(ordered("violatedConstraint"), [2, 4, 1, 3]);
    let error = columns.select(&"metric.acc > 1".parse().unwrap()).unwrap_err().to_string();
    assert!(error.ends_with("metric.speed limit"), "{error}");
}
