//! `Measurement`: a report of a trial.

use std::collections::HashSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::FieldViolation;
use crate::ai_platform::scalars::{FINITE, NOT_FINITE};
use crate::ai_platform::{Double, Int64, ProtoDuration};
use tunesmith_domain::{Measurement, MetricValue, ReportKey};

/// Maximum metrics per measurement; also the limit on metrics searched for in a trial's reports.
pub const MAX_METRICS: usize = 1_000;

/// Metric values at one step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Measurement")]
pub struct MeasurementMessage {
    /// Time since the start of the trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_time: Option<ProtoDuration>,
    /// Training step, not negative.
    pub step_count: Int64,
    /// Values, at least one.
    pub metrics: Vec<MetricMessage>,
}

/// Value of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Metric")]
pub struct MetricMessage {
    /// Name of the metric.
    pub metric: String,
    /// Value. A trial whose result is not finite is infeasible.
    #[schemars(schema_with = "value_schema")]
    pub value: Double,
}

/// Unlike bounds, metrics may be NaN or infinite.
fn value_schema(generator: &mut SchemaGenerator) -> Schema {
    if generator.contract().is_serialize() {
        return Double::json_schema(generator);
    }
    json_schema!({ "type": ["number", "string"], "pattern": format!("^({FINITE}|{NOT_FINITE})$") })
}

impl MeasurementMessage {
    /// Validates the measurement; `field` is its path, for errors.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn into_measurement(self, field: &str) -> Result<Measurement, FieldViolation> {
        let refuse =
            |part: &str, description: String| Err(FieldViolation { field: format!("{field}.{part}"), description });
        if self.metrics.is_empty() {
            return refuse("metrics", "at least one metric is needed".to_owned());
        }
        if self.step_count.0 < 0 {
            return refuse("stepCount", format!("{} is negative", self.step_count));
        }
        if self.metrics.len() > MAX_METRICS {
            let description = format!("has {} metrics; at most {MAX_METRICS} are allowed", self.metrics.len());
            return refuse("metrics", description);
        }
        let mut names = HashSet::with_capacity(self.metrics.len());
        for (index, metric) in self.metrics.iter().enumerate() {
            if metric.metric.is_empty() {
                return refuse(&format!("metrics[{index}].metric"), "a metric needs a name".to_owned());
            }
            if !names.insert(metric.metric.as_str()) {
                return refuse(&format!("metrics[{index}].metric"), format!("{:?} is given twice", metric.metric));
            }
        }
        Ok(Measurement {
            step: self.step_count.0,
            wall_time_secs: 0.0,
            elapsed_secs: self.elapsed_time.map(|time| time.0.as_secs_f64()),
            key: ReportKey::Http,
            metrics: self
                .metrics
                .into_iter()
                .map(|metric| MetricValue { metric: metric.metric, value: metric.value.0 })
                .collect(),
        })
    }
}

impl From<&Measurement> for MeasurementMessage {
    fn from(measurement: &Measurement) -> Self {
        let elapsed = measurement.elapsed_secs.and_then(|secs| std::time::Duration::try_from_secs_f64(secs).ok());
        Self {
            elapsed_time: elapsed.map(ProtoDuration),
            step_count: Int64(measurement.step),
            metrics: measurement
                .metrics
                .iter()
                .map(|metric| MetricMessage { metric: metric.metric.clone(), value: Double(metric.value) })
                .collect(),
        }
    }
}
