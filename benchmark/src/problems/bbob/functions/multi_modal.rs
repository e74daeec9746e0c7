//! f15 to f19: multi-modal functions with a global structure.

use std::f64::consts::TAU;

use super::super::transformations::{boundary_penalty, conditioning, difference, make_asymmetric, oscillate_all};
use super::moderate::{on_rotated_line, rosenbrock_terms};
use super::{Draws, Function, rastrigin};

/// f15, Rastrigin's function of z = R Lambda^10 Q T_asy^0.2(T_osz(R (x - x_opt))).
pub(super) fn rotated_rastrigin(draws: &Draws) -> Function {
    let (inner, outer) = (draws.rotation_r(), draws.conditioned_rotation(10.0));
    Function::new(draws.location(), move |point, minimizer| {
        let mut bent = inner.apply(&difference(point, minimizer));
        oscillate_all(&mut bent);
        make_asymmetric(0.2, &mut bent);
        rastrigin(&outer.apply(&bent))
    })
}

const WEIERSTRASS_TERMS: i32 = 12;

/// f16, Weierstrass's function: 10 (w(z) - w(0))^3 + 10 / D f_pen, where w is the mean over the coordinates of the sum
/// over k < 12 of 2^-k cos(2 pi 3^k (z_i + 1/2)), and z = R Lambda^(1/100) Q T_osz(R (x - x_opt)).
pub(super) fn weierstrass(draws: &Draws) -> Function {
    let (inner, outer) = (draws.rotation_r(), draws.conditioned_rotation(0.01));
    // Pairs of 2^-k and 3^k.
    let terms: Vec<(f64, f64)> = (0..WEIERSTRASS_TERMS).map(|k| (0.5_f64.powi(k), 3_f64.powi(k))).collect();
    let series = move |value: f64| -> f64 {
        terms.iter().map(|(amplitude, frequency)| (TAU * (value + 0.5) * frequency).cos() * amplitude).sum()
    };
    let least = series(0.0);
    Function::new(draws.location(), move |point, minimizer| {
        let mut bent = inner.apply(&difference(point, minimizer));
        oscillate_all(&mut bent);
        let z = outer.apply(&bent);
        let dimensions = z.len() as f64;
        let mean = z.iter().map(|value| series(*value)).sum::<f64>() / dimensions;
        10.0 * (mean - least).powi(3) + 10.0 / dimensions * boundary_penalty(point, 5.0)
    })
}

/// f17 and f18, Schaffers' F7: the square of the mean of s_i^(1/2) (1 + sin(50 s_i^(1/5))^2), where
/// s_i^2 = z_i^2 + z_(i+1)^2 and z = Lambda^alpha Q T_asy^0.5(R (x - x_opt)); plus 10 f_pen. `alpha` is 10 in f17 and
/// 1000 in f18.
pub(super) fn schaffers(draws: &Draws, alpha: f64) -> Function {
    let inner = draws.rotation_r();
    let outer = draws.rotation_q().with_rows_scaled(&conditioning(alpha, draws.dimensions));
    Function::new(draws.location(), move |point, minimizer| {
        let mut bent = inner.apply(&difference(point, minimizer));
        make_asymmetric(0.5, &mut bent);
        let z = outer.apply(&bent);
        let terms = z.windows(2).map(|pair| {
            let square = pair[0] * pair[0] + pair[1] * pair[1];
            let wave = (50.0 * square.powf(0.1)).sin();
            square.powf(0.25) * (1.0 + wave * wave)
        });
        let mean = terms.sum::<f64>() / (z.len() as f64 - 1.0);
        mean * mean + 10.0 * boundary_penalty(point, 5.0)
    })
}

/// f19, Griewank's function of Rosenbrock's: 10 plus 10 times the mean of s_i / 4000 - cos(s_i), where s_i are the terms
/// of f9.
pub(super) fn griewank_rosenbrock(draws: &Draws) -> Function {
    on_rotated_line(draws, |z| {
        let sum: f64 = rosenbrock_terms(z).map(|term| term / 4000.0 - term.cos()).sum();
        10.0 + 10.0 * sum / (z.len() as f64 - 1.0)
    })
}
