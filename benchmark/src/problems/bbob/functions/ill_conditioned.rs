//! f10 to f14: unimodal functions with high conditioning.

use super::super::random;
use super::super::transformations::{difference, make_asymmetric, oscillate_all, ramp};
use super::{Draws, Function, squared_norm, weighted_squares};

/// The condition number of f11 and f12, as a ratio of squares.
const CONDITION: f64 = 1e6;

/// f10, the ellipsoid: sum of 10^(6 i / (D - 1)) z_i^2 with z = T_osz(R (x - x_opt)).
pub(super) fn rotated_ellipsoid(draws: &Draws) -> Function {
    let weights: Vec<f64> = ramp(draws.dimensions).map(|exponent| 1e6_f64.powf(exponent)).collect();
    let rotation = draws.rotation_r();
    Function::new(draws.location(), move |point, minimizer| {
        let mut z = rotation.apply(&difference(point, minimizer));
        oscillate_all(&mut z);
        weighted_squares(&z, &weights)
    })
}

/// f11, the discus: 10^6 z_1^2 + the other squares, with z = T_osz(R (x - x_opt)).
pub(super) fn discus(draws: &Draws) -> Function {
    let rotation = draws.rotation_r();
    Function::new(draws.location(), move |point, minimizer| {
        let mut z = rotation.apply(&difference(point, minimizer));
        oscillate_all(&mut z);
        CONDITION * z[0] * z[0] + squared_norm(&z[1..])
    })
}

/// f12, the bent cigar: z_1^2 + 10^6 times the other squares, with z = R T_asy^0.5(R (x - x_opt)).
pub(super) fn bent_cigar(draws: &Draws) -> Function {
    // Only this minimizer is drawn with the seed of R.
    let minimizer = random::location(draws.dimensions, draws.seed + Draws::SECOND_SEED);
    let rotation = draws.rotation_r();
    Function::new(minimizer, move |point, minimizer| {
        let mut bent = rotation.apply(&difference(point, minimizer));
        make_asymmetric(0.5, &mut bent);
        let z = rotation.apply(&bent);
        z[0] * z[0] + CONDITION * squared_norm(&z[1..])
    })
}

/// f13, the sharp ridge: z_1^2 + 100 |(z_2, ..., z_D)|, with z = R Lambda^10 Q (x - x_opt).
pub(super) fn sharp_ridge(draws: &Draws) -> Function {
    let transformation = draws.conditioned_rotation(10.0);
    Function::new(draws.location(), move |point, minimizer| {
        let z = transformation.apply(&difference(point, minimizer));
        z[0] * z[0] + 100.0 * squared_norm(&z[1..]).sqrt()
    })
}

/// f14, different powers: the root of the sum of |z_i|^(2 + 4 i / (D - 1)), with z = R (x - x_opt).
pub(super) fn different_powers(draws: &Draws) -> Function {
    let rotation = draws.rotation_r();
    Function::new(draws.location(), move |point, minimizer| {
        let z = rotation.apply(&difference(point, minimizer));
        let powers = z.iter().zip(ramp(z.len())).map(|(value, share)| value.abs().powf(2.0 + 4.0 * share));
        powers.sum::<f64>().sqrt()
    })
}
