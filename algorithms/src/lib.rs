#![doc = include_str!("../README.md")]

pub mod acquisition;
pub mod designer;
pub mod designers;
pub mod early_stopping;
pub mod encoding;
pub mod gp;
pub mod insight;
pub mod numerics;
pub mod output_warp;
pub mod prior;
pub mod problem;
pub mod rng;
pub mod sampling;
#[cfg(feature = "testing")]
pub mod testing;
pub mod transfer;
