//! Measurements that trials report while they run.

use std::cmp::Ordering;
use std::sync::Arc;

/// The values of a trial's metrics at one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Training step as counted by the trainer; 0 without one.
    pub step: i64,
    /// Time of the report by the trainer's clock, in seconds since 1970; 0 if not reported.
    pub wall_time_secs: f64,
    /// Seconds since the start of the trial, if reported.
    pub elapsed_secs: Option<f64>,
    /// The channel of the report.
    pub source: Source,
    /// Distinguishes reports of one source and step, so that reading a source again adds no duplicates: the bits of the
    /// time stamp for files with time stamps, the byte offset of the line for standard output, a count for HTTP.
    pub mark: u64,
    /// The folder of the event file below that of the trial, `.` for that itself; `None` for other sources. See
    /// [`MetricFolders`](crate::MetricFolders).
    pub folder: Option<Arc<str>>,
    /// Values by metric, NaN and infinity included.
    pub metrics: Vec<MetricValue>,
}

impl Measurement {
    /// The value of `metric`, if it was measured.
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

/// The value of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricValue {
    /// The tag.
    pub metric: String,
    /// The value, NaN and infinity included.
    pub value: f64,
}

/// The channel by which a measurement arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
