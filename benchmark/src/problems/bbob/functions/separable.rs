//! f1 to f5: separable functions.

use super::super::transformations::{boundary_penalty, conditioning, difference, make_asymmetric, oscillate_all, ramp};
use super::{Draws, Function, rastrigin, squared_norm, weighted_squares};

/// f1, the sphere: |x - x_opt|^2.
pub(super) fn sphere(draws: &Draws) -> Function {
    Function::new(draws.location(), |point, minimizer| squared_norm(&difference(point, minimizer)))
}

/// f2, the ellipsoid: sum of 10^(6 i / (D - 1)) z_i^2 with z = T_osz(x - x_opt).
pub(super) fn ellipsoid(draws: &Draws) -> Function {
    let weights: Vec<f64> = ramp(draws.dimensions).map(|exponent| 1e6_f64.powf(exponent)).collect();
    Function::new(draws.location(), move |point, minimizer| {
        let mut z = difference(point, minimizer);
        oscillate_all(&mut z);
        weighted_squares(&z, &weights)
    })
}

/// f3, Rastrigin's function of z = Lambda^10 T_asy^0.2(T_osz(x - x_opt)).
pub(super) fn separable_rastrigin(draws: &Draws) -> Function {
    let scales = conditioning(10.0, draws.dimensions);
    Function::new(draws.location(), move |point, minimizer| {
        let mut z = difference(point, minimizer);
        oscillate_all(&mut z);
        make_asymmetric(0.2, &mut z);
        z.iter_mut().zip(&scales).for_each(|(value, scale)| *value *= scale);
        rastrigin(&z)
    })
}

/// f4, the Büche-Rastrigin function: Rastrigin's of z_i = s_i T_osz(x_i - x_opt_i), where s_i is that of Lambda^10, and
/// ten times that for positive values of every other variable, from the first; plus 100 f_pen.
pub(super) fn bueche_rastrigin(draws: &Draws) -> Function {
    let mut minimizer = draws.location();
    // The variables with two scales have a positive optimum, which the report does not state.
    minimizer.iter_mut().step_by(2).for_each(|coordinate| *coordinate = coordinate.abs());
    let scales = conditioning(10.0, draws.dimensions);
    Function::new(minimizer, move |point, minimizer| {
        let mut z = difference(point, minimizer);
        oscillate_all(&mut z);
        for (i, (value, scale)) in z.iter_mut().zip(&scales).enumerate() {
            let steeper = if *value > 0.0 && i % 2 == 0 { 10.0 } else { 1.0 };
            *value *= scale * steeper;
        }
        rastrigin(&z) + 100.0 * boundary_penalty(point, 5.0)
    })
}

/// f5, the linear slope: sum of 5 |s_i| - s_i z_i, where s_i is that of Lambda^100 with the sign of x_opt_i, and z_i is
/// x_i, or x_opt_i beyond it. The minimizer is a corner of the box.
pub(super) fn linear_slope(draws: &Draws) -> Function {
    let minimizer: Vec<f64> = draws.location().into_iter().map(|coordinate| 5_f64.copysign(coordinate)).collect();
    let slopes = conditioning(100.0, draws.dimensions).into_iter().zip(&minimizer);
    let slopes: Vec<f64> = slopes.map(|(slope, corner)| slope.copysign(*corner)).collect();
    Function::new(minimizer, move |point, minimizer| {
        let parts = point.iter().zip(minimizer).zip(&slopes).map(|((value, corner), slope)| {
            let z = if value * corner < 25.0 { value } else { corner };
            5.0 * slope.abs() - slope * z
        });
        parts.sum()
    })
}
