//! f10 to f14: unimodal functions with high conditioning.

use super::super::matrix::Matrix;
use super::super::random;
use super::super::transformations::{conditioning, difference, make_asymmetric, oscillate_all, ramp};
use super::{Draws, Function, squared_norm, weighted_squares};

/// The condition number of f11 and f12, as a ratio of squares.
const CONDITION: f64 = 1e6;

/// f10, the ellipsoid: sum of 10^(6 i / (D - 1)) z_i^2 with z = T_osz(R (x - x_opt)).
#[derive(Debug)]
pub(super) struct RotatedEllipsoid {
    minimizer: Vec<f64>,
    rotation: Matrix,
    weights: Vec<f64>,
}

impl RotatedEllipsoid {
    pub(super) fn new(draws: &Draws) -> Self {
        let weights = ramp(draws.dimensions).map(|exponent| 1e6_f64.powf(exponent)).collect();
        Self { minimizer: draws.location(), rotation: draws.rotation_r(), weights }
    }
}

impl Function for RotatedEllipsoid {
    fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        let mut z = self.rotation.apply(&difference(point, &self.minimizer));
        oscillate_all(&mut z);
        weighted_squares(&z, &self.weights)
    }
}

/// f11, the discus: 10^6 z_1^2 + the other squares, with z = T_osz(R (x - x_opt)).
#[derive(Debug)]
pub(super) struct Discus {
    minimizer: Vec<f64>,
    rotation: Matrix,
}

impl Discus {
    pub(super) fn new(draws: &Draws) -> Self {
        Self { minimizer: draws.location(), rotation: draws.rotation_r() }
    }
}

impl Function for Discus {
    fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        let mut z = self.rotation.apply(&difference(point, &self.minimizer));
        oscillate_all(&mut z);
        CONDITION * z[0] * z[0] + squared_norm(&z[1..])
    }
}

/// f12, the bent cigar: z_1^2 + 10^6 times the other squares, with z = R T_asy^0.5(R (x - x_opt)).
#[derive(Debug)]
pub(super) struct BentCigar {
    minimizer: Vec<f64>,
    rotation: Matrix,
}

impl BentCigar {
    pub(super) fn new(draws: &Draws) -> Self {
        // Only this minimizer is drawn with the seed of R.
        let minimizer = random::location(draws.dimensions, draws.seed + Draws::SECOND_SEED);
        Self { minimizer, rotation: draws.rotation_r() }
    }
}

impl Function for BentCigar {
    fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        let mut bent = self.rotation.apply(&difference(point, &self.minimizer));
        make_asymmetric(0.5, &mut bent);
        let z = self.rotation.apply(&bent);
        z[0] * z[0] + CONDITION * squared_norm(&z[1..])
    }
}

/// f13, the sharp ridge: z_1^2 + 100 |(z_2, ..., z_D)|, with z = R Lambda^10 Q (x - x_opt).
#[derive(Debug)]
pub(super) struct SharpRidge {
    minimizer: Vec<f64>,
    transformation: Matrix,
}

impl SharpRidge {
    pub(super) fn new(draws: &Draws) -> Self {
        let scales = conditioning(10.0, draws.dimensions);
        let transformation = draws.rotation_r().conditioned_product(&scales, &draws.rotation_q());
        Self { minimizer: draws.location(), transformation }
    }
}

impl Function for SharpRidge {
    fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        let z = self.transformation.apply(&difference(point, &self.minimizer));
        z[0] * z[0] + 100.0 * squared_norm(&z[1..]).sqrt()
    }
}

/// f14, different powers: the root of the sum of |z_i|^(2 + 4 i / (D - 1)), with z = R (x - x_opt).
#[derive(Debug)]
pub(super) struct DifferentPowers {
    minimizer: Vec<f64>,
    rotation: Matrix,
}

impl DifferentPowers {
    pub(super) fn new(draws: &Draws) -> Self {
        Self { minimizer: draws.location(), rotation: draws.rotation_r() }
    }
}

impl Function for DifferentPowers {
    fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        let z = self.rotation.apply(&difference(point, &self.minimizer));
        let powers = z.iter().zip(ramp(z.len())).map(|(value, share)| value.abs().powf(2.0 + 4.0 * share));
        powers.sum::<f64>().sqrt()
    }
}
