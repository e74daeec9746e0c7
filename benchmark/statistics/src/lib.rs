#![doc = include_str!("../README.md")]

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
pub mod welch;
pub mod wilcoxon;

pub use error::StatisticsError;
