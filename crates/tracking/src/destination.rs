//! Contract of trackers.

use async_trait::async_trait;
use jiff::Timestamp;
use tunesmith_algorithms::problem::TrialId;
use tunesmith_domain::{Measurement, Study, Trial};
use tunesmith_store::Store;

use crate::results::Results;
use crate::{Subject, TrackingError};

/// A job or study at one time, with a store for its curves.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub store: &'a dyn Store,
    pub subject: &'a Subject,
    /// `None` for a job without hyperparameters.
    pub study: Option<&'a Study>,
}

impl View<'_> {
    /// Measurements of `trial` from number `from`, up to `limit`, and the number after the last one read. Values that
    /// belong to no curve are left out.
    pub(crate) async fn measurements(
        &self,
        study: &Study,
        trial: &Trial,
        from: u64,
        limit: usize,
    ) -> Result<(Vec<Measurement>, u64), TrackingError> {
        let left = usize::try_from(trial.measurement_count.saturating_sub(from)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok((Vec::new(), from));
        }
        let mut page = self.store.measurements(&study.id, trial.id, from, limit.min(left)).await?;
        let next = from + page.len() as u64;
        trial.metric_folders.retain_curves(&mut page);
        Ok((page, next))
    }
}

/// Work left after the last pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// Nothing.
    Complete,
    /// These trials, whose copies by a concurrent export were removed.
    Trials(Vec<TrialId>),
    /// Everything: a concurrent export began first, and this one continues its runs.
    Restart,
}

/// A tracker that receives one job or study.
///
/// A pass calls `open`, `put` for all changed trials by revision, and `conclude`; the last pass ends with `finish`. After
/// an error, a later pass repeats the calls. Each call adds only what is missing, so repetition has no effect.
#[async_trait]
pub trait Destination: Send + Sync {
    /// Creates or finds what represents the subject.
    async fn open(&mut self, view: &View<'_>) -> Result<(), TrackingError>;

    /// Adds or updates `trials`.
    async fn put(&mut self, view: &View<'_>, trials: Vec<Trial>) -> Result<(), TrackingError>;

    /// Updates the subject itself.
    async fn conclude(&mut self, view: &View<'_>, results: &Results) -> Result<(), TrackingError>;

    /// Completes the export of an ended subject, with the trial that a model recommends, if any.
    async fn finish(&mut self, view: &View<'_>, recommended: Option<TrialId>) -> Result<Finish, TrackingError>;
}

/// Time of a report in seconds since 1970: by the trainer's clock, or else from the start of the trial. It depends on
/// the report alone, so that a repeated export has the same times.
pub(crate) fn report_time(trial: &Trial, measurement: &Measurement) -> f64 {
    if measurement.wall_time_secs > 0.0 && measurement.wall_time_secs.is_finite() {
        return measurement.wall_time_secs;
    }
    seconds(trial.start_time.unwrap_or(trial.create_time)) + measurement.elapsed_secs.unwrap_or(0.0)
}

/// Seconds since 1970.
pub(crate) fn seconds(time: Timestamp) -> f64 {
    time.as_duration().as_secs_f64()
}
