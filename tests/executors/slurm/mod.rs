//! Tests of the executor for Slurm on a real cluster of two nodes.

mod built_in;
mod chaos;

mod engine;
mod scale;
