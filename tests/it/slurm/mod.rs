//! Tests of the executor for Slurm on a real cluster of two nodes.

mod chaos;
pub(crate) mod cluster;
mod engine;
mod scale;
