//! Tests of the executor for Slurm on a real cluster of two nodes.

mod chaos;

mod engine;
mod scale;
