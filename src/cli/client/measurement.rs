//! Measurement arguments.

use std::time::Duration;

use clap::Args;

use tunesmith_api::ai_platform::optimizer::{MeasurementMessage, MetricMessage};
use tunesmith_api::ai_platform::{Double, Int64, ProtoDuration};

#[derive(Debug, Args)]
pub(super) struct MeasurementArgs {
    /// Value of a metric. May be repeated.
    #[arg(long = "metric", value_name = "NAME=VALUE", value_parser = metric, allow_hyphen_values = true)]
    pub(super) metrics: Vec<(String, f64)>,
    /// Training step.
    #[arg(long, value_name = "N", requires = "metrics", value_parser = clap::value_parser!(i64).range(0..))]
    step: Option<i64>,
    /// Seconds since the start of the trial.
    #[arg(long, value_name = "SECONDS", requires = "metrics", value_parser = seconds)]
    elapsed: Option<f64>,
}

impl MeasurementArgs {
    /// The measurement; `None` without metrics.
    pub(super) fn message_if_given(&self) -> Option<MeasurementMessage> {
        (!self.metrics.is_empty()).then(|| self.message())
    }

    pub(super) fn message(&self) -> MeasurementMessage {
        let metrics = self.metrics.iter();
        let metrics = metrics.map(|(name, value)| MetricMessage { metric: name.clone(), value: Double(*value) });
        MeasurementMessage {
            elapsed_time: self.elapsed.map(|seconds| ProtoDuration(Duration::from_secs_f64(seconds))),
            step_count: Int64(self.step.unwrap_or(0)),
            metrics: metrics.collect(),
        }
    }
}

fn metric(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.rsplit_once('=').ok_or("expected NAME=VALUE")?;
    match value.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok((name.to_owned(), number)),
        _ => Err(format!("{value:?} is not a finite number; use --infeasible for a trial without a result")),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=1e9).contains(&number) => Ok(number),
        _ => Err("expected a number of seconds, at least 0".to_owned()),
    }
}
