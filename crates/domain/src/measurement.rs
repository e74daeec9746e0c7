//! What a trial reports while it runs.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// One report of a trial: the values of its metrics at one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Training step, as the trainer counts; 0 if it does not.
    pub step: i64,
    /// When the trainer made the report, in seconds since 1970; 0 if it did not say.
    pub wall_time_secs: f64,
    /// Seconds from the start of the trial, if the report says.
    pub elapsed_secs: Option<f64>,
    /// How the report came.
    pub source: Source,
    /// Tells reports of one source and step apart, so that reading a source again adds nothing: the time stamp's bits
    /// for files that bear time stamps, the byte offset of the line for standard output, a count for HTTP.
    pub mark: u64,
    /// Values by metric; may be NaN or infinite, since trainers report such.
    pub metrics: Vec<MetricValue>,
}

impl Measurement {
    /// The value of `metric`, if this report has it.
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.metrics.iter().find(|entry| entry.metric == metric).map(|entry| entry.value)
    }

    /// Order along a curve: by step, then by wall time, then by elapsed time (0 if not reported).
    pub fn curve_order(&self, other: &Self) -> Ordering {
        let elapsed_secs = |measurement: &Self| measurement.elapsed_secs.unwrap_or(0.0);
        self.step
            .cmp(&other.step)
            .then(self.wall_time_secs.total_cmp(&other.wall_time_secs))
            .then(elapsed_secs(self).total_cmp(&elapsed_secs(other)))
    }
}

/// One metric's value in a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// The tag.
    pub metric: String,
    /// The value, NaN and infinity included.
    pub value: f64,
}

/// The ways by which a trainer's reports arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Source {
    /// The file that the `hypertune` package writes.
    MetricFile,
    /// TensorFlow event files below the trial's job-dir.
    EventFile,
    /// `addMeasurement` over HTTP.
    Http,
    /// Lines of standard output.
    StandardOutput,
}
