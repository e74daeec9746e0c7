//! f6 to f9: functions with low or moderate conditioning.

use super::super::matrix::Matrix;
use super::super::transformations::{boundary_penalty, conditioning, difference, oscillate, ramp, round_half_up};
use super::{Draws, Function, weighted_squares};

/// f6, the attractive sector: T_osz(sum of (s_i z_i)^2)^0.9 with z = R Lambda^10 Q (x - x_opt), and s_i = 100 where z_i
/// has the sign of x_opt_i, else 1.
#[derive(Debug)]
pub(super) struct AttractiveSector {
    minimizer: Vec<f64>,
    transformation: Matrix,
}

impl AttractiveSector {
    pub(super) fn new(draws: &Draws) -> Self {
        let scales = conditioning(10.0, draws.dimensions);
        let transformation = draws.rotation_r().conditioned_product(&scales, &draws.rotation_q());
        Self { minimizer: draws.location(), transformation }
    }
}

impl Function for AttractiveSector {
    fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        let z = self.transformation.apply(&difference(point, &self.minimizer));
        let parts = z.iter().zip(&self.minimizer).map(|(value, optimum)| {
            let scaled = if value * optimum > 0.0 { 100.0 * value } else { *value };
            scaled * scaled
        });
        oscillate(parts.sum()).powf(0.9)
    }
}

/// f7, the step ellipsoid: 0.1 max(|zhat_1| / 10^4, sum of 10^(2 i / (D - 1)) z_i^2) + f_pen, with
/// zhat = Lambda^10 Q (x - x_opt) and z = R applied to zhat rounded to whole numbers, or to tenths close to 0.
#[derive(Debug)]
pub(super) struct StepEllipsoid {
    minimizer: Vec<f64>,
    inner: Matrix,
    outer: Matrix,
    weights: Vec<f64>,
}

impl StepEllipsoid {
    pub(super) fn new(draws: &Draws) -> Self {
        Self {
            minimizer: draws.location(),
            inner: draws.rotation_q().with_rows_scaled(&conditioning(10.0, draws.dimensions)),
            outer: draws.rotation_r(),
            weights: ramp(draws.dimensions).map(|exponent| 100_f64.powf(exponent)).collect(),
        }
    }
}

impl Function for StepEllipsoid {
    fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        let mut steps = self.inner.apply(&difference(point, &self.minimizer));
        let first = steps[0];
        for value in &mut steps {
            // The report has no absolute value in the condition.
            let whole = value.abs() > 0.5;
            *value = if whole { round_half_up(*value) } else { round_half_up(10.0 * *value) / 10.0 };
        }
        let z = self.outer.apply(&steps);
        0.1 * (first.abs() * 1e-4).max(weighted_squares(&z, &self.weights)) + boundary_penalty(point, 5.0)
    }
}

/// f8, Rosenbrock's function of z = max(1, sqrt(D) / 8) (x - x_opt) + 1, with the optimum in [-3, 3]^D.
#[derive(Debug)]
pub(super) struct Rosenbrock {
    minimizer: Vec<f64>,
    factor: f64,
}

impl Rosenbrock {
    pub(super) fn new(draws: &Draws) -> Self {
        let minimizer = draws.location().into_iter().map(|coordinate| 0.75 * coordinate).collect();
        Self { minimizer, factor: dimension_factor(draws.dimensions) }
    }
}

impl Function for Rosenbrock {
    fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        let z: Vec<f64> =
            difference(point, &self.minimizer).into_iter().map(|value| self.factor * value + 1.0).collect();
        rosenbrock_terms(&z).sum()
    }
}

/// f9, Rosenbrock's function of z = max(1, sqrt(D) / 8) Q x + 1/2. The minimizer follows from z = 1.
#[derive(Debug)]
pub(super) struct RotatedRosenbrock {
    line: RotatedLine,
}

impl RotatedRosenbrock {
    pub(super) fn new(draws: &Draws) -> Self {
        Self { line: RotatedLine::new(draws) }
    }
}

impl Function for RotatedRosenbrock {
    fn minimizer(&self) -> &[f64] {
        &self.line.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        rosenbrock_terms(&self.line.apply(point)).sum()
    }
}

/// The transformation of f9 and f19.
#[derive(Debug)]
pub(super) struct RotatedLine {
    /// The point where z is 1 in each coordinate.
    pub(super) minimizer: Vec<f64>,
    transformation: Matrix,
}

impl RotatedLine {
    pub(super) fn new(draws: &Draws) -> Self {
        let rotation = draws.rotation_q();
        let factor = dimension_factor(draws.dimensions);
        Self {
            minimizer: rotation.column_sums().into_iter().map(|sum| sum / (2.0 * factor)).collect(),
            transformation: rotation.with_rows_scaled(&vec![factor; draws.dimensions]),
        }
    }

    /// z.
    pub(super) fn apply(&self, point: &[f64]) -> Vec<f64> {
        self.transformation.apply(point).into_iter().map(|value| value + 0.5).collect()
    }
}

fn dimension_factor(dimensions: usize) -> f64 {
    ((dimensions as f64).sqrt() / 8.0).max(1.0)
}

/// The D - 1 terms 100 (z_i^2 - z_(i+1))^2 + (z_i - 1)^2 of Rosenbrock's function.
pub(super) fn rosenbrock_terms(z: &[f64]) -> impl Iterator<Item = f64> {
    z.windows(2).map(|pair| {
        let (bend, distance) = (pair[0] * pair[0] - pair[1], pair[0] - 1.0);
        100.0 * bend * bend + distance * distance
    })
}
