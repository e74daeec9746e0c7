//! Measurements reported by running trials.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Metric values of a trial at one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Training step as counted by the trainer; 0 if it counts none.
    pub step: i64,
    /// Report time by the trainer's clock, in seconds since 1970; 0 if not reported.
    pub wall_time_secs: f64,
    /// Seconds since the start of the trial, if reported.
    pub elapsed_secs: Option<f64>,
    pub key: ReportKey,
    /// Values, one per metric; may be NaN or infinite.
    pub metrics: Vec<MetricValue>,
}

impl Measurement {
    /// Value of `metric`, if measured.
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.metrics.iter().find(|entry| entry.metric == metric).map(|entry| entry.value)
    }

    /// Folder of the event file, for a report from one. See [`MetricFolders`](crate::MetricFolders).
    pub fn folder(&self) -> Option<&Arc<str>> {
        match &self.key {
            ReportKey::EventFile { folder } => Some(folder),
            ReportKey::MetricFile { .. } | ReportKey::StandardOutput { .. } | ReportKey::Http => None,
        }
    }

    /// Compares positions along a curve: by step, then wall time, then elapsed time (0 if not reported).
    pub fn curve_order(&self, other: &Self) -> Ordering {
        let elapsed_secs = |measurement: &Self| measurement.elapsed_secs.unwrap_or(0.0);
        self.step
            .cmp(&other.step)
            .then(self.wall_time_secs.total_cmp(&other.wall_time_secs))
            .then(elapsed_secs(self).total_cmp(&elapsed_secs(other)))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct MetricValue {
    /// Metric tag.
    pub metric: String,
    /// May be NaN or infinite.
    pub value: f64,
}

/// Origin of a report. Together with step, wall time and first metric, it identifies a report in a file, so that
/// [`KnownReports`] detects repeated reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportKey {
    /// File written by the `hypertune` package in one attempt. Every line carries a wall time.
    MetricFile { attempt: u64 },
    /// TensorFlow event file below the trial's job-dir, shared by all attempts. Every event carries a wall time.
    EventFile {
        /// Folder of the file relative to the trial's folder, `.` for that folder.
        folder: Arc<str>,
    },
    /// Line of an attempt's standard output.
    StandardOutput {
        attempt: u64,
        /// Byte offset of the line.
        offset: u64,
    },
    /// `addMeasurement` over HTTP. Every such report is distinct: retried requests are detected before they become
    /// measurements.
    Http,
}

/// Reports in files that share their origin (ignoring offsets) and first metric.
type Series = (ReportKey, Option<String>);

/// Set of a trial's reports, and the only definition of equal reports: same key, step, wall time and first metric. Uses
/// about 16 bytes per report.
#[derive(Debug, Clone, Default)]
pub struct KnownReports(HashMap<Series, HashSet<(i64, u64)>>);

impl KnownReports {
    /// Adds `report` and returns whether it is new; reports over HTTP always are.
    pub fn insert(&mut self, report: &Measurement) -> bool {
        identity(report).is_none_or(|(series, position)| self.0.entry(series).or_default().insert(position))
    }

    /// Whether `report` is in the set; reports over HTTP never are.
    pub fn contains(&self, report: &Measurement) -> bool {
        identity(report)
            .is_some_and(|(series, position)| self.0.get(&series).is_some_and(|known| known.contains(&position)))
    }
}

impl<'a> FromIterator<&'a Measurement> for KnownReports {
    fn from_iter<I: IntoIterator<Item = &'a Measurement>>(reports: I) -> Self {
        let mut known = Self::default();
        reports.into_iter().for_each(|report| {
            known.insert(report);
        });
        known
    }
}

/// Returns the series of `report` and its step and position in it; `None` for a report over HTTP.
fn identity(report: &Measurement) -> Option<(Series, (i64, u64))> {
    let (origin, position) = match report.key {
        ReportKey::MetricFile { .. } | ReportKey::EventFile { .. } => {
            (report.key.clone(), report.wall_time_secs.to_bits())
        }
        ReportKey::StandardOutput { attempt, offset } => (ReportKey::StandardOutput { attempt, offset: 0 }, offset),
        ReportKey::Http => return None,
    };
    let metric = report.metrics.first().map(|metric| metric.metric.clone());
    Some(((origin, metric), (report.step, position)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(key: ReportKey, step: i64, wall_time_secs: f64, metric: &str) -> Measurement {
        let metrics = vec![MetricValue { metric: metric.to_owned(), value: 0.5 }];
        Measurement { step, wall_time_secs, elapsed_secs: None, key, metrics }
    }

    #[test]
    fn a_report_is_known_by_key_step_time_and_first_metric() {
        let file = |attempt| ReportKey::MetricFile { attempt };
        let events = |folder: &str| ReportKey::EventFile { folder: folder.into() };
        let line = |attempt, offset| ReportKey::StandardOutput { attempt, offset };
        let different = [
            report(file(1), 1, 1.5, "acc"),
            report(file(2), 1, 1.5, "acc"),
            report(file(1), 2, 1.5, "acc"),
            report(file(1), 1, 2.5, "acc"),
            report(file(1), 1, 1.5, "loss"),
            report(events("."), 1, 1.5, "acc"),
            report(events("eval"), 1, 1.5, "acc"),
            report(line(1, 0), 1, 0.0, "acc"),
            report(line(1, 7), 1, 0.0, "acc"),
            report(line(2, 0), 1, 0.0, "acc"),
        ];
        let mut known = KnownReports::default();
        assert!(different.iter().all(|report| !known.contains(report) && known.insert(report)));
        assert!(different.iter().all(|report| known.contains(report) && !known.insert(report)));
    }

    #[test]
    fn reports_over_http_are_always_new() {
        let one = report(ReportKey::Http, 1, 1.5, "acc");
        let mut known = KnownReports::from_iter([&one]);
        assert!(!known.contains(&one) && known.insert(&one));
    }

    #[test]
    fn keys_take_no_more_memory_than_a_folder_and_a_number() {
        assert_eq!((size_of::<ReportKey>(), size_of::<Measurement>()), (24, 80));
    }
}
