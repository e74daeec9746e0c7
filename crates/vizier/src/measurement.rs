//! Measurements, which both protocols share.

use std::time::Duration;

use tunesmith_api::ai_platform::optimizer::{MeasurementMessage, MetricMessage};
use tunesmith_api::ai_platform::rpc::FieldViolation;
use tunesmith_api::ai_platform::{Double, Int64, ProtoDuration};
use tunesmith_domain::Measurement;

use crate::messages::vertex;
use crate::time::{duration, std_duration};

/// Validates a measurement; `field` is its path, for errors.
///
/// # Errors
/// The first violated rule.
pub fn measurement(message: vertex::Measurement, field: &str) -> Result<Measurement, FieldViolation> {
    let elapsed = message.elapsed_duration.as_ref().map(|elapsed| {
        std_duration(elapsed).map(ProtoDuration).ok_or_else(|| {
            let text = format!("{} s, {} ns is no duration from 0 s on", elapsed.seconds, elapsed.nanos);
            FieldViolation::new(format!("{field}.elapsedDuration"), text)
        })
    });
    let metrics = message.metrics.into_iter();
    let message = MeasurementMessage {
        elapsed_time: elapsed.transpose()?,
        step_count: Int64(message.step_count),
        metrics: metrics
            .map(|metric| MetricMessage { metric: metric.metric_id, value: Double(metric.value) })
            .collect(),
    };
    message.into_measurement(field).map_err(|violation| {
        // The only path below `metrics` is that of a name.
        let field = violation.field.replace("].metric", "].metricId");
        FieldViolation { field, ..violation }
    })
}

pub fn message_of_measurement(measurement: &Measurement) -> vertex::Measurement {
    let elapsed = measurement.elapsed_secs.and_then(|secs| Duration::try_from_secs_f64(secs).ok());
    let metrics = measurement.metrics.iter();
    vertex::Measurement {
        elapsed_duration: elapsed.map(duration),
        step_count: measurement.step,
        metrics: metrics
            .map(|metric| vertex::measurement::Metric { metric_id: metric.metric.clone(), value: metric.value })
            .collect(),
    }
}
