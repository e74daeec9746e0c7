//! Measurements.

use super::trials::with_study;
use super::{Medium, reopen, samples};
use tunesmith_domain::{Measurement, MetricValue, ReportKey, TrialId};

const ID: TrialId = TrialId(1);

/// A measurement as text with its doubles as bits, since NaN is not equal to itself.
fn bits(measurement: &Measurement) -> String {
    let Measurement { step, wall_time_secs, elapsed_secs, key, metrics } = measurement;
    let metrics: Vec<_> = metrics.iter().map(|metric| (&metric.metric, metric.value.to_bits())).collect();
    let (wall, elapsed) = (wall_time_secs.to_bits(), elapsed_secs.map(f64::to_bits));
    format!("{step} {wall} {elapsed:?} {key:?} {metrics:?}")
}

pub(super) async fn keep_every_bit(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    store.create_trial(&study, samples::new_trial(1)).await.unwrap();
    let odd_nan = f64::from_bits(0x7ff8_0000_dead_beef);
    let values = [f64::NAN, odd_nan, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 5e-324, f64::MAX, 0.1 + 0.2];
    let key = |index: usize, offset| match index % 4 {
        0 => ReportKey::MetricFile { attempt: u64::MAX },
        1 => ReportKey::EventFile { folder: format!("dossier/é{index}").into() },
        2 => ReportKey::Http,
        _ => ReportKey::StandardOutput { attempt: 1, offset },
    };
    let mut curve: Vec<Measurement> = values
        .iter()
        .enumerate()
        .map(|(index, value)| Measurement {
            step: index as i64,
            wall_time_secs: *value,
            elapsed_secs: (index % 2 == 0).then_some(*value),
            key: key(index, value.to_bits()),
            metrics: vec![MetricValue { metric: format!("métrique/{}", index % 3), value: *value }],
        })
        .collect();
    curve.push(Measurement { metrics: Vec::new(), step: i64::MAX, ..samples::measurement(0, 0.0) });
    store.change_trial(&study, ID, samples::report(0, curve.clone())).await.unwrap();
    let store = reopen(medium, store).await;
    let read = store.measurements(&study, ID, 0, 100).await.unwrap();
    assert_eq!(read.iter().map(bits).collect::<Vec<_>>(), curve.iter().map(bits).collect::<Vec<_>>());
}

pub(super) async fn are_paged(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    store.create_trial(&study, samples::new_trial(1)).await.unwrap();
    // Reports of several sizes, so that pages start and end inside reports.
    let mut step = 0;
    for size in [1, 3, 0, 2000, 1, 7] {
        let reports = (step..step + size).map(|step| samples::measurement(step, 0.5)).collect();
        step += size;
        let trial = store.change_trial(&study, ID, samples::report(0, reports)).await.unwrap();
        assert_eq!(trial.measurement_count, step as u64);
    }
    let store = reopen(medium, store).await;
    for (from, limit) in [(0, 1), (0, 4), (2, 3), (3, 1500), (1027, 2), (2003, 2), (2004, 100), (2011, 5)] {
        let page = store.measurements(&study, ID, from, limit).await.unwrap();
        let steps: Vec<u64> = page.iter().map(|measurement| measurement.step as u64).collect();
        assert_eq!(steps, (from..(from + limit as u64).min(2012)).collect::<Vec<_>>());
    }
    for (from, limit) in [(0, 0), (2012, 5), (u64::MAX, usize::MAX)] {
        assert!(store.measurements(&study, ID, from, limit).await.unwrap().is_empty());
    }
}

pub(super) async fn hold_a_hundred_thousand_measurements(medium: &impl Medium) {
    const COUNT: i64 = 100_000;
    let (store, study) = with_study(medium, "s").await;
    store.create_trial(&study, samples::new_trial(1)).await.unwrap();
    for start in (0..COUNT).step_by(5000) {
        let reports = (start..start + 5000).map(|step| samples::measurement(step, step as f64)).collect();
        store.change_trial(&study, ID, samples::report(0, reports)).await.unwrap();
    }
    let store = reopen(medium, store).await;
    assert_eq!(store.trial(&study, ID).await.unwrap().measurement_count, COUNT as u64);
    let mut next = 0;
    while next < COUNT {
        let page = store.measurements(&study, ID, next as u64, 33_333).await.unwrap();
        assert!(!page.is_empty());
        for measurement in page {
            assert_eq!(measurement, samples::measurement(next, next as f64));
            next += 1;
        }
    }
}
