#![doc = include_str!("../README.md")]

mod assets;
mod compare;
mod curve;
mod details;
mod errors;
mod events;
mod explore;
mod format;
mod frame;
mod job;
mod jobs;
mod login;
mod logs;
mod new_job;
mod overview;
mod plotly;
mod report;
mod router;
mod subject;
mod summary;
mod trial;
mod trials;

pub use router::{Services, router};
