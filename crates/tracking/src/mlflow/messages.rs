//! Messages of MLflow's REST interface, version 2.0, as far as used.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum RunStatus {
    Scheduled,
    Running,
    Finished,
    Failed,
    Killed,
}

/// A tag or parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) key: String,
    #[serde(default)]
    pub(super) value: String,
}

/// A point of a metric, with its time in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Point {
    pub(super) key: String,
    #[serde(with = "value")]
    pub(super) value: f64,
    #[serde(default)]
    pub(super) timestamp: i64,
    #[serde(default)]
    pub(super) step: i64,
}

/// Values as numbers, or as the text that stands for those that JSON lacks.
mod value {
    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
    }

    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        match *value {
            value if value.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("Infinity"),
            f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            value => serializer.serialize_f64(value),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(number),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Batch {
    pub(super) run_id: String,
    pub(super) metrics: Vec<Point>,
    pub(super) params: Vec<Entry>,
    pub(super) tags: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ErrorBody {
    #[serde(default)]
    pub(super) error_code: String,
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ExperimentCreated {
    pub(super) experiment_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ExperimentFound {
    pub(super) experiment: Experiment,
}

#[derive(Debug, Deserialize)]
pub(super) struct Experiment {
    pub(super) experiment_id: String,
    #[serde(default)]
    pub(super) lifecycle_stage: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct RunCreated {
    pub(super) run: Run,
}

#[derive(Debug, Deserialize)]
pub(super) struct RunUpdated {
    pub(super) run_info: RunInfo,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Run {
    pub(super) info: RunInfo,
    #[serde(default)]
    pub(super) data: RunData,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct RunInfo {
    pub(super) run_id: String,
    #[serde(default)]
    pub(super) experiment_id: String,
    #[serde(default)]
    pub(super) status: Value,
}

impl RunInfo {
    /// Known state, if it is one.
    pub(super) fn status(&self) -> Option<RunStatus> {
        serde_json::from_value(self.status.clone()).ok()
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RunData {
    /// Latest point of each metric.
    pub(super) metrics: Vec<Point>,
    pub(super) params: Vec<Entry>,
    pub(super) tags: Vec<Entry>,
}

impl RunData {
    pub(super) fn tag(&self, key: &str) -> Option<&str> {
        self.tags.iter().find(|tag| tag.key == key).map(|tag| tag.value.as_str())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RunPage {
    pub(super) runs: Vec<Run>,
    pub(super) next_page_token: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HistoryPage {
    pub(super) metrics: Vec<Point>,
    pub(super) next_page_token: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_json_lacks_are_text() {
        for (value, written) in [(f64::NAN, "\"NaN\""), (f64::NEG_INFINITY, "\"-Infinity\""), (0.1, "0.1")] {
            let point = Point { key: "m".into(), value, timestamp: 5, step: 2 };
            let text = serde_json::to_string(&point).unwrap();
            assert_eq!(text, format!(r#"{{"key":"m","value":{written},"timestamp":5,"step":2}}"#));
            let read: Point = serde_json::from_str(&text).unwrap();
            assert!(read.value.to_bits() == value.to_bits() || (read.value.is_nan() && value.is_nan()));
        }
    }
}
