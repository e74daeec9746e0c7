//! Distributions of Optuna.

use serde_json::{Value, json};

use super::number;
use crate::reading::{MAX_VALUES, steps};

/// Range or choices of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Distribution {
    Float { low: f64, high: f64, is_log: bool, step: Option<f64> },
    Int { low: f64, high: f64, is_log: bool, step: f64 },
    Categorical(Vec<Value>),
}

impl Distribution {
    /// Parses `{"name": CLASS, "attributes": {...}}`, also of classes that Optuna has deprecated.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(text).ok()?;
        let attributes = &json["attributes"];
        let of = |name: &str| number(&attributes[name]);
        let is_log = attributes["log"] == true;
        let (low, high) = (of("low"), of("high"));
        Some(match json["name"].as_str()? {
            "FloatDistribution" => Self::Float { low: low?, high: high?, is_log, step: of("step") },
            "UniformDistribution" => Self::Float { low: low?, high: high?, is_log: false, step: None },
            "LogUniformDistribution" => Self::Float { low: low?, high: high?, is_log: true, step: None },
            "DiscreteUniformDistribution" => Self::Float { low: low?, high: high?, is_log: false, step: of("q") },
            "IntDistribution" | "IntUniformDistribution" => {
                Self::Int { low: low?, high: high?, is_log, step: of("step").unwrap_or(1.0) }
            }
            "IntLogUniformDistribution" => Self::Int { low: low?, high: high?, is_log: true, step: 1.0 },
            "CategoricalDistribution" => Self::Categorical(attributes["choices"].as_array()?.clone()),
            _ => return None,
        })
    }

    /// The distribution that has the values of both; `None` if they are of different kinds.
    pub(super) fn union(&self, other: &Self) -> Option<Self> {
        Some(match (self, other) {
            (
                Self::Float { low, high, is_log, step },
                Self::Float { low: other_low, high: other_high, is_log: other_log, step: other_step },
            ) if is_log == other_log => Self::Float {
                low: low.min(*other_low),
                high: high.max(*other_high),
                is_log: *is_log,
                step: step.filter(|_| step == other_step),
            },
            (
                Self::Int { low, high, is_log, step },
                Self::Int { low: other_low, high: other_high, is_log: other_log, step: other_step },
            ) if is_log == other_log => Self::Int {
                low: low.min(*other_low),
                high: high.max(*other_high),
                is_log: *is_log,
                step: if step == other_step { *step } else { 1.0 },
            },
            (Self::Categorical(choices), Self::Categorical(others)) => {
                let mut all = choices.clone();
                all.extend(others.iter().filter(|other| !choices.contains(other)).cloned());
                Self::Categorical(all)
            }
            _ => return None,
        })
    }

    /// Values if the parameter has few enough, and numbers between its steps.
    fn points(&self) -> Option<Vec<f64>> {
        match self {
            Self::Float { low, high, step: Some(step), .. } => steps(*low, *high, *step),
            Self::Int { low, high, step, .. } if *step != 1.0 => steps(*low, *high, *step),
            _ => None,
        }
    }

    /// A `StudyParameterSpec`, and what to note about it.
    pub(super) fn spec(&self, name: &str) -> (Value, Option<String>) {
        let scale = |is_log: bool| if is_log { "UNIT_LOG_SCALE" } else { "UNIT_LINEAR_SCALE" };
        if let Some(values) = self.points() {
            return (json!({"parameter": name, "type": "DISCRETE", "discreteValueSpec": {"values": values}}), None);
        }
        match self {
            Self::Float { low, high, is_log, step } => {
                let note = step.map(|step| {
                    format!("{name} has more than {MAX_VALUES} values, and is a DOUBLE without the step {step}")
                });
                let range = json!({"minValue": low, "maxValue": high});
                (
                    json!({"parameter": name, "type": "DOUBLE", "doubleValueSpec": range, "scaleType": scale(*is_log)}),
                    note,
                )
            }
            Self::Int { low, high, is_log, step } => {
                let note = (*step != 1.0).then(|| {
                    format!("{name} has more than {MAX_VALUES} values, and is an INTEGER without the step {step}")
                });
                let range = json!({"minValue": format!("{low}"), "maxValue": format!("{high}")});
                (
                    json!({"parameter": name, "type": "INTEGER", "integerValueSpec": range, "scaleType": scale(*is_log)}),
                    note,
                )
            }
            Self::Categorical(choices) => {
                let values: Vec<String> = choices.iter().map(text).collect();
                (json!({"parameter": name, "type": "CATEGORICAL", "categoricalValueSpec": {"values": values}}), None)
            }
        }
    }

    /// Value that Optuna stores as `stored`, as a `TrialParameter` of the parameter `name`.
    pub(super) fn parameter(&self, name: &str, stored: f64) -> Value {
        match self {
            Self::Int { step: 1.0, .. } => json!({"parameter": name, "intValue": format!("{stored}")}),
            Self::Float { .. } | Self::Int { .. } => json!({"parameter": name, "floatValue": self.on_a_step(stored)}),
            Self::Categorical(_) => json!({"parameter": name, "stringValue": self.category(stored)}),
        }
    }

    /// The JSON `value` as a `TrialParameter` of the parameter `name`; `None` if it is outside.
    pub(super) fn given(&self, name: &str, value: &Value) -> Option<Value> {
        let stored = match self {
            Self::Categorical(choices) => choices.iter().position(|choice| choice == value)? as f64,
            Self::Float { low, high, .. } => number(value).filter(|value| (*low..=*high).contains(value))?,
            Self::Int { low, high, .. } => {
                number(value).filter(|value| value.fract() == 0.0 && (*low..=*high).contains(value))?
            }
        };
        Some(self.parameter(name, stored))
    }

    /// Text of the choice with the index `stored`.
    pub(super) fn category(&self, stored: f64) -> Option<String> {
        let Self::Categorical(choices) = self else { return None };
        // Indices are small whole numbers.
        choices.get(stored as usize).map(text)
    }

    /// The step nearest to `value`, which may be off by rounding.
    fn on_a_step(&self, value: f64) -> f64 {
        let points = self.points().unwrap_or_default();
        let nearest = points.into_iter().min_by(|a, b| (a - value).abs().total_cmp(&(b - value).abs()));
        nearest.unwrap_or(value)
    }
}

/// Text of a choice: itself, or its JSON.
fn text(choice: &Value) -> String {
    choice.as_str().map_or_else(|| choice.to_string(), str::to_owned)
}
