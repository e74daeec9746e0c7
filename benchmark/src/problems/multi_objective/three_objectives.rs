//! Problems with three metrics and known fronts, of which the best distance parameters move with the instance: neither
//! the centre nor the listed order of levels helps.
//!
//! DTLZ1, DTLZ2 and DTLZ7, the convex DTLZ2 of Deb and Jain 2014, An evolutionary many-objective optimization algorithm
//! using reference-point-based nondominated sorting approach, part I, and DTLZ2 in a mixed space.

use std::f64::consts::PI;

use tunesmith_algorithms::encoding::Encoding;
use tunesmith_algorithms::problem::{Goal, ParameterSpec, ScaleType, SearchSpace};

use super::builders::{box_of_doubles, categorical, double, integer, parameter};
use super::dtlz::{dtlz1_values, dtlz2_values, dtlz7_reference, dtlz7_values};
use super::{MetricCount, MultiObjectiveFunction};
use crate::problems::categorical::coefficient;

/// Number of position parameters, which come first in name order.
const PLACES: usize = 2;
/// Distance of two categories, in ranges.
const CATEGORIES_APART: f64 = 0.5;

/// Constructors of the problems, by instance number.
pub fn three_objectives() -> [fn(u64) -> MultiObjectiveFunction; 6] {
    [dtlz1, dtlz2_small, dtlz2_large, convex_dtlz2, dtlz7, mixed_dtlz2]
}

/// Reference point and volume of [`super::dtlz1`].
fn dtlz1(instance: u64) -> MultiObjectiveFunction {
    let volume = 400.0 * 400.0 * 400.0 - 1.0 / 48.0;
    moved("dtlz1", doubles(5), instance, (vec![400.0; 3], volume), |x| dtlz1_values(PLACES, &around_half(x)))
}

fn dtlz2_small(instance: u64) -> MultiObjectiveFunction {
    dtlz2("dtlz2", doubles(5), instance)
}

fn dtlz2_large(instance: u64) -> MultiObjectiveFunction {
    dtlz2("dtlz2", doubles(7), instance)
}

/// Distance parameters of all kinds.
fn mixed_dtlz2(instance: u64) -> MultiObjectiveFunction {
    let mut parameters = doubles(4);
    parameters.extend([
        parameter("x05", double(1e-5, 1.0, ScaleType::UnitLog)),
        parameter("x06", integer(1, 9, ScaleType::UnitLinear)),
        parameter("x07", categorical(&["a", "b", "c", "d"])),
    ]);
    dtlz2("mixed_dtlz2", parameters, instance)
}

/// Reference point and volume of [`super::dtlz2`].
fn dtlz2(title: &str, parameters: Vec<ParameterSpec>, instance: u64) -> MultiObjectiveFunction {
    let volume = 8.0 - PI / 6.0;
    moved(title, parameters, instance, (vec![2.0; 3], volume), |x| dtlz2_values(PLACES, &around_half(x)))
}

/// Metrics a, b, c of DTLZ2 become a^4, b^4 and c^2. The front is where the square roots of the first two and the third
/// sum to 1; the undominated part within the reference point (2, 2, 2) is below it, with the volume 1/30.
fn convex_dtlz2(instance: u64) -> MultiObjectiveFunction {
    moved("convex_dtlz2", doubles(6), instance, (vec![2.0; 3], 8.0 - 1.0 / 30.0), |x| {
        let values = dtlz2_values(PLACES, &around_half(x));
        vec![values[0].powi(4), values[1].powi(4), values[2].powi(2)]
    })
}

/// Reference point and volume of [`super::dtlz7`].
fn dtlz7(instance: u64) -> MultiObjectiveFunction {
    moved("dtlz7", doubles(6), instance, dtlz7_reference(MetricCount::Three), |x| {
        let mut x = x.to_vec();
        x[PLACES..].iter_mut().for_each(|offset| *offset = offset.abs());
        dtlz7_values(PLACES, &x)
    })
}

fn doubles(count: usize) -> Vec<ParameterSpec> {
    box_of_doubles(&vec![(0.0, 1.0); count])
}

/// Position parameters, and distance parameters whose best value is 1/2.
fn around_half(x: &[f64]) -> Vec<f64> {
    let mut x = x.to_vec();
    x[PLACES..].iter_mut().for_each(|offset| *offset += 0.5);
    x
}

/// Creates a problem. `values` gets the position parameters and the offset of each distance parameter from its best
/// place, which is random, both in ranges. `reference` is the reference point and the volume of the front within it.
fn moved(
    title: &str,
    parameters: Vec<ParameterSpec>,
    instance: u64,
    reference: (Vec<f64>, f64),
    values: impl Fn(&[f64]) -> Vec<f64> + Send + Sync + 'static,
) -> MultiObjectiveFunction {
    let space = SearchSpace::new(parameters.clone()).expect("the parameters have different names");
    let encoding = Encoding::new(&space);
    let best = best_point(&encoding, instance);
    let name = format!("{title}/d{:02}", parameters.len());
    super::function(name, parameters, &[Goal::Minimize; 3], reference.0, reference.1, move |point| {
        let mut x = encoding.encode(point).expect("a point of the space");
        for j in PLACES..x.len() {
            x[j] = match encoding.categorical()[j] {
                true => CATEGORIES_APART * f64::from(u8::from(x[j] != best[j])),
                false => x[j] - best[j],
            };
        }
        values(&x)
    })
}

/// Random feasible point, whose distance parameters are best.
fn best_point(encoding: &Encoding, instance: u64) -> Vec<f64> {
    let draw = |j: usize| coefficient(&[71, instance as usize, j]);
    let mut best: Vec<f64> = (0..encoding.dimensions()).map(|j| encoding.coordinate_from_uniform(j, draw(j))).collect();
    encoding.snap(&mut best);
    best
}

/// Grid of `steps` + 1 points along both position parameters, with the best distance parameters.
#[cfg(test)]
pub(super) fn moved_pareto_set(
    function: &MultiObjectiveFunction,
    instance: u64,
    steps: usize,
) -> Vec<tunesmith_algorithms::problem::ParameterValues> {
    use crate::problem::Problem;

    let encoding = Encoding::new(function.statement().search_space());
    let best = best_point(&encoding, instance);
    let side = |index: usize| index as f64 / steps as f64;
    let point = |number: usize| {
        let mut x = best.clone();
        x[..PLACES].copy_from_slice(&[side(number % (steps + 1)), side(number / (steps + 1))]);
        encoding.decode(&x)
    };
    (0..(steps + 1).pow(2)).map(point).collect()
}
