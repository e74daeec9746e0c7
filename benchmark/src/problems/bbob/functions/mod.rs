//! The 24 functions by group. Each returns its value above the optimum.
//!
//! Source: INRIA RR-6829 (see [`super`]), sections 1 to 5, one per group. Where the report and the COCO platform
//! differ, the platform is followed; a comment marks each such place.
//!
//! # Notation
//! As in [`super::transformations`], and
//!
//! | symbol | meaning | shape |
//! |---|---|---|
//! | x | the point | D |
//! | x_opt | the minimizer | D |
//! | z | the transformed point | D |
//! | R, Q | random orthogonal matrices | D x D |

mod gallagher;
mod ill_conditioned;
mod moderate;
mod multi_modal;
mod separable;
mod weakly_structured;

use std::fmt::Debug;

use super::matrix::Matrix;
use super::random;

/// An instance of one of the 24 functions, without its value at the optimum.
pub(super) trait Function: Debug + Send + Sync {
    /// The minimizer. Shape D.
    fn minimizer(&self) -> &[f64];

    /// Returns the value at `point` (shape D) minus that at the minimizer; at least 0 up to rounding.
    fn excess(&self, point: &[f64]) -> f64;
}

/// Returns the function with this number, from 1 to 24; `None` for other numbers.
pub(super) fn function(number: u8, dimensions: usize, instance: u64) -> Option<Box<dyn Function>> {
    let draws = Draws { dimensions, seed: random::seed(number, instance) };
    Some(match number {
        1 => Box::new(separable::Sphere::new(&draws)),
        2 => Box::new(separable::Ellipsoid::new(&draws)),
        3 => Box::new(separable::Rastrigin::new(&draws)),
        4 => Box::new(separable::BuecheRastrigin::new(&draws)),
        5 => Box::new(separable::LinearSlope::new(&draws)),
        6 => Box::new(moderate::AttractiveSector::new(&draws)),
        7 => Box::new(moderate::StepEllipsoid::new(&draws)),
        8 => Box::new(moderate::Rosenbrock::new(&draws)),
        9 => Box::new(moderate::RotatedRosenbrock::new(&draws)),
        10 => Box::new(ill_conditioned::RotatedEllipsoid::new(&draws)),
        11 => Box::new(ill_conditioned::Discus::new(&draws)),
        12 => Box::new(ill_conditioned::BentCigar::new(&draws)),
        13 => Box::new(ill_conditioned::SharpRidge::new(&draws)),
        14 => Box::new(ill_conditioned::DifferentPowers::new(&draws)),
        15 => Box::new(multi_modal::RotatedRastrigin::new(&draws)),
        16 => Box::new(multi_modal::Weierstrass::new(&draws)),
        17 => Box::new(multi_modal::Schaffers::new(&draws, 10.0)),
        18 => Box::new(multi_modal::Schaffers::new(&draws, 1000.0)),
        19 => Box::new(multi_modal::GriewankRosenbrock::new(&draws)),
        20 => Box::new(weakly_structured::Schwefel::new(&draws)),
        21 => Box::new(gallagher::Gallagher::with_101_peaks(&draws)),
        22 => Box::new(gallagher::Gallagher::with_21_peaks(&draws)),
        23 => Box::new(weakly_structured::Katsuura::new(&draws)),
        24 => Box::new(weakly_structured::LunacekBiRastrigin::new(&draws)),
        _ => return None,
    })
}

/// The sources of the random parts of an instance.
struct Draws {
    dimensions: usize,
    seed: i64,
}

impl Draws {
    /// Added to the seed for R, so that it differs from Q.
    const SECOND_SEED: i64 = 1_000_000;

    /// x_opt of most functions.
    fn location(&self) -> Vec<f64> {
        random::location(self.dimensions, self.seed)
    }

    /// R.
    fn rotation_r(&self) -> Matrix {
        Matrix::rotation(self.dimensions, self.seed + Self::SECOND_SEED)
    }

    /// Q.
    fn rotation_q(&self) -> Matrix {
        Matrix::rotation(self.dimensions, self.seed)
    }
}

/// Rastrigin's function of a transformed point: f3, f4 and f15.
fn rastrigin(z: &[f64]) -> f64 {
    let cosines: f64 = z.iter().map(|value| (std::f64::consts::TAU * value).cos()).sum();
    10.0 * (z.len() as f64 - cosines) + squared_norm(z)
}

/// The sum of 10^(6 i / (D - 1)) z_i^2: f2 and f10. `weights` has shape D.
fn weighted_squares(z: &[f64], weights: &[f64]) -> f64 {
    z.iter().zip(weights).map(|(value, weight)| weight * value * value).sum()
}

fn squared_norm(z: &[f64]) -> f64 {
    z.iter().map(|value| value * value).sum()
}
