#![doc = include_str!("../README.md")]

mod assets;
mod errors;
mod explore;
mod format;
mod frame;
mod job;
mod jobs;
mod overview;
mod plotly;
mod router;
mod subject;
mod summary;
mod trials;

pub use router::{Services, router};
