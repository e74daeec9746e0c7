//! What people configure, one area per file.

pub mod hptuning;
