//! Gaussian-process regression on encoded points.
//!
//! Notation used throughout: `n` observations, `d` features, `X` (n x d) encoded points, `y` (n) standardised values,
//! `K` (n x n) covariance of the noisy observations, `L` its Cholesky factor, `a = inv(K) y`.

mod features;
mod fit;
mod hyperparameters;
mod kernel;
mod loss;
mod matern;
mod posterior;
mod stacked;
mod subset;
#[cfg(test)]
mod tests;
mod training_set;
#[cfg(test)]
#[path = "tests/work.rs"]
pub(crate) mod work;

pub use fit::{fit, refit};
pub use hyperparameters::Hyperparameters;
pub use kernel::Kernel;
pub use loss::negative_log_posterior;
pub use posterior::{Posterior, Prediction, RunningPrediction};
pub use stacked::{Line, RunningStackedPrediction, StackedPosterior, StackedPrediction};
pub use subset::representative_subset;
pub use training_set::TrainingSet;
