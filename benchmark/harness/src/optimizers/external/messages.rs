//! Protocol between the benchmark and an external optimizer: one JSON object per line, one response per request.
//! `examples/external_optimizer` describes it for authors of optimizers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tunesmith_algorithms::problem::{
    Condition, Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement,
    ScaleType, SearchSpace,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Starts a study; the previous one has ended.
    Create {
        problem: WireProblem,
        seed: u64,
        budget: usize,
        /// Number of concurrent trials.
        parallel: usize,
    },
    /// Requests a point for each trial.
    Suggest { trials: Vec<u64> },
    /// Reports the result of a trial.
    Complete {
        /// Trial number; never requested if the benchmark chose the point.
        trial: u64,
        parameters: Map<String, Value>,
        /// Metrics by name; absent without a result.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metrics: BTreeMap<String, f64>,
        /// Constraint values, feasible up to 0; absent without constraints.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        constraints: Vec<f64>,
        /// Reason of infeasibility: a failure or a violated constraint.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        infeasible: Option<String>,
        /// Whether the trial was stopped, so that its value is that of its last report.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stopped_early: bool,
    },
    /// Reports an intermediate value of a running trial and asks whether to stop it; only with early stopping by the
    /// optimizer.
    Report { trial: u64, step: u64, value: f64 },
}

/// Response of the optimizer; the required fields depend on the request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Create: its version, including that of the underlying library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// Create: reason why it does not support this problem. Report: reason why it stops no trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unsupported: Option<String>,
    /// Suggest: one point per trial, fewer if the space is exhausted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) suggestions: Option<Vec<Map<String, Value>>>,
    /// Report: whether to stop the trial; false if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<bool>,
    /// Any request: the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// Wire format of a [`ProblemStatement`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WireProblem {
    parameters: Vec<WireParameter>,
    metrics: Vec<WireMetric>,
    /// Number of constraint values in each result.
    #[serde(default)]
    pub(crate) constraints: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct WireParameter {
    name: String,
    #[serde(flatten, with = "WireKind")]
    kind: ParameterKind,
    /// `None`: always active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    condition: Option<WireCondition>,
}

/// Parent values for which a parameter is active; otherwise it has no value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct WireCondition {
    parent: String,
    values: Vec<Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ParameterKind", tag = "type", rename_all = "UPPERCASE")]
enum WireKind {
    Double {
        min: f64,
        max: f64,
        #[serde(with = "WireScale")]
        scale: ScaleType,
    },
    Integer {
        min: i64,
        max: i64,
        #[serde(with = "WireScale")]
        scale: ScaleType,
    },
    Discrete {
        values: Vec<f64>,
        #[serde(with = "WireScale")]
        scale: ScaleType,
    },
    Categorical {
        values: Vec<String>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ScaleType")]
#[expect(clippy::enum_variant_names, reason = "serde asks for the names of the remote type")]
enum WireScale {
    #[serde(rename = "UNIT_LINEAR_SCALE")]
    UnitLinear,
    #[serde(rename = "UNIT_LOG_SCALE")]
    UnitLog,
    #[serde(rename = "UNIT_REVERSE_LOG_SCALE")]
    UnitReverseLog,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct WireMetric {
    name: String,
    #[serde(with = "WireGoal")]
    goal: Goal,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Goal", rename_all = "UPPERCASE")]
enum WireGoal {
    Maximize,
    Minimize,
}

impl WireProblem {
    pub(crate) fn new(problem: &ProblemStatement, constraints: usize) -> Self {
        let metric = |metric: &MetricSpec| WireMetric { name: metric.name.clone(), goal: metric.goal };
        Self {
            parameters: problem.search_space().parameters().iter().map(WireParameter::new).collect(),
            metrics: problem.metrics().iter().map(metric).collect(),
            constraints,
        }
    }

    /// Converts to a problem.
    ///
    /// # Errors
    /// A message if the problem is invalid.
    pub(crate) fn statement(&self) -> Result<ProblemStatement, String> {
        let parent = |name: &str| self.parameters.iter().find(|other| other.name == name);
        let parameters: Result<Vec<_>, _> = self.parameters.iter().map(|parameter| parameter.spec(&parent)).collect();
        let space = SearchSpace::new(parameters?).map_err(|error| error.to_string())?;
        let metric = |metric: &WireMetric| MetricSpec { name: metric.name.clone(), goal: metric.goal };
        ProblemStatement::new(space, self.metrics.iter().map(metric).collect()).map_err(|error| error.to_string())
    }
}

impl WireParameter {
    fn new(parameter: &ParameterSpec) -> Self {
        let condition = parameter.condition().map(|condition| WireCondition {
            parent: condition.parent().to_owned(),
            values: condition.values().iter().map(value_to_json).collect(),
        });
        Self { name: parameter.name().to_owned(), kind: parameter.kind().clone(), condition }
    }

    /// Converts to a parameter; `parent` looks up another parameter by name.
    fn spec<'a>(&self, parent: &dyn Fn(&str) -> Option<&'a Self>) -> Result<ParameterSpec, String> {
        let spec = self.unconditional()?;
        let Some(condition) = &self.condition else { return Ok(spec) };
        let mut values = Vec::with_capacity(condition.values.len());
        if let Some(parent) = parent(&condition.parent) {
            let kind = parent.unconditional()?;
            for value in &condition.values {
                values.push(value_from_json(&kind, value)?);
            }
        }
        Ok(spec.with_condition(Condition::new(condition.parent.as_str(), values)))
    }

    fn unconditional(&self) -> Result<ParameterSpec, String> {
        let spec = ParameterSpec::new(self.name.as_str(), self.kind.clone());
        spec.map_err(|error| format!("parameter {:?}: {error}", self.name))
    }
}

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

fn value_from_json(parameter: &ParameterSpec, value: &Value) -> Result<ParameterValue, String> {
    let typed = match parameter.kind() {
        ParameterKind::Double { .. } => value.as_f64().map(ParameterValue::Double),
        ParameterKind::Discrete { .. } => value.as_f64().map(ParameterValue::Discrete),
        ParameterKind::Integer { .. } => whole_number(value).map(ParameterValue::Integer),
        ParameterKind::Categorical { .. } => value.as_str().map(|level| ParameterValue::Categorical(level.to_owned())),
    };
    typed.ok_or_else(|| format!("parameter {:?} cannot be {value}", parameter.name()))
}

/// Parses a point of `space`.
///
/// # Errors
/// A message with the parameter and its value, if the object is not a point of the space.
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

/// Integer value, also when written as 3.0.
fn whole_number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64()?;
        // 2^53: beyond it a float cannot represent every integer.
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
