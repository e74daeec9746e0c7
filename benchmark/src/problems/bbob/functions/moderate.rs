//! f6 to f9: functions with low or moderate conditioning.

use super::super::transformations::{boundary_penalty, conditioning, difference, oscillate, ramp, round_half_up};
use super::{Draws, Function, weighted_squares};

/// f6, the attractive sector: T_osz(sum of (s_i z_i)^2)^0.9 with z = R Lambda^10 Q (x - x_opt), and s_i = 100 where z_i
/// has the sign of x_opt_i, else 1.
pub(super) fn attractive_sector(draws: &Draws) -> Function {
    let transformation = draws.conditioned_rotation(10.0);
    Function::new(draws.location(), move |point, minimizer| {
        let z = transformation.apply(&difference(point, minimizer));
        let parts = z.iter().zip(minimizer).map(|(value, optimum)| {
            let scaled = if value * optimum > 0.0 { 100.0 * value } else { *value };
            scaled * scaled
        });
        oscillate(parts.sum()).powf(0.9)
    })
}

/// f7, the step ellipsoid: 0.1 max(|zhat_1| / 10^4, sum of 10^(2 i / (D - 1)) z_i^2) + f_pen, with
/// zhat = Lambda^10 Q (x - x_opt) and z = R applied to zhat rounded to whole numbers, or to tenths close to 0.
pub(super) fn step_ellipsoid(draws: &Draws) -> Function {
    let inner = draws.rotation_q().with_rows_scaled(&conditioning(10.0, draws.dimensions));
    let outer = draws.rotation_r();
    let weights: Vec<f64> = ramp(draws.dimensions).map(|exponent| 100_f64.powf(exponent)).collect();
    Function::new(draws.location(), move |point, minimizer| {
        let mut steps = inner.apply(&difference(point, minimizer));
        let first = steps[0];
        for value in &mut steps {
            // The report has no absolute value in the condition.
            let whole = value.abs() > 0.5;
            *value = if whole { round_half_up(*value) } else { round_half_up(10.0 * *value) / 10.0 };
        }
        let z = outer.apply(&steps);
        0.1 * (first.abs() * 1e-4).max(weighted_squares(&z, &weights)) + boundary_penalty(point, 5.0)
    })
}

/// f8, Rosenbrock's function of z = max(1, sqrt(D) / 8) (x - x_opt) + 1, with the optimum in [-3, 3]^D.
pub(super) fn rosenbrock(draws: &Draws) -> Function {
    let minimizer = draws.location().into_iter().map(|coordinate| 0.75 * coordinate).collect();
    let factor = dimension_factor(draws.dimensions);
    Function::new(minimizer, move |point, minimizer| {
        let z: Vec<f64> = difference(point, minimizer).into_iter().map(|value| factor * value + 1.0).collect();
        rosenbrock_terms(&z).sum()
    })
}

/// f9, Rosenbrock's function of z = max(1, sqrt(D) / 8) Q x + 1/2. The minimizer follows from z = 1.
pub(super) fn rotated_rosenbrock(draws: &Draws) -> Function {
    on_rotated_line(draws, |z| rosenbrock_terms(z).sum())
}

/// Applies `excess` to the z of f9; the minimizer has z = 1 in each coordinate.
pub(super) fn on_rotated_line(draws: &Draws, excess: fn(&[f64]) -> f64) -> Function {
    let rotation = draws.rotation_q();
    let factor = dimension_factor(draws.dimensions);
    let minimizer = rotation.column_sums().into_iter().map(|sum| sum / (2.0 * factor)).collect();
    let transformation = rotation.with_rows_scaled(&vec![factor; draws.dimensions]);
    Function::new(minimizer, move |point, _| {
        let z: Vec<f64> = transformation.apply(point).into_iter().map(|value| value + 0.5).collect();
        excess(&z)
    })
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
