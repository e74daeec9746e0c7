//! Compares the statistics with those of scipy on committed samples from `benches/reference/statistics.py`.
//!
//! The largest relative deviations are 2e-14 in statistics and quantiles and 4e-13 in p values, which are tails of
//! special functions that amplify rounding errors of the argument. The tolerances allow for the exponential and
//! logarithm of other platforms.

#![expect(clippy::unwrap_used, reason = "clippy exempts test functions only, not their helpers")]

use serde_json::Value;
use tunesmith_statistics::bootstrap::bootstrap_interval;
use tunesmith_statistics::friedman::friedman;
use tunesmith_statistics::nemenyi::studentized_range_quantile;
use tunesmith_statistics::ranks::average_ranks;
use tunesmith_statistics::summary::{mean, median, quantile, standard_error};
use tunesmith_statistics::wilcoxon::wilcoxon;

/// Relative tolerance of statistics and quantiles.
const TOLERANCE: f64 = 1e-12;

/// Relative tolerance of p values.
const P_TOLERANCE: f64 = 1e-11;

fn reference() -> Value {
    serde_json::from_str(include_str!("data/reference.json")).unwrap()
}

fn rows<'a>(reference: &'a Value, name: &str) -> &'a [Value] {
    reference[name].as_array().unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Fails unless `found` is within `tolerance` of `expected`, relative to it.
#[track_caller]
fn assert_close(what: &str, found: f64, expected: &Value, tolerance: f64) {
    let expected = expected.as_f64().unwrap();
    let bound = tolerance * expected.abs().max(1e-300);
    assert!((found - expected).abs() <= bound, "{what}: {found:e}, scipy has {expected:e}");
}

#[test]
fn ranks_and_summaries_equal_those_of_scipy() {
    let reference = reference();
    assert_eq!(rows(&reference, "samples").len(), 47);
    for row in rows(&reference, "samples") {
        let values = numbers(&row["values"]);
        let name = row["name"].as_str().unwrap();
        assert_eq!(average_ranks(&values).unwrap(), numbers(&row["ranks"]), "{name}");
        // A mean near 0 is a difference of larger sums, so the bound is relative to these.
        let expected = row["mean"].as_f64().unwrap();
        assert!((mean(&values) - expected).abs() < 1e-14 * (1.0 + expected.abs()), "{name}");
        assert_close(name, standard_error(&values).unwrap(), &row["standard_error"], TOLERANCE);
        assert_close(name, median(&values), &row["median"], TOLERANCE);
        for pair in row["quantiles"].as_array().unwrap() {
            let found = quantile(&values, pair[0].as_f64().unwrap()).unwrap();
            let expected = pair[1].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-12, "{name} at {}: {found}, not {expected}", pair[0]);
        }
    }
}

#[test]
fn signed_rank_tests_equal_those_of_scipy() {
    let reference = reference();
    let mut exact = 0;
    for row in rows(&reference, "samples") {
        let values = numbers(&row["values"]);
        let found = wilcoxon(&values).unwrap();
        let name = row["name"].as_str().unwrap();
        assert_close(name, found.statistic, &row["wilcoxon"]["statistic"], TOLERANCE);
        assert_close(name, found.p, &row["wilcoxon"]["p"], P_TOLERANCE);
        exact += usize::from(found.exact);
    }
    // The others have more than 50 values, or more than 13 with ties or zeros.
    assert_eq!(exact, 27);
}

/// Both implementations draw different resamples, so the ends agree only within the noise of 4,000 draws: 0.15 standard
/// errors, plus one step for samples of whole numbers, whose means are multiples of 1 / n.
#[test]
fn bootstrap_intervals_of_the_mean_are_close_to_those_of_scipy() {
    let reference = reference();
    for row in rows(&reference, "samples") {
        let values = numbers(&row["values"]);
        if values.len() < 10 {
            continue;
        }
        let found = bootstrap_interval(&values, mean, 0.95, 4000, 5).unwrap();
        let expected = numbers(&row["bootstrap_mean"]);
        let whole = values.iter().all(|value| value.fract() == 0.0);
        let step = if whole { 1.0 / values.len() as f64 } else { 0.0 };
        let tolerance = 0.15 * standard_error(&values).unwrap() + step + 1e-12;
        assert!((found.low - expected[0]).abs() < tolerance, "{}: {found:?}, not {expected:?}", row["name"]);
        assert!((found.high - expected[1]).abs() < tolerance, "{}: {found:?}, not {expected:?}", row["name"]);
    }
}

#[test]
fn friedman_tests_equal_those_of_scipy() {
    let reference = reference();
    assert_eq!(rows(&reference, "friedman").len(), 13);
    for row in rows(&reference, "friedman") {
        let name = row["name"].as_str().unwrap();
        let blocks: Vec<Vec<f64>> = row["blocks"].as_array().unwrap().iter().map(numbers).collect();
        let found = friedman(&blocks).unwrap();
        assert_close(name, found.statistic, &row["statistic"], TOLERANCE);
        assert_close(name, found.p, &row["p"], P_TOLERANCE);
        for (rank, expected) in found.mean_ranks.iter().zip(row["mean_ranks"].as_array().unwrap()) {
            assert_close(name, *rank, expected, TOLERANCE);
        }
    }
}

#[test]
fn studentized_range_quantiles_equal_those_of_scipy() {
    let reference = reference();
    assert_eq!(rows(&reference, "studentized_range").len(), 66);
    for row in rows(&reference, "studentized_range") {
        let treatments = row["treatments"].as_u64().unwrap() as usize;
        let found = studentized_range_quantile(treatments, row["alpha"].as_f64().unwrap()).unwrap();
        assert_close(&row.to_string(), found, &row["quantile"], TOLERANCE);
    }
}
