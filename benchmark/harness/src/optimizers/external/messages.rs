//! The lines that the benchmark and an external optimizer exchange.
//!
//! Each line is one JSON object. The benchmark sends a request, and the optimizer answers it with one line.
//! `examples/external_optimizer` describes the protocol for authors of optimizers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tunesmith_algorithms::problem::{
    Condition, Goal, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement, ScaleType,
    SearchSpace,
};

/// A request of the benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Starts a study; the one before has ended.
    Create {
        /// The problem.
        problem: WireProblem,
        /// For the optimizer's random numbers.
        seed: u64,
        /// Number of trials.
        budget: usize,
        /// Number of trials that run at once.
        parallel: usize,
    },
    /// Requests a point for each of these trials.
    Suggest {
        /// Their numbers.
        trials: Vec<u64>,
    },
    /// Reports the result of a trial.
    Complete {
        /// Its number; one without a request if the benchmark chose the point.
        trial: u64,
        /// Its point.
        parameters: Map<String, Value>,
        /// Its metrics by name; absent if it gave none.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metrics: BTreeMap<String, f64>,
        /// Its constraints, feasible up to 0; absent if the problem has none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        constraints: Vec<f64>,
        /// The reason why it is infeasible, if it is: it failed, or violates a constraint.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        infeasible: Option<String>,
    },
}

/// An answer of the optimizer; which fields it needs depends on the request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// To create: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// To create: its version, with that of the library behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// To create: the reason why it does not support this problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unsupported: Option<String>,
    /// To suggest: one point for each trial, fewer if the space is exhausted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) suggestions: Option<Vec<Map<String, Value>>>,
    /// To any: the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// A [`ProblemStatement`] as it goes over the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WireProblem {
    parameters: Vec<ConditionalParameter>,
    metrics: Vec<WireMetric>,
    /// How many constraint values come with each result.
    #[serde(default)]
    pub(crate) constraints: usize,
}

/// A parameter, and when it is active.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ConditionalParameter {
    #[serde(flatten)]
    parameter: WireParameter,
    /// Absent if it always is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    condition: Option<WireCondition>,
}

/// The values of a parent for which a parameter is active; in all other trials it has no value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct WireCondition {
    parent: String,
    values: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "UPPERCASE")]
