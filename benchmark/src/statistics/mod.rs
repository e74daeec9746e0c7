//! Statistics for comparisons: which differences between optimizers are real, and how large they are.
//!
//! Every function is pure; what is random takes a seed. Input that has no answer (an empty sample, NaN) is an error or
//! `None`, never a plausible number. Values equal those of scipy where scipy has them; each file says where it departs.

pub mod bootstrap;
pub mod decision;
pub mod ecdf;
mod error;
pub mod friedman;
pub mod holm;
pub mod nemenyi;
pub mod ranks;
pub mod score;
pub mod summary;
pub mod wilcoxon;

pub use error::StatisticsError;
