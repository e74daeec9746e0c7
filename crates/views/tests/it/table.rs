//! The table of trials.

use proptest::prelude::*;
use tunesmith_views::{Cell, table};

use crate::any_samples;
use crate::sample::{Sample, columns};

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
