use proptest::prelude::*;
use tunesmith_algorithms::problem::ParameterValue;
use tunesmith_algorithms::problem::TrialId;
use tunesmith_domain::{Study, StudyFields, Trial, TrialFields, TrialNote, TrialState};
use tunesmith_filter::Filter;
use tunesmith_views::{Columns, table};

use crate::any_samples;
use crate::sample::{LEVELS, Sample, columns, study, trial};

fn selected(columns: &Columns, filter: &str) -> Vec<u64> {
    let filter: Filter = filter.parse().expect("a filter");
    let rows = columns.select(&filter).expect("a filter of trials");
    rows.iter().map(|row| columns.number(row)).collect()
}

#[test]
fn trials_are_selected_by_every_field() {
    let mut samples = vec![Sample::of_loss(0.5), Sample::of_loss(f64::NAN), Sample::of_loss(2.0), Sample::of_loss(3.0)];
    samples[2].state = TrialState::Infeasible;
    samples[3] = Sample {
        state: TrialState::Active,
        level: None,
        layers: 7,
        client: 9,
        time: (86_400, 5),
        ..samples[3].clone()
    };
    let columns = columns(&samples);
    for (filter, expected) in [
        ("", &[1, 2, 3, 4][..]),
        ("id > 2 AND id != 3", &[4]),
        ("state = SUCCEEDED", &[1, 2]),
        ("stoppedEarly = true", &[]),
        ("infeasibleReason:\"no res\"*", &[3]),
        ("infeasibleReason:*", &[3]),
        ("clientId = \"worker 9\"", &[4]),
        ("origin:RANDOM*", &[1, 2, 3, 4]),
        ("attempt = 1 AND measurements = 5", &[1, 2, 3, 4]),
        ("duration <= 1", &[1, 2, 3]),
        ("startTime >= 1970-01-02", &[4]),
        ("endTime:*", &[1, 2, 3]),
        ("createTime < 1970-01-02", &[1, 2, 3]),
        ("metric.loss < 1", &[1]),
        ("metric.loss = NaN", &[2]),
        ("metric.speed:*", &[1, 2]),
        ("NOT metric.loss < 1", &[2, 3, 4]),
        ("parameters.rate = 0.01 AND parameters.layers > 2", &[4]),
        ("parameters.optimizer = adam", &[1, 2, 3]),
        ("NOT parameters.optimizer:*", &[4]),
        ("parameters.\"batch size\" = 16 OR id = 1", &[1, 3]),
    ] {
        assert_eq!(selected(&columns, filter), expected, "{filter}");
    }
    let error = |filter: &str| columns.select(&filter.parse().unwrap()).unwrap_err().to_string();
    assert_eq!(
        error("parameters.layer > 2"),
        "column 1: found the field parameters.layer; allowed: parameters.rate, parameters.layers, parameters.batch size, \
         parameters.optimizer"
    );
    assert_eq!(error("metric.acc > 2"), "column 1: found the field metric.acc; allowed: metric.loss, metric.speed");
}

