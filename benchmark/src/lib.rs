#![doc = include_str!("../README.md")]

pub mod analysis;
pub mod early_stopping;
pub mod optimizer;
pub mod problem;
pub mod problems;
pub mod record;
pub mod simulation;
