#![doc = include_str!("../README.md")]

mod assets;
mod errors;
mod format;
mod frame;
mod job;
mod jobs;
mod overview;
mod router;
mod subject;
mod summary;
mod trials;

pub use router::{Services, router};
