//! The ZDT problems. Source: Zitzler, Deb and Thiele, Comparison of multiobjective evolutionary algorithms: empirical
//! results, 2000, section 4.
//!
//! Two metrics are minimised. The front is where g, a function of all parameters except the first, is 1. The reference
//! point is (2, 11), except for ZDT4: twice the range of the first metric, and the second metric at random points. The
//! area below a front f2(f1) is undominated, so the volume is an integral in one variable: that of the least f2 so far,
//! from the least f1 up to the corner.

use std::f64::consts::PI;

use tunesmith_algorithms::problem::{Goal, ParameterValues};

use super::MultiObjectiveFunction;
use super::builders::{box_of_doubles, doubles};

/// ZDT1: a convex front, f2 = 1 - sqrt(f1). `dimensions` is at least 2.
///
/// Volume: 22 - 1/3.
pub fn zdt1(dimensions: usize) -> MultiObjectiveFunction {
    let values = |point: &ParameterValues| {
        let x = doubles(point);
        let g = linear_distance(&x);
        vec![x[0], g * (1.0 - (x[0] / g).sqrt())]
    };
    zdt("zdt1", dimensions, (0.0, 1.0), 11.0, 22.0 - 1.0 / 3.0, values)
}

/// ZDT2: a concave front, f2 = 1 - f1^2. `dimensions` is at least 2.
///
/// Volume: 22 - 2/3.
pub fn zdt2(dimensions: usize) -> MultiObjectiveFunction {
    let values = |point: &ParameterValues| {
        let x = doubles(point);
        let g = linear_distance(&x);
        vec![x[0], g * (1.0 - (x[0] / g).powi(2))]
    };
    zdt("zdt2", dimensions, (0.0, 1.0), 11.0, 22.0 - 2.0 / 3.0, values)
}

/// ZDT3: a front of five pieces of f2 = 1 - sqrt(f1) - f1 sin(10 pi f1). `dimensions` is at least 2.
///
/// Volume: the least f2 so far is constant between the pieces, whose ends are roots. Integrated with 30 digits.
pub fn zdt3(dimensions: usize) -> MultiObjectiveFunction {
    let values = |point: &ParameterValues| {
        let x = doubles(point);
        let g = linear_distance(&x);
        let ratio = x[0] / g;
        vec![x[0], g * (1.0 - ratio.sqrt() - ratio * (10.0 * PI * x[0]).sin())]
    };
    zdt("zdt3", dimensions, (0.0, 1.0), 11.0, 22.817795019750996, values)
}

/// ZDT4: the front of ZDT1, with 21^(dimensions - 1) local fronts. `dimensions` is at least 2.
///
/// The range is `[-4, 6]` except for the first parameter; the usual `[-5, 5]` has the front in its middle. The
/// reference point is (2, 100), the volume 200 - 1/3.
pub fn zdt4(dimensions: usize) -> MultiObjectiveFunction {
    let values = |point: &ParameterValues| {
        let x = doubles(point);
        let g = 1.0 + x[1..].iter().map(|x| 10.0 + x * x - 10.0 * (4.0 * PI * x).cos()).sum::<f64>();
        vec![x[0], g * (1.0 - (x[0] / g).sqrt())]
    };
    zdt("zdt4", dimensions, (-4.0, 6.0), 100.0, 200.0 - 1.0 / 3.0, values)
}

/// ZDT6: a concave front, f2 = 1 - f1^2 from f1 = 0.28, with a low density of points near it. `dimensions` is at least
/// 2.
///
/// Volume: 10 (1 - a) + (1 - a^3) / 3 + 11 with the least f1, a = 0.280775318815369703, found by Newton's method.
pub fn zdt6(dimensions: usize) -> MultiObjectiveFunction {
    let values = |point: &ParameterValues| {
        let x = doubles(point);
        let first = 1.0 - (-4.0 * x[0]).exp() * (6.0 * PI * x[0]).sin().powi(6);
        let g = 1.0 + 9.0 * (x[1..].iter().sum::<f64>() / (x.len() as f64 - 1.0)).powf(0.25);
        vec![first, g * (1.0 - (first / g).powi(2))]
    };
    zdt("zdt6", dimensions, (0.0, 1.0), 11.0, 18.51820185838243, values)
}

fn linear_distance(x: &[f64]) -> f64 {
    1.0 + 9.0 * x[1..].iter().sum::<f64>() / (x.len() as f64 - 1.0)
}

/// Creates a problem with the first parameter in `[0, 1]`, the others in `range`, and the reference point (2,
/// `corner`).
fn zdt(
    family: &str,
    dimensions: usize,
    range: (f64, f64),
    corner: f64,
    volume: f64,
    values: fn(&ParameterValues) -> Vec<f64>,
) -> MultiObjectiveFunction {
    let mut ranges = vec![range; dimensions.max(2)];
    ranges[0] = (0.0, 1.0);
    let name = format!("{family}/d{:02}", ranges.len());
    let parameters = box_of_doubles(&ranges);
    super::function(name, parameters, &[Goal::Minimize; 2], vec![2.0, corner], volume, values)
}
