use std::f64::consts::TAU;

use tunesmith_algorithms::problem::ParameterValues;

use super::builders::{box_of_doubles, doubles, point_of_doubles};
use super::{Constrained, ConstrainedFunction};

/// A plane in the unit square with a sinusoidal and a circular constraint (Gramacy et al., Modeling an augmented
/// Lagrangian for blackbox constrained optimization, 2016, section 2.1).
///
/// The optimum, 0.5998 in the paper, is the point where the gradients of the sinusoidal constraint and of the plane are
/// parallel.
pub fn gramacy() -> ConstrainedFunction {
    let function = |point: &ParameterValues| {
        let x = doubles(point);
        let (a, b) = (x[0], x[1]);
        let wavy = 1.5 - a - 2.0 * b - 0.5 * (TAU * (a * a - 2.0 * b)).sin();
        Constrained { value: a + b, constraints: vec![wavy, a * a + b * b - 1.5] }
    };
    let minimizer = [0.1951226834727965, 0.4046653685381307];
    continuous("gramacy", &[(0.0, 1.0); 2], 0.5997880520100676, &minimizer, function)
}

/// The first problem of Gardner et al., Bayesian optimization with inequality constraints, 2014, section 4.1, in
/// `[0, 6]^2`.
///
/// Both terms of cos(2 x) cos(y) + sin(x) are -1 at (3 pi / 2, 0), where the constraint holds: the optimum is -2.
pub fn gardner1() -> ConstrainedFunction {
    let function = |point: &ParameterValues| {
        let x = doubles(point);
        let (a, b) = (x[0], x[1]);
        let value = (2.0 * a).cos() * b.cos() + a.sin();
        Constrained { value, constraints: vec![a.cos() * b.cos() - a.sin() * b.sin() - 0.5] }
    };
    continuous("gardner1", &[(0.0, 6.0); 2], -2.0, &[0.75 * TAU, 0.0], function)
}

/// The second problem of Gardner et al. in `[0, 6]^2`, whose feasible region is small: sin(x) sin(y) <= -0.95.
///
/// Where sin(x) is -s, y is at least arcsin(0.95 / s), so that sin(x) + y falls as s grows: the optimum is
/// arcsin(0.95) - 1, with x = 3 pi / 2.
pub fn gardner2() -> ConstrainedFunction {
    let function = |point: &ParameterValues| {
        let x = doubles(point);
        Constrained { value: x[0].sin() + x[1], constraints: vec![x[0].sin() * x[1].sin() + 0.95] }
    };
    let minimizer = [0.75 * TAU, 1.253235897503676];
    continuous("gardner2", &[(0.0, 6.0); 2], 0.2532358975033753, &minimizer, function)
}

fn continuous(
    name: &str,
    ranges: &[(f64, f64)],
    optimum: f64,
    minimizer: &[f64],
    function: fn(&ParameterValues) -> Constrained,
) -> ConstrainedFunction {
    super::function(name, box_of_doubles(ranges), optimum, point_of_doubles(minimizer), function)
}
