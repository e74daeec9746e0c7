//! The normalised score of a result: 0 for random search, 100 for the best known value.
//!
//! Source: the score of Bayesmark and of the 2020 black-box optimisation challenge; Turner et al., "Bayesian
//! optimization is superior to random search for machine learning hyperparameter tuning", 2021.

/// Smallest score: a result as far below random search as the best known value is above it.
///
/// Scores are clipped because they are averaged: if random search is close to the best known value the denominator is
/// small, and one bad run would dominate the mean. Unlike ranks and regret, scores do not distinguish results below the
/// floor.
pub const SCORE_FLOOR: f64 = -100.0;

/// Largest score. A result better than the best known value counts as that value, for the same reason; it means that
/// the best known value is out of date.
pub const SCORE_CEILING: f64 = 100.0;

/// Returns 100 (random − value) / (random − best), clipped to [`SCORE_FLOOR`] and [`SCORE_CEILING`]; larger is better,
/// for both goals.
///
/// `value` is the best of a run, `random_level` the mean of the same over runs of random search with the same budget,
/// and `best_known` the best known value, all in the sign of the metric. The score is the achieved share of the
/// possible gain.
///
/// An infinite `value`, of a run without a feasible result, has the floor. `None` if a number is NaN, if the levels or
/// their difference are not finite, or if random search equals the best known value, since such a problem distinguishes
/// nothing. (If random search is better than `best_known`, that value is wrong, and the score has the wrong sign.)
///
/// ```
/// use tunesmith_statistics::score::normalized_score;
/// assert_eq!(normalized_score(0.25, 1.0, 0.0), Some(75.0)); // minimise
/// assert_eq!(normalized_score(0.9, 0.8, 1.0), Some(50.0)); // maximise
/// assert_eq!(normalized_score(0.9, 0.8, 0.8), None);
/// ```
pub fn normalized_score(value: f64, random_level: f64, best_known: f64) -> Option<f64> {
    if value.is_nan() || !random_level.is_finite() || !best_known.is_finite() {
        return None;
    }
    let gain = random_level - best_known;
    if gain.is_infinite() {
        return None;
    }
    // A difference in the last digits is a rounding error.
    if gain.abs() <= 1e-12 * random_level.abs().max(best_known.abs()) {
        return None;
    }
    if value.is_infinite() {
        return Some(SCORE_FLOOR);
    }
    Some((100.0 * (random_level - value) / gain).clamp(SCORE_FLOOR, SCORE_CEILING))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_search_scores_zero_and_the_best_known_value_a_hundred_for_both_goals() {
        assert_eq!(
            [3.0, 5.0, 4.0].map(|value| normalized_score(value, 5.0, 3.0)),
            [Some(100.0), Some(0.0), Some(50.0)]
        );
        assert_eq!(
            [3.0, 5.0, 4.0].map(|value| normalized_score(value, 3.0, 5.0)),
            [Some(0.0), Some(100.0), Some(50.0)]
        );
    }

    #[test]
    fn scores_are_clipped_at_both_ends() {
        assert_eq!(normalized_score(1e9, 5.0, 3.0), Some(-100.0));
        assert_eq!(normalized_score(2.0, 5.0, 3.0), Some(100.0));
        assert_eq!(normalized_score(f64::INFINITY, 5.0, 3.0), Some(-100.0));
        assert_eq!(normalized_score(f64::NEG_INFINITY, 3.0, 5.0), Some(-100.0));
    }

    #[test]
    fn equal_or_non_finite_levels_have_no_score() {
        assert_eq!(normalized_score(1.0, 3.0, 3.0), None);
        assert_eq!(normalized_score(0.3, 0.1 + 0.2, 0.3), None, "equal but for rounding");
        assert_eq!(normalized_score(0.0, 0.0, 0.0), None);
        assert_eq!(normalized_score(f64::NAN, 1.0, 0.0), None);
        assert_eq!(normalized_score(1.0, f64::INFINITY, 0.0), None);
        assert_eq!(normalized_score(1.0, 1.0, f64::NAN), None);
        assert_eq!(normalized_score(1e308, 1e308, -1e308), None);
    }
}
