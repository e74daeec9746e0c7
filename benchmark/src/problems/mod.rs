//! Benchmark problems, by family.

pub mod bbob;
pub mod binary;
pub mod categorical;
pub mod conditional;
pub mod constrained;
pub mod curves;
#[cfg(test)]
#[path = "tests/descent.rs"]
mod descent;
pub mod durations;
pub mod failing;
pub mod functions;
pub mod large;
pub mod measured_table;
pub mod multi_objective;
pub mod noisy;
pub mod outliers;
pub mod plateaus;
pub mod table;
pub mod tiny;
pub mod transfer;
