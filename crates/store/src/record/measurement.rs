//! The final measurement inside the record of a trial.

use serde::{Deserialize, Serialize};

use super::float::Float;
use tunesmith_domain::{Measurement, MetricValue, Source};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasurementRecord {
    step: i64,
    wall_time_secs: Float,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    elapsed_secs: Option<Float>,
    #[serde(with = "SourceRecord")]
    source: Source,
    mark: u64,
    /// Absent without a folder, and in records of versions that did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    metrics: Vec<MetricRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricRecord {
    metric: String,
    value: Float,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Source", rename_all = "SCREAMING_SNAKE_CASE")]
enum SourceRecord {
    MetricFile,
    EventFile,
    Http,
    StandardOutput,
}

impl From<&Measurement> for MeasurementRecord {
    fn from(measurement: &Measurement) -> Self {
        let Measurement { step, wall_time_secs, elapsed_secs, source, mark, folder, metrics } = measurement;
        Self {
            step: *step,
            wall_time_secs: Float(*wall_time_secs),
            elapsed_secs: elapsed_secs.map(Float),
            source: *source,
            mark: *mark,
            folder: folder.as_deref().map(str::to_owned),
            metrics: metrics
                .iter()
                .map(|metric| MetricRecord { metric: metric.metric.clone(), value: Float(metric.value) })
                .collect(),
        }
    }
}

impl From<MeasurementRecord> for Measurement {
    fn from(record: MeasurementRecord) -> Self {
        Self {
            step: record.step,
            wall_time_secs: record.wall_time_secs.0,
            elapsed_secs: record.elapsed_secs.map(|elapsed| elapsed.0),
            source: record.source,
            mark: record.mark,
            folder: record.folder.map(Into::into),
            metrics: record
                .metrics
                .into_iter()
                .map(|metric| MetricValue { metric: metric.metric, value: metric.value.0 })
                .collect(),
        }
    }
}
