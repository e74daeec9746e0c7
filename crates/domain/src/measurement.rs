//! Measurements that trials report while they run.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
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
    /// The origin of the report.
    pub key: ReportKey,
    /// Values by metric, NaN and infinity included.
    pub metrics: Vec<MetricValue>,
}

impl Measurement {
    /// The value of `metric`, if it was measured.
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.metrics.iter().find(|entry| entry.metric == metric).map(|entry| entry.value)
    }

    /// The folder of the event file, if it is from one. See [`MetricFolders`](crate::MetricFolders).
    pub fn folder(&self) -> Option<&Arc<str>> {
        match &self.key {
            ReportKey::EventFile { folder } => Some(folder),
            ReportKey::MetricFile { .. } | ReportKey::StandardOutput { .. } | ReportKey::Http => None,
        }
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

#[derive(Debug, Clone, PartialEq)]
pub struct MetricValue {
    /// The tag.
    pub metric: String,
    /// The value, NaN and infinity included.
    pub value: f64,
}

/// The origin of a report. Together with step, wall time and first metric it identifies a report in a file, so that
/// [`KnownReports`] recognises a report that is read again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportKey {
    /// The file of an attempt that the `hypertune` package writes. Each line has a time stamp, the wall time.
    MetricFile { attempt: u64 },
    /// A TensorFlow event file below the trial's job-dir, which all attempts share. Each event has a time stamp, the wall
    /// time.
    EventFile {
        /// The folder of the file below that of the trial, `.` for that itself.
        folder: Arc<str>,
    },
    /// A line of an attempt's standard output.
    StandardOutput {
        attempt: u64,
        /// The offset of the line in bytes.
        offset: u64,
    },
    /// `addMeasurement` over HTTP. Every request is a report of its own: retries are recognised before they are measurements.
    Http,
}

/// A series of reports in files: those with one origin, apart from offsets, and one first metric.
type Series = (ReportKey, Option<String>);

/// The reports of one trial that are known: the one rule by which two measurements are the same report. Their keys, steps,
/// wall times and first metrics are equal. Uses about 16 bytes of memory for each report.
#[derive(Debug, Clone, Default)]
pub struct KnownReports(HashMap<Series, HashSet<(i64, u64)>>);

impl KnownReports {
    /// Adds `report`. Returns whether it is new; reports over HTTP always are.
    pub fn insert(&mut self, report: &Measurement) -> bool {
        identity(report).is_none_or(|(series, position)| self.0.entry(series).or_default().insert(position))
    }

    /// Whether `report` was added; reports over HTTP never are.
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

/// Returns the series of `report`, and its step and position in it; `None` for one over HTTP.
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
