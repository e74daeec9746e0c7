//! Predictions in the user's units, and the serialised form of values.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::output_warp::Warp;
use crate::problem::{Goal, ParameterValue, ParameterValues};

/// 97.5% quantile of the standard normal distribution: half the width of a 95% band in deviations.
const BAND_DEVIATIONS: f64 = 1.959_963_984_540_054;

/// Prediction of the metric without noise, in the units and orientation of the user.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// Median.
    pub median: f64,
    /// 2.5% quantile.
    pub lower: f64,
    /// 97.5% quantile.
    pub upper: f64,
}

impl Estimate {
    /// Converts the mean and deviation of a warped value.
    pub(super) fn new(warp: &Warp, goal: Goal, mean: f64, deviation: f64) -> Self {
        // The orientation is its own inverse.
        let user = |target: f64| goal.to_maximized(warp.inverse(target));
        let ends = [mean - BAND_DEVIATIONS * deviation, mean + BAND_DEVIATIONS * deviation].map(user);
        Self { median: user(mean), lower: ends[0].min(ends[1]), upper: ends[0].max(ends[1]) }
    }
}

/// Serialises a value as a number or string, without its kind.
pub(super) fn serialize_value<S: Serializer>(value: &ParameterValue, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        ParameterValue::Double(value) | ParameterValue::Discrete(value) => serializer.serialize_f64(*value),
        ParameterValue::Integer(value) => serializer.serialize_i64(*value),
        ParameterValue::Categorical(value) => serializer.serialize_str(value),
    }
}

/// Serialises values as an object with one entry per parameter.
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

/// Serialises the goal as in the wire formats.
pub(super) fn serialize_goal<S: Serializer>(goal: &Goal, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match goal {
        Goal::Maximize => "MAXIMIZE",
        Goal::Minimize => "MINIMIZE",
    })
}
