//! The DTLZ problems. Source: Deb, Thiele, Laumanns and Zitzler, Scalable test problems for evolutionary multiobjective
//! optimization, 2005.
//!
//! All metrics are minimised. The first parameters, one fewer than metrics, are position parameters on the front; the
//! others are distance parameters. `dimensions` counts both and is at least the number of metrics.

use std::f64::consts::{FRAC_PI_2, PI};

use tunesmith_algorithms::problem::Goal;

use super::builders::{box_of_doubles, doubles};
use super::{MetricCount, MultiObjectiveFunction};

/// DTLZ1: the front is the simplex where the metrics sum to 1/2; there are many local fronts.
///
/// Distance parameters in `[0, 1.25]`; the usual `[0, 1]` has the front, at 0.5, in its middle. The reference point is
/// 400 in each of m metrics. The undominated part is the corner below the simplex, which gives 400^m - (1/2)^m / m!.
pub fn dtlz1(metrics: MetricCount, dimensions: usize) -> MultiObjectiveFunction {
    let (corner, volume) = match metrics {
        MetricCount::Two => (vec![400.0; 2], 400.0 * 400.0 - 1.0 / 8.0),
        MetricCount::Three => (vec![400.0; 3], 400.0 * 400.0 * 400.0 - 1.0 / 48.0),
    };
    dtlz("dtlz1", metrics, dimensions, 1.25, corner, volume, dtlz1_values)
}

/// DTLZ2: the front is the part of the unit sphere where all metrics are positive.
///
/// Distance parameters in `[0, 1.25]`; the usual `[0, 1]` has the front, at 0.5, in its middle. The reference point is
/// 2 in each metric. The undominated part is a quarter of the disc, or an eighth of the ball, which gives 4 - pi/4 and
/// 8 - pi/6.
pub fn dtlz2(metrics: MetricCount, dimensions: usize) -> MultiObjectiveFunction {
    let (corner, volume) = match metrics {
        MetricCount::Two => (vec![2.0; 2], 4.0 - PI / 4.0),
        MetricCount::Three => (vec![2.0; 3], 8.0 - PI / 6.0),
    };
    dtlz("dtlz2", metrics, dimensions, 1.25, corner, volume, dtlz2_values)
}

/// DTLZ7: the front has 2 pieces with two metrics and 4 with three.
///
/// The reference point is (2, 15) or (2, 2, 25). On the front the last metric is 2 m minus s(f) = f (1 + sin(3 pi f))
/// of each other metric. With S(f), the largest s up to f, the volume is the integral of (corner - 2 m + S(f1) + ...)
/// over the square of the others: 22 + J and 4 (25 - 6) + 4 J, where J is the integral of S from 0 to 2. S is constant
/// except on two pieces of s, whose ends are roots. Integrated with 30 digits.
pub fn dtlz7(metrics: MetricCount, dimensions: usize) -> MultiObjectiveFunction {
    let (corner, volume) = dtlz7_reference(metrics);
    dtlz("dtlz7", metrics, dimensions, 1.0, corner, volume, dtlz7_values)
}

/// Reference point of DTLZ7 and the volume of its front within it.
pub(super) fn dtlz7_reference(metrics: MetricCount) -> (Vec<f64>, f64) {
    const J: f64 = 2.4218302270278413;
    match metrics {
        MetricCount::Two => (vec![2.0, 15.0], 22.0 + J),
        MetricCount::Three => (vec![2.0, 2.0, 25.0], 76.0 + 4.0 * J),
    }
}

/// `places` is the number of metrics minus one, here and below.
pub(super) fn dtlz1_values(places: usize, x: &[f64]) -> Vec<f64> {
    let (place, distance) = x.split_at(places);
    let ripple = |x: &f64| 1.0 + (x - 0.5).powi(2) - (20.0 * PI * (x - 0.5)).cos();
    let g = 100.0 * distance.iter().map(ripple).sum::<f64>();
    on_shape(place, 0.5 * (1.0 + g), |x| x, |x| 1.0 - x)
}

pub(super) fn dtlz2_values(places: usize, x: &[f64]) -> Vec<f64> {
    let (place, distance) = x.split_at(places);
    let g = distance.iter().map(|x| (x - 0.5).powi(2)).sum::<f64>();
    on_shape(place, 1.0 + g, |x| (x * FRAC_PI_2).cos(), |x| (x * FRAC_PI_2).sin())
}

/// `scale` times the product of `inner` of the position parameters, the last of them replaced by `outer`: metric i has
/// all but the last i of them.
fn on_shape(place: &[f64], scale: f64, inner: fn(f64) -> f64, outer: fn(f64) -> f64) -> Vec<f64> {
    let metric = |index: usize| {
        let kept = place.len() - index;
        let product: f64 = place[..kept].iter().map(|&x| inner(x)).product();
        scale * product * place.get(kept).map_or(1.0, |&x| outer(x))
    };
    (0..=place.len()).map(metric).collect()
}

pub(super) fn dtlz7_values(places: usize, x: &[f64]) -> Vec<f64> {
    let (place, distance) = x.split_at(places);
    let g = 1.0 + 9.0 * distance.iter().sum::<f64>() / distance.len() as f64;
    let bends: f64 = place.iter().map(|f| f / (1.0 + g) * (1.0 + (3.0 * PI * f).sin())).sum();
    let mut values = place.to_vec();
    values.push((1.0 + g) * (places as f64 + 1.0 - bends));
    values
}

/// Creates a problem with position parameters in `[0, 1]` and distance parameters in `[0, widest]`.
fn dtlz(
    family: &str,
    metrics: MetricCount,
    dimensions: usize,
    widest: f64,
    corner: Vec<f64>,
    volume: f64,
    values: fn(usize, &[f64]) -> Vec<f64>,
) -> MultiObjectiveFunction {
    let count = metrics as usize;
    let mut ranges = vec![(0.0, widest); dimensions.max(count)];
    ranges[..count - 1].fill((0.0, 1.0));
    let name = format!("{family}/m{count:02}/d{:02}", ranges.len());
    super::function(name, box_of_doubles(&ranges), &vec![Goal::Minimize; count], corner, volume, move |point| {
        values(count - 1, &doubles(point))
    })
}
