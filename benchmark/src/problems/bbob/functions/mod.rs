//! The 24 functions by group. Each returns its value above the optimum.
//!
//! Source: INRIA RR-6829 (see [`super`]), sections 1 to 5, one per group. Where the report and the COCO platform
//! differ, we follow the platform; a comment marks each such place.
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

use std::fmt;

use super::matrix::Matrix;
use super::random;
use super::transformations::conditioning;

/// Value at a point (shape D) above that at the minimizer (shape D).
type Excess = Box<dyn Fn(&[f64], &[f64]) -> f64 + Send + Sync>;

/// Instance of one of the 24 functions, without its value at the optimum.
pub(super) struct Function {
    /// Shape D.
    pub(super) minimizer: Vec<f64>,
    excess: Excess,
}

impl Function {
    fn new(minimizer: Vec<f64>, excess: impl Fn(&[f64], &[f64]) -> f64 + Send + Sync + 'static) -> Self {
        Self { minimizer, excess: Box::new(excess) }
    }

    /// Value at `point` (shape D) above that at the minimizer; at least 0 up to rounding.
    pub(super) fn excess(&self, point: &[f64]) -> f64 {
        (self.excess)(point, &self.minimizer)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("minimizer", &self.minimizer).finish_non_exhaustive()
    }
}

/// Function with this number, from 1 to 24; `None` for other numbers.
pub(super) fn function(number: u8, dimensions: usize, instance: u64) -> Option<Function> {
    let draws = Draws { dimensions, seed: random::seed(number, instance) };
    Some(match number {
        1 => separable::sphere(&draws),
        2 => separable::ellipsoid(&draws),
        3 => separable::separable_rastrigin(&draws),
        4 => separable::bueche_rastrigin(&draws),
        5 => separable::linear_slope(&draws),
        6 => moderate::attractive_sector(&draws),
        7 => moderate::step_ellipsoid(&draws),
        8 => moderate::rosenbrock(&draws),
        9 => moderate::rotated_rosenbrock(&draws),
        10 => ill_conditioned::rotated_ellipsoid(&draws),
        11 => ill_conditioned::discus(&draws),
        12 => ill_conditioned::bent_cigar(&draws),
        13 => ill_conditioned::sharp_ridge(&draws),
        14 => ill_conditioned::different_powers(&draws),
        15 => multi_modal::rotated_rastrigin(&draws),
        16 => multi_modal::weierstrass(&draws),
        17 => multi_modal::schaffers(&draws, 10.0),
        18 => multi_modal::schaffers(&draws, 1000.0),
        19 => multi_modal::griewank_rosenbrock(&draws),
        20 => weakly_structured::schwefel(&draws),
        21 => gallagher::gallagher_101(&draws),
        22 => gallagher::gallagher_21(&draws),
        23 => weakly_structured::katsuura(&draws),
        24 => weakly_structured::lunacek_bi_rastrigin(&draws),
        _ => return None,
    })
}

/// Random parts of an instance.
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

    fn rotation_r(&self) -> Matrix {
        Matrix::rotation(self.dimensions, self.seed + Self::SECOND_SEED)
    }

    /// R Lambda^alpha Q.
    fn conditioned_rotation(&self, alpha: f64) -> Matrix {
        self.rotation_r().conditioned_product(&conditioning(alpha, self.dimensions), &self.rotation_q())
    }

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
