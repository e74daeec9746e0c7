//! Wrong results of a defective program: too good to be true, or wildly bad without a reason.
//!
//! A defect that reports 0 for a loss looks like a breakthrough. A result is suspicious if its distance to the best of the others exceeds several times the range of the others. Progress
//! on a logarithmic scale is no such result: an improvement cannot exceed the distance to the optimum, which the range of
//! the earlier results contains. A result very near to a suspicious one that is also far better than the others confirms
//! it. A result in a space without near neighbours, as of categories only, cannot be tested and counts.
//!
//! A result far below all others is either in a bad region, whose border the other results show, or an accident. So a
//! model of the other results predicts it; it is unexplained if it is far below its prediction. Later trials nearby can
//! explain it.
//!
//! All constants without another source are measured, see docs/experiments/021.

use crate::encoding::{Encoding, FeatureKind};
use crate::gp::{Hyperparameters, Posterior, TrainingSet, representative_subset};

/// Number of results from which one can be wrong: the range of fewer is no scale.
const FEWEST: usize = 8;
/// Distance to the other results from which a result is suspicious, in their ranges.
const SUSPICIOUS_RANGES: f64 = 3.0;
/// Divisor of the number of results that gives the maximum number of suspicious ones, and the number of the worst results
/// outside the range. A guess.
const SHARE: usize = 10;
/// Distance of a confirming trial along each feature, in the unit cube. A guess: smaller than any peak that a search could
/// use.
const CONFIRMING_STEP: f64 = 1e-3;
/// Share of the distance between a suspicious result and the others that a confirming one covers. A guess.
const CONFIRMING_SHARE: f64 = 0.1;
/// Divisor of the number of results that gives the maximum number of far bad ones.
const FAR_SHARE: usize = 4;
/// Distance to the other results from which a bad result is far, in their ranges.
const FAR_RANGES: f64 = 1.0;
/// Distance of an unexplained result to its prediction, in predictive deviations.
const UNEXPLAINED_DEVIATIONS: f64 = 3.0;
/// Maximum number of observations of the predicting model (chosen for time).
const PREDICTING: usize = 384;

/// A result that is too good to be true.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Suspect {
    /// Index of the result.
    pub(crate) index: usize,
    /// Distance to the best of the other results, in their ranges.
    pub(crate) ranges: f64,
}

/// Suspicious results among `values` (maximised, finite) at `points`, best first, without those that another one
/// confirms.
pub(crate) fn suspects(encoding: &Encoding, points: &[&[f64]], values: &[f64]) -> Vec<Suspect> {
    let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    if values.len() < FEWEST || largest == 0.0 {
        return Vec::new();
    }
    let value = |index: usize| values[index] / largest;
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
    let most = (values.len() / SHARE).max(1);
    let Some((count, best, range)) = (1..=most).rev().find_map(|count| {
        let others = &order[count..];
        let (best, worst) = (value(others[0]), value(others[others.len() - 1 - others.len() / SHARE]));
        let (range, gap) = (best - worst, value(order[count - 1]) - best);
        (range > 0.0 && gap > SUSPICIOUS_RANGES * range).then_some((count, best, range))
    }) else {
        return Vec::new();
    };
    let is_confirmed = |suspect: usize| {
        let least = best + CONFIRMING_SHARE * (value(suspect) - best);
        order.iter().any(|&other| {
            other != suspect && value(other) >= least && confirms(encoding, points[other], points[suspect])
        })
    };
    let is_testable = |suspect: usize| neighbour(encoding, points[suspect]).is_some();
    let unconfirmed = order[..count].iter().copied().filter(|&suspect| is_testable(suspect) && !is_confirmed(suspect));
    unconfirmed.map(|index| Suspect { index, ranges: (value(index) - best) / range }).collect()
}

/// Whether `point` is near enough to `suspect` to confirm its result.
pub(crate) fn confirms(encoding: &Encoding, point: &[f64], suspect: &[f64]) -> bool {
    encoding.features().iter().zip(point).zip(suspect).all(|((feature, a), b)| match feature.kind {
        FeatureKind::Categorical { .. } => a == b,
        _ => (a - b).abs() <= 2.0 * CONFIRMING_STEP,
    })
}

/// Point next to `point` along every fine feature; `None` if there is none.
pub(crate) fn neighbour(encoding: &Encoding, point: &[f64]) -> Option<Vec<f64>> {
    let mut moved = point.to_vec();
    for (u, feature) in moved.iter_mut().zip(encoding.features()) {
        if matches!(feature.kind, FeatureKind::Continuous | FeatureKind::LargeGrid) {
            *u += if *u < 0.5 { CONFIRMING_STEP } else { -CONFIRMING_STEP };
        }
    }
    encoding.snap(&mut moved);
    (moved != point && confirms(encoding, &moved, point)).then_some(moved)
}

