//! Predictions in the user's units, and the form of values in serialised answers.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::output_warp::Warp;
use crate::problem::{Goal, ParameterValue, ParameterValues};

/// Deviations between the median and the ends of a band of 95%.
const BAND_DEVIATIONS: f64 = 1.959_963_984_540_054;

/// A prediction of the metric without its noise, in the user's units and sign.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// As likely too high as too low.
    pub median: f64,
    /// 2.5% quantile.
    pub lower: f64,
    /// 97.5% quantile.
    pub upper: f64,
}

impl Estimate {
    /// From mean and deviation of a target.
    pub(super) fn new(warp: &Warp, goal: Goal, mean: f64, deviation: f64) -> Self {
        // The sign of the goal is its own inverse.
        let user = |target: f64| goal.to_maximized(warp.inverse(target));
        let ends = [mean - BAND_DEVIATIONS * deviation, mean + BAND_DEVIATIONS * deviation].map(user);
        Self { median: user(mean), lower: ends[0].min(ends[1]), upper: ends[0].max(ends[1]) }
    }
}

/// As numbers and texts, without their kind.
pub(super) fn serialize_value<S: Serializer>(value: &ParameterValue, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        ParameterValue::Double(value) | ParameterValue::Discrete(value) => serializer.serialize_f64(*value),
        ParameterValue::Integer(value) => serializer.serialize_i64(*value),
        ParameterValue::Categorical(value) => serializer.serialize_str(value),
    }
}

/// As an object with one entry per parameter.
pub(super) fn serialize_values<S: Serializer>(values: &ParameterValues, serializer: S) -> Result<S::Ok, S::Error> {
    struct Plain<'a>(&'a ParameterValue);
    impl Serialize for Plain<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serialize_value(self.0, serializer)
        }
    }
    let values: &BTreeMap<String, ParameterValue> = values;
    let mut map = serializer.serialize_map(Some(values.len()))?;
    for (name, value) in values {
        map.serialize_entry(name, &Plain(value))?;
    }
    map.end()
}

/// As the wire formats spell it.
pub(super) fn serialize_goal<S: Serializer>(goal: &Goal, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match goal {
        Goal::Maximize => "MAXIMIZE",
        Goal::Minimize => "MINIMIZE",
    })
}