proptest! {
    #[test]
    fn columns_do_not_depend_on_the_order_of_changes(samples in any_samples(40), seed in any::<u64>()) {
        let expected = columns(&samples);
        let mut trials: Vec<_> = samples.iter().enumerate().map(|(index, sample)| trial(index + 1, sample)).collect();
        let mut changed = Columns::new(&study());
        // Reads each trial in another state first.
        for (index, sample) in samples.iter().enumerate().rev() {
            changed.apply(&trial(index + 1, &Sample { state: TrialState::Active, ..sample.clone() }));
        }
        trials.sort_by_key(|trial| (trial.id.0 * 31) ^ (seed % 64));
        for trial in trials.iter().chain(&trials) {
            changed.apply(trial);
        }
        prop_assert_eq!(changed.live(), expected.live());
        for row in expected.live().iter() {
            prop_assert_eq!(changed.state(row), expected.state(row));
            prop_assert_eq!(changed.times(row), expected.times(row));
            prop_assert_eq!(changed.metric(0, row), expected.metric(0, row));
            prop_assert_eq!(changed.parameters(row), expected.parameters(row));
            prop_assert_eq!(changed.client(row), expected.client(row));
        }
        prop_assert_eq!(changed.best_first(0), expected.best_first(0));
    }

    #[test]
    fn stored_columns_are_the_same(samples in any_samples(40), cut in any::<proptest::sample::Index>()) {
        prop_assume!(!samples.is_empty());
        let mut columns = columns(&samples);
        let note = TrialNote { text: "\u{1f642} odd".to_owned(), author: None, time: jiff::Timestamp::UNIX_EPOCH, version: 1 };
        let fields = (*trial(1, &samples[0])).clone();
        columns.apply(&Trial::restore(TrialFields { last_note: Some(note), origin: None, ..fields }));
        columns.mark_read_up_to(77);
        let study = |next: usize, revision| {
            Study::restore(StudyFields { next_trial_id: TrialId(next as u64), revision, ..(*study()).clone() })
        };
        let stored = columns.store();
        let restored = Columns::restore(&study(samples.len() + 1, 80), &stored).expect("the present form");
        prop_assert_eq!((restored.revision(), restored.stored_revision()), (77, 77));
        let rows = |columns: &Columns| {
            let order = columns.order("").unwrap();
            format!("{:?}", table(columns, &columns.live(), order, 0, usize::MAX))
        };
        prop_assert_eq!(rows(&restored), rows(&columns));
        prop_assert_eq!(restored.best_first(0), columns.best_first(0));
        prop_assert_eq!(restored.store(), stored.clone());

        // A form that is cut off, or of another study, is not used.
        prop_assert!(Columns::restore(&study(samples.len() + 1, 80), &stored[..cut.index(stored.len())]).is_none());
        prop_assert!(Columns::restore(&study(samples.len(), 80), &stored).is_none());
        prop_assert!(Columns::restore(&study(samples.len() + 1, 76), &stored).is_none());
        let other = StudyFields { create_time: jiff::Timestamp::from_nanosecond(1).unwrap(), ..(*study(samples.len() + 1, 80)).clone() };
        prop_assert!(Columns::restore(&Study::restore(other), &stored).is_none());
    }

    #[test]
    fn columns_keep_the_values_of_trials(samples in any_samples(40)) {
        let columns = columns(&samples);
        for (row, sample) in samples.iter().enumerate() {
            let is_deleted = sample.state == TrialState::Deleted;
            prop_assert_eq!(columns.state(row), Some(sample.state).filter(|_| !is_deleted));
            prop_assert_eq!(columns.live().contains(row), !is_deleted);
            let measured = Some(sample.loss).filter(|loss| sample.state == TrialState::Succeeded && loss.is_finite());
            prop_assert_eq!(columns.metric(0, row), measured);
            prop_assert_eq!(columns.parameters(row), trial(row + 1, sample).parameters.clone());
            prop_assert_eq!(columns.coordinate(3, row), sample.level.map(|level| level as f64));
            prop_assert_eq!(columns.parameter(3, row), sample.level.map(|level| ParameterValue::Categorical(LEVELS[level].to_owned())));
        }
    }

    #[test]
    fn filters_select_what_a_look_at_each_trial_selects(samples in any_samples(80), bound in -10.0..30.0, level in 0..3_usize) {
        let columns = columns(&samples);
        let filter = format!(
            "(metric.loss < {bound:?} AND NOT state = ACTIVE) OR (parameters.optimizer = \"{}\" AND parameters.rate >= 0.5)",
            LEVELS[level],
        );
        let has_result = |sample: &Sample| sample.state == TrialState::Succeeded;
        let expected: Vec<u64> = (1..).zip(&samples).filter(|(_, sample)| {
            sample.state != TrialState::Deleted
                && ((has_result(sample) && sample.loss < bound) || (sample.level == Some(level) && sample.rate >= 0.5))
        }).map(|(number, _)| number).collect();
        prop_assert_eq!(selected(&columns, &filter), expected);
    }
}
