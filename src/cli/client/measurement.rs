//! Arguments that give a measurement.

use clap::Args;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(super) struct MeasurementArgs {
    /// Value of a metric. May be given several times.
    #[arg(long = "metric", value_name = "NAME=VALUE", value_parser = metric, allow_hyphen_values = true)]
    pub(super) metrics: Vec<(String, f64)>,
    /// Training step.
    #[arg(long, value_name = "N", requires = "metrics")]
    step: Option<u64>,
    /// Seconds since the start of the trial.
    #[arg(long, value_name = "SECONDS", requires = "metrics", value_parser = seconds)]
    elapsed: Option<f64>,
}

impl MeasurementArgs {
    /// Returns the `Measurement` message, if there is a metric.
    pub(super) fn message_if_given(&self) -> Option<Value> {
        (!self.metrics.is_empty()).then(|| self.message())
    }

    /// Returns the `Measurement` message.
    pub(super) fn message(&self) -> Value {
        let metrics = self.metrics.iter().map(|(name, value)| json!({"metric": name, "value": value}));
        let mut message = json!({ "metrics": metrics.collect::<Vec<_>>() });
        if let Some(step) = self.step {
            message["stepCount"] = json!(step.to_string());
        }
        if let Some(elapsed) = self.elapsed {
            message["elapsedTime"] = json!(format!("{elapsed:.9}s"));
        }
        message
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
