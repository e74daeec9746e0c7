#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod acquisition;
pub mod designer;
pub mod designers;
pub mod early_stopping;
pub mod encoding;
pub mod expected_gain;
pub mod gp;
pub mod hypervolume;
pub mod insight;
pub mod interruption;
pub mod numerics;
pub mod output_warp;
pub mod prior;
pub mod problem;
pub mod rng;
pub mod rounded;
pub mod sampling;
mod stopped_early;
mod suspicion;
#[cfg(test)]
#[path = "../tests/contract/mod.rs"]
mod testing;
pub mod transfer;
