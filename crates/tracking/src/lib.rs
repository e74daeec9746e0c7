#![doc = include_str!("../README.md")]

mod destination;
mod error;
mod live;
pub mod mlflow;
mod optuna;
mod parquet;
mod results;
mod subject;
mod synchronization;
pub mod tensorboard;
#[cfg(test)]
mod testing;

pub use destination::{Destination, Finish, View};
pub use error::TrackingError;
pub use live::{Destinations, LiveTracking, StateStore, TrackingState};
pub use optuna::{JournalError, JournalSummary, optuna_journal};
pub use parquet::{Column, TooLarge, Values, parquet};
pub use results::Results;
pub use subject::{Outcome, Subject, SubjectKind, job_outcome};
pub use synchronization::{Pass, Recommend, SubjectSource, Synchronization};
