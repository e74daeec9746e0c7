//! Statistics for comparisons of optimizers: significance and size of differences.
//!
//! Every function is pure; random ones take a seed. Undefined results (of an empty sample or NaN) are an error or
//! `None`, never a plausible number. Values equal those of scipy where scipy has the statistic; each module states its
//! departures.

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
