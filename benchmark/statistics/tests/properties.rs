//! For any input, a statistic is a number in its range or an error; it never panics and is never NaN.

use proptest::prelude::*;
use tunesmith_statistics::bootstrap::{bootstrap_interval, stratified_interval};
use tunesmith_statistics::ecdf::{Run, ecdf};
use tunesmith_statistics::friedman::friedman;
use tunesmith_statistics::nemenyi::groups;
use tunesmith_statistics::ranks::average_ranks;
use tunesmith_statistics::score::normalized_score;
use tunesmith_statistics::summary::{median, quantile};
use tunesmith_statistics::wilcoxon::wilcoxon;

/// Numbers of any size, including NaN and infinities, and many equal ones.
fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        1 => any::<f64>(),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MAX, f64::MIN]),
        20 => (-3_i8..=3).prop_map(f64::from),
        20 => -1e3..1e3,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn statistics_of_any_sample_are_in_range(sample in prop::collection::vec(any_number(), 0..30)) {
        let finite = !sample.is_empty() && sample.iter().all(|value| value.is_finite());
        let test = wilcoxon(&sample);
        prop_assert_eq!(test.is_ok(), finite);
        if let Ok(test) = test {
            prop_assert!((0.0..=1.0).contains(&test.p) && test.rank_biserial.abs() <= 1.0, "{:?}", test);
        }
        if let Ok(interval) = bootstrap_interval(&sample, median, 0.9, 20, 0) {
            prop_assert!(finite && interval.low <= interval.high);
        }
        if let Ok(interval) = stratified_interval(&[&sample, &sample], 0.9, 20, 0) {
            prop_assert!(finite && interval.low <= interval.high);
        }
        if let Ok(ranks) = average_ranks(&sample) {
            let count = sample.len() as f64;
            prop_assert_eq!(ranks.iter().sum::<f64>(), count * (count + 1.0) / 2.0);
        }
        prop_assert!(quantile(&sample, 0.3).is_none_or(|value| !value.is_nan()));
        if let Ok(curve) = ecdf(&[Run { dimension: 3, gaps: &sample, targets: &[1.0, 0.1] }]) {
            prop_assert!(curve.steps.iter().all(|step| step.share > 0.0 && step.share <= 1.0));
        }
        if let Ok(found) = groups(&sample, 1.0) {
            prop_assert!(found.iter().all(|group| group.len() >= 2));
        }
    }

    #[test]
    fn friedman_tests_of_any_table_are_in_range(flat in prop::collection::vec(any_number(), 0..40), columns in 1_usize..6) {
        let blocks: Vec<&[f64]> = flat.chunks(columns).collect();
        if let Ok(test) = friedman(&blocks) {
            prop_assert!((0.0..=1.0).contains(&test.p) && test.statistic >= 0.0, "{:?}", test);
        }
    }

    #[test]
    fn scores_of_any_numbers_are_in_range(value in any_number(), random in any_number(), best in any_number()) {
        let score = normalized_score(value, random, best);
        prop_assert!(score.is_none_or(|score| (-100.0..=100.0).contains(&score)), "{:?}", score);
    }
}
