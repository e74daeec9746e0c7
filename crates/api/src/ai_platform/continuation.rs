//! Jobs that continue an earlier one and inherit absent fields from it.

use super::{Algorithm, GoalType, HyperparameterSpec, TrainingInput, is_default};

/// Published fields of `hyperparameters` that `input` inherits, in the order of the reference. Empty unless the job
/// continues another.
pub fn inherited_fields(input: &TrainingInput) -> Vec<&'static str> {
    let Some(spec) = input.hyperparameters.as_ref().filter(|spec| spec.continues()) else { return Vec::new() };
    [
        ("goal", spec.goal == GoalType::GoalTypeUnspecified),
        ("params", spec.params.is_empty()),
        ("hyperparameterMetricTag", spec.hyperparameter_metric_tag.is_empty()),
        // The algorithm depends on the parameters, and may not support others.
        ("algorithm", spec.params.is_empty() && spec.algorithm == Algorithm::AlgorithmUnspecified),
    ]
    .into_iter()
    .filter(|(_, is_absent)| *is_absent)
    .map(|(field, _)| field)
    .collect()
}

/// Completes `input` with fields of `earlier`, the input of the job it continues. An inherited field brings along
/// Tunesmith's additions to it, unless `input` gives them.
pub fn continued(input: &TrainingInput, earlier: &TrainingInput) -> TrainingInput {
    let mut input = input.clone();
    let inherited = inherited_fields(&input);
    let (Some(spec), Some(former)) = (&mut input.hyperparameters, &earlier.hyperparameters) else { return input };
    let (own, additions) = (&mut input.tunesmith, &earlier.tunesmith);
    for field in inherited {
        match field {
            "goal" => {
                spec.goal = former.goal;
                inherit(&mut own.metrics, &additions.metrics);
            }
            "params" => {
                spec.params.clone_from(&former.params);
                inherit(&mut own.conditions, &additions.conditions);
                inherit(&mut own.double_resolution, &additions.double_resolution);
                inherit(&mut own.priors, &additions.priors);
            }
            "hyperparameterMetricTag" => {
                spec.hyperparameter_metric_tag.clone_from(&former.hyperparameter_metric_tag);
                inherit(&mut own.metric_from_stdout, &additions.metric_from_stdout);
            }
            _ => spec.algorithm = former.algorithm,
        }
    }
    input
}

fn inherit<T: Clone + Default + PartialEq>(own: &mut T, former: &T) {
    if is_default(own) {
        own.clone_from(former);
    }
}

/// Whether `spec` inherits its parameters.
pub fn inherits_parameters(spec: &HyperparameterSpec) -> bool {
    spec.continues() && spec.params.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn absent_fields_are_those_of_the_earlier_job() {
        let earlier: TrainingInput = from_value(json!({
            "args": ["a"],
            "hyperparameters": {
                "goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "algorithm": "RANDOM_SEARCH", "maxTrials": 9,
                "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}],
            },
            "tunesmith": {"metricFromStdout": true, "priors": [{"parameter": "x", "mode": 0.5}]},
        }))
        .unwrap();
        let short: TrainingInput =
            from_value(json!({"hyperparameters": {"resumePreviousJobId": "earlier", "maxTrials": 30}})).unwrap();
        assert_eq!(inherited_fields(&short), ["goal", "params", "hyperparameterMetricTag", "algorithm"]);
        let expected = TrainingInput {
            args: Vec::new(),
            hyperparameters: earlier.hyperparameters.clone().map(|spec| HyperparameterSpec {
                max_trials: Some(30),
                resume_previous_job_id: "earlier".to_owned(),
                ..spec
            }),
            ..earlier.clone()
        };
        assert_eq!(continued(&short, &earlier), expected);
        // Given fields are kept, and a job without a predecessor inherits nothing.
        let given = json!({"goal": "MAXIMIZE", "resumePreviousJobId": "earlier"});
        let given: TrainingInput = from_value(json!({"hyperparameters": given})).unwrap();
        assert_eq!(continued(&given, &earlier).hyperparameters.unwrap().goal, GoalType::Maximize);
        let own: TrainingInput = from_value(json!({"hyperparameters": {"maxTrials": 3}})).unwrap();
        assert_eq!(inherited_fields(&own), [""; 0]);
        assert_eq!(continued(&own, &earlier), own);
    }
}