/// Indices of the `values` (maximised, finite) that are far below the others.
pub(crate) fn far_below(values: &[f64]) -> Vec<usize> {
    if values.len() < FEWEST {
        return Vec::new();
    }
    let largest = values.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    let mut sorted: Vec<f64> = values.iter().map(|value| value / largest).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (best, worst) = (sorted[0], sorted[values.len() - 1 - values.len() / FAR_SHARE]);
    let range = best - worst;
    let is_far = |value: f64| range > 0.0 && worst - value / largest > FAR_RANGES * range;
    (0..values.len()).filter(|&index| is_far(values[index])).collect()
}

/// Rows among `far` of `data` that a model of the rows `others` with `hyperparameters` does not explain.
pub(crate) fn unexplained(
    data: &TrainingSet,
    far: &[usize],
    others: &[usize],
    hyperparameters: &Hyperparameters,
) -> Vec<usize> {
    let known = data.select(others);
    let known = known.select(&representative_subset(&known, PREDICTING, None));
    let Some(posterior) = Posterior::new(hyperparameters.clone(), &known) else { return Vec::new() };
    let questioned = data.select(far);
    let prediction = posterior.predict(&questioned.points);
    let noise = questioned.noise_variances(hyperparameters.noise_variance);
    let is_unexplained = |index: &usize| {
        let deviation = (prediction.deviations[*index].powi(2) + noise[*index]).sqrt();
        prediction.means[(0, *index)] - questioned.values[*index] > UNEXPLAINED_DEVIATIONS * deviation
    };
    (0..far.len()).filter(is_unexplained).map(|index| far[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{ParameterKind, ParameterSpec, ScaleType, SearchSpace};

    fn encoding(kind: ParameterKind) -> Encoding {
        Encoding::new(&SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap())
    }

    fn line() -> Encoding {
        encoding(ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear })
    }

    fn found(encoding: &Encoding, points: &[f64], values: &[f64]) -> Vec<(usize, f64)> {
        let points: Vec<[f64; 1]> = points.iter().map(|u| [*u]).collect();
        let points: Vec<&[f64]> = points.iter().map(<[f64; 1]>::as_slice).collect();
        suspects(encoding, &points, values).into_iter().map(|suspect| (suspect.index, suspect.ranges)).collect()
    }

    const POINTS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

    #[test]
    fn result_is_suspicious_in_ranges_of_the_others() {
        let mut values = [1.0, 2.0, 3.0, 4.0, 5.0, 4.0, 3.0, 2.0, 165.0];
        assert_eq!(found(&line(), &POINTS, &values), [(8, 40.0)]);
        values[8] = 16.0;
        assert_eq!(found(&line(), &POINTS, &values), []);
        // Of seven, none.
        assert_eq!(found(&line(), &POINTS[2..], &[3.0, 4.0, 5.0, 4.0, 3.0, 2.0, 165.0]), []);
        assert_eq!(found(&line(), &POINTS, &[f64::MIN, 2.0, 3.0, 4.0, 5.0, 4.0, 3.0, 2.0, f64::MAX]).len(), 0);
    }

    #[test]
    fn progress_of_a_decade_per_trial_is_not_suspicious() {
        let values: Vec<f64> = (0..9).map(|trial| -(10f64.powi(-trial))).collect();
        for count in 8..=9 {
            assert_eq!(found(&line(), &POINTS[..count], &values[..count]), []);
        }
    }

    #[test]
    fn good_neighbour_confirms_and_an_ordinary_one_does_not() {
        let points: Vec<f64> = POINTS.into_iter().chain([0.901]).collect();
        let values = |neighbour: f64| [1.0, 2.0, 3.0, 4.0, 5.0, 4.0, 3.0, 2.0, 165.0, neighbour];
        assert_eq!(found(&line(), &points, &values(4.0)), [(8, 40.0)]);
        assert_eq!(found(&line(), &points, &values(60.0)), []);
        let apart: Vec<f64> = POINTS.into_iter().chain([0.91]).collect();
        assert_eq!(found(&line(), &apart, &values(15.0)).len(), 1);
    }

    #[test]
    fn result_without_a_near_neighbour_is_not_suspicious() {
        let levels = (0..9).map(|level| format!("level {level}")).collect();
        let categories = encoding(ParameterKind::Categorical { values: levels });
        let points: Vec<f64> = (0..9).map(f64::from).collect();
        assert_eq!(found(&categories, &points, &[1.0, 2.0, 3.0, 4.0, 5.0, 4.0, 3.0, 2.0, 165.0]), []);
    }

    #[test]
    fn far_below_finds_at_most_a_quarter() {
        assert_eq!(far_below(&[1.0, 2.0, 3.0, 4.0, 5.0, 4.0, 3.0, -8.0, 2.0]), [7]);
        assert_eq!(far_below(&[1.0, 2.0, 3.0, 4.0, 5.0, -9.0, -1e9, -8.0]), [6]);
        assert_eq!(far_below(&[1.0, 2.0, 3.0, 4.0, 5.0, -1.2e9, -1.1e9, -1e9]), []);
    }
}
