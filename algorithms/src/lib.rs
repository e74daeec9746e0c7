//! Search algorithms for hyperparameter tuning.
//!
//! Everything here is a pure function of a problem, its trials and a seed: no files, no network, no clock, no
//! environment, no async runtime. The service that stores trials and runs programs lives in the `tunesmith` crate.

pub mod designer;
pub mod problem;
pub mod rng;
