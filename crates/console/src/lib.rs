#![doc = include_str!("../README.md")]

mod access;
mod actions;
mod artifacts;
mod assets;
mod compare;
mod curve;
mod details;
mod errors;
mod events;
mod explore;
mod format;
mod frame;
mod health;
mod job;
mod job_form;
mod jobs;
mod login;
mod logs;
mod metrics;
mod new_job;
mod overview;
mod plotly;
mod report;
mod router;
mod server;
mod study_form;
mod subject;
mod summary;
mod trial;
mod trial_form;
mod trials;
mod workers;

pub use router::{Services, router};
pub use server::{ServerFacts, Setting};