enum WireParameter {
    Double { name: String, min: f64, max: f64, scale: WireScale },
    Integer { name: String, min: i64, max: i64, scale: WireScale },
    Discrete { name: String, values: Vec<f64>, scale: WireScale },
    Categorical { name: String, values: Vec<String> },
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum WireScale {
    #[serde(rename = "UNIT_LINEAR_SCALE")]
    Linear,
    #[serde(rename = "UNIT_LOG_SCALE")]
    Log,
    #[serde(rename = "UNIT_REVERSE_LOG_SCALE")]
    ReverseLog,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct WireMetric {
    name: String,
    goal: WireGoal,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum WireGoal {
    Maximize,
    Minimize,
}

impl WireProblem {
    /// `problem` with `constraints` constraint values.
    pub(crate) fn new(problem: &ProblemStatement, constraints: usize) -> Self {
        let metric = |metric: &tunesmith_algorithms::problem::MetricSpec| WireMetric {
            name: metric.name.clone(),
            goal: match metric.goal {
                Goal::Maximize => WireGoal::Maximize,
                Goal::Minimize => WireGoal::Minimize,
            },
        };
        Self {
            parameters: problem.search_space().parameters().iter().map(ConditionalParameter::new).collect(),
            metrics: problem.metrics().iter().map(metric).collect(),
            constraints,
        }
    }

    /// The problem.
    ///
    /// # Errors
    /// A message if it is no valid problem.
    pub(crate) fn statement(&self) -> Result<ProblemStatement, String> {
        let parent = |name: &str| self.parameters.iter().find(|other| other.parameter.name() == name);
        let parameters: Result<Vec<_>, _> = self.parameters.iter().map(|parameter| parameter.spec(&parent)).collect();
        let space = SearchSpace::new(parameters?).map_err(|error| error.to_string())?;
        let metric = |metric: &WireMetric| tunesmith_algorithms::problem::MetricSpec {
            name: metric.name.clone(),
            goal: match metric.goal {
                WireGoal::Maximize => Goal::Maximize,
                WireGoal::Minimize => Goal::Minimize,
            },
        };
        ProblemStatement::new(space, self.metrics.iter().map(metric).collect()).map_err(|error| error.to_string())
    }
}

impl ConditionalParameter {
    fn new(parameter: &ParameterSpec) -> Self {
        let condition = parameter.condition().map(|condition| WireCondition {
            parent: condition.parent().to_owned(),
            values: condition.values().iter().map(value_to_json).collect(),
        });
        Self { parameter: WireParameter::new(parameter), condition }
    }

    /// The parameter; `parent` finds another one by its name.
    fn spec<'a>(&self, parent: &dyn Fn(&str) -> Option<&'a Self>) -> Result<ParameterSpec, String> {
        let spec = self.parameter.spec()?;
        let Some(condition) = &self.condition else { return Ok(spec) };
        let mut values = Vec::with_capacity(condition.values.len());
        if let Some(parent) = parent(&condition.parent) {
            let kind = parent.parameter.spec()?;
            for value in &condition.values {
                values.push(value_from_json(&kind, value)?);
            }
        }
        Ok(spec.with_condition(Condition::new(condition.parent.as_str(), values)))
    }
}

impl WireParameter {
    fn name(&self) -> &str {
        match self {
            Self::Double { name, .. }
            | Self::Integer { name, .. }
            | Self::Discrete { name, .. }
            | Self::Categorical { name, .. } => name,
        }
    }

    fn new(parameter: &ParameterSpec) -> Self {
        let name = parameter.name().to_owned();
        match parameter.kind().clone() {
            ParameterKind::Double { min, max, scale } => Self::Double { name, min, max, scale: scale.into() },
            ParameterKind::Integer { min, max, scale } => Self::Integer { name, min, max, scale: scale.into() },
            ParameterKind::Discrete { values, scale } => Self::Discrete { name, values, scale: scale.into() },
            ParameterKind::Categorical { values } => Self::Categorical { name, values },
        }
    }

    fn spec(&self) -> Result<ParameterSpec, String> {
        let (name, kind) = match self.clone() {
            Self::Double { name, min, max, scale } => (name, ParameterKind::Double { min, max, scale: scale.into() }),
            Self::Integer { name, min, max, scale } => (name, ParameterKind::Integer { min, max, scale: scale.into() }),
            Self::Discrete { name, values, scale } => (name, ParameterKind::Discrete { values, scale: scale.into() }),
            Self::Categorical { name, values } => (name, ParameterKind::Categorical { values }),
        };
        ParameterSpec::new(name.as_str(), kind).map_err(|error| format!("parameter {name:?}: {error}"))
    }
}

impl From<ScaleType> for WireScale {
    fn from(scale: ScaleType) -> Self {
        match scale {
            ScaleType::UnitLinear => Self::Linear,
            ScaleType::UnitLog => Self::Log,
            ScaleType::UnitReverseLog => Self::ReverseLog,
        }
    }
}

impl From<WireScale> for ScaleType {
    fn from(scale: WireScale) -> Self {
        match scale {
            WireScale::Linear => Self::UnitLinear,
            WireScale::Log => Self::UnitLog,
            WireScale::ReverseLog => Self::UnitReverseLog,
        }
    }
}

/// A point as a JSON object.
pub(crate) fn point_to_json(point: &ParameterValues) -> Map<String, Value> {
    point.iter().map(|(name, given)| (name.clone(), value_to_json(given))).collect()
}

fn value_to_json(value: &ParameterValue) -> Value {
    match value {
        ParameterValue::Double(x) | ParameterValue::Discrete(x) => Value::from(*x),
        ParameterValue::Integer(k) => Value::from(*k),
        ParameterValue::Categorical(level) => Value::from(level.as_str()),
    }
}

/// The value of `parameter` that `value` stands for.
fn value_from_json(parameter: &ParameterSpec, value: &Value) -> Result<ParameterValue, String> {
    let typed = match parameter.kind() {
        ParameterKind::Double { .. } => value.as_f64().map(ParameterValue::Double),
        ParameterKind::Discrete { .. } => value.as_f64().map(ParameterValue::Discrete),
        ParameterKind::Integer { .. } => whole_number(value).map(ParameterValue::Integer),
        ParameterKind::Categorical { .. } => value.as_str().map(|level| ParameterValue::Categorical(level.to_owned())),
    };
    typed.ok_or_else(|| format!("parameter {:?} cannot be {value}", parameter.name()))
}

/// A point of `space` from a JSON object.
///
/// # Errors
/// A message that names the parameter and its value, if the object is not a point of the space.
pub(crate) fn point_from_json(space: &SearchSpace, object: &Map<String, Value>) -> Result<ParameterValues, String> {
    let mut point = ParameterValues::new();
    for (name, value) in object {
        let parameter = space.parameters().iter().find(|parameter| parameter.name() == name);
        let parameter = parameter.ok_or_else(|| format!("the search space has no parameter {name:?}"))?;
        point.insert(name.clone(), value_from_json(parameter, value)?);
    }
    space.check(&point).map_err(|error| error.to_string())?;
    Ok(point)
}

/// An integer, also one that was written as 3.0.
fn whole_number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64()?;
        // 2^53: beyond it a float does not hold every integer.
        (number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0).then_some(number as i64)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem() -> WireProblem {
        serde_json::from_value(json!({
            "parameters": [
                {"type": "DOUBLE", "name": "rate", "min": 1e-3, "max": 1.0, "scale": "UNIT_LOG_SCALE"},
                {"type": "INTEGER", "name": "layers", "min": 1, "max": 4, "scale": "UNIT_LINEAR_SCALE"},
                {"type": "DISCRETE", "name": "batch", "values": [16.0, 32.0], "scale": "UNIT_LINEAR_SCALE"},
                {"type": "CATEGORICAL", "name": "activation", "values": ["relu", "tanh"]},
            ],
            "metrics": [{"name": "loss", "goal": "MINIMIZE"}],
            "constraints": 2,
        }))
        .unwrap()
    }

    #[test]
    fn a_problem_survives_the_wire() {
        let wire = problem();
        let statement = wire.statement().unwrap();
        assert_eq!(WireProblem::new(&statement, 2), wire);
        assert_eq!(statement.search_space().parameters().len(), 4);
        assert_eq!(statement.metrics()[0].goal, Goal::Minimize);
    }

    #[test]
    fn conditions_survive_the_wire() {
        let json = json!({
            "parameters": [
                {"type": "CATEGORICAL", "name": "solver", "values": ["adam", "sgd"]},
                {"type": "INTEGER", "name": "steps", "min": 1, "max": 4, "scale": "UNIT_LINEAR_SCALE",
                 "condition": {"parent": "solver", "values": ["sgd"]}},
                {"type": "DOUBLE", "name": "decay", "min": 0.0, "max": 1.0, "scale": "UNIT_LINEAR_SCALE",
                 "condition": {"parent": "steps", "values": [2, 4]}},
            ],
            "metrics": [{"name": "loss", "goal": "MINIMIZE"}],
            "constraints": 0,
        });
        let wire: WireProblem = serde_json::from_value(json.clone()).unwrap();
        let statement = wire.statement().unwrap();
        assert_eq!(serde_json::to_value(WireProblem::new(&statement, 0)).unwrap(), json);
        let space = statement.search_space();
        let point = |object: Value| point_from_json(space, object.as_object().unwrap());
        assert_eq!(point(json!({"solver": "adam"})).map(|point| point.len()), Ok(1));
        assert_eq!(point(json!({"solver": "sgd", "steps": 2, "decay": 0.5})).map(|point| point.len()), Ok(3));
        let inactive = "parameter \"decay\" has a value but is inactive: its parent \"steps\" has none of the values \
                        that activate it";
        assert_eq!(point(json!({"solver": "sgd", "steps": 3, "decay": 0.5})), Err(inactive.to_owned()));
        let mut wrong = json;
        wrong["parameters"][1]["condition"]["values"] = json!([7]);
        let wire: WireProblem = serde_json::from_value(wrong).unwrap();
        assert_eq!(wire.statement(), Err("parameter \"solver\" cannot be 7".to_owned()));
    }

    #[test]
    fn a_point_survives_the_wire_and_must_lie_in_the_space() {
        let statement = problem().statement().unwrap();
        let space = statement.search_space();
        let object = json!({"rate": 0.5, "layers": 3.0, "batch": 16, "activation": "relu"});
        let point = point_from_json(space, object.as_object().unwrap()).unwrap();
        assert_eq!(point["layers"], ParameterValue::Integer(3));
        assert_eq!(
            Value::from(point_to_json(&point)),
            json!({"rate": 0.5, "layers": 3, "batch": 16.0, "activation": "relu"})
        );

        let wrong = [
            (json!({"rate": 0.5, "layers": 3, "batch": 16}), "parameter \"activation\" has no value"),
            (json!({"rate": 0.5, "layers": 3.5}), "parameter \"layers\" cannot be 3.5"),
            (json!({"speed": 1}), "the search space has no parameter \"speed\""),
            (json!({"rate": null}), "parameter \"rate\" cannot be null"),
        ];
        for (object, expected) in wrong {
            assert_eq!(point_from_json(space, object.as_object().unwrap()), Err(expected.to_owned()));
        }
        let outside = json!({"rate": 2.0, "layers": 3, "batch": 16, "activation": "relu"});
        let error = point_from_json(space, outside.as_object().unwrap()).unwrap_err();
        assert_eq!(error, "value 2.0 of parameter \"rate\" lies outside the search space");
    }
}
