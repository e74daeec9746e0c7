//! `repeats`: repetition of the best trials with other seeds or folds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tunesmith_algorithms::problem::{self, ProblemStatement, RepeatsError};

use super::prior_knowledge_rules::{find, unknown};
use super::violations::Violations;
use super::{HyperparameterSpec, ParameterCondition, ParameterType};

/// Repetition of the best trials with other values of one parameter: the seed of the training, or the fold of the data.
/// The best of many noisy results is also the luckiest; a mean over seeds or folds is not. The search proposes all
/// trials with the first value and has no model of the parameter. The last trials of the study, at most half of them,
/// repeat the best ones with the next values, and the results are averaged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["parameter"]))]
pub struct Repeats {
    /// (Tunesmith) Name of an `INTEGER`, `DISCRETE` or `CATEGORICAL` parameter with at least two values and without a
    /// condition. The trainer gets it as a flag like any other.
    #[schemars(length(min = 1))]
    pub parameter: String,
    /// (Tunesmith) Number of trials to repeat, at least 1. By default, as many as 45% of `maxTrials` allow; 5 without `maxTrials`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub leaders: Option<u32>,
    /// (Tunesmith) Number of values that each of them is tried with, including the first: at least 2, at most the number
    /// of values of the parameter. Default 5, or fewer if the parameter has fewer values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 1000))]
    pub trials_per_leader: Option<u32>,
}

/// Path of the setting.
const FIELD: &str = "tunesmith.repeats";

/// Maximum of `leaders` and `trialsPerLeader`. A guess.
const MOST: u32 = 1000;

impl Repeats {
    pub(in crate::ai_platform) fn of_domain(repeats: &problem::Repeats) -> Self {
        Self {
            parameter: repeats.parameter.clone(),
            leaders: Some(repeats.leaders),
            trials_per_leader: Some(repeats.trials_per_leader),
        }
    }

    /// Adds the repeats to `problem`, for a study of `max_trials` trials, if limited.
    ///
    /// # Errors
    /// [`RepeatsError`] for violations that [`Self::check`] would have reported.
    pub(super) fn add_to(
        &self,
        problem: ProblemStatement,
        max_trials: Option<u64>,
    ) -> Result<ProblemStatement, RepeatsError> {
        let mut parameters = problem.search_space().parameters().iter();
        let Some(parameter) = parameters.find(|parameter| parameter.name() == self.parameter) else {
            return Err(RepeatsError::UnknownParameter { parameter: self.parameter.clone() });
        };
        let repeats = problem::Repeats::new(parameter, self.leaders, self.trials_per_leader, max_trials);
        problem.with_repeats(Some(repeats))
    }
    /// Checks the settings against the parameters of `spec` with their `conditions`, and the number of `metrics`.
    pub(in crate::ai_platform) fn check(
        &self,
        spec: &HyperparameterSpec,
        conditions: &[ParameterCondition],
        metrics: usize,
        violations: &mut Violations,
    ) {
        let leaders = ("leaders", self.leaders, 1);
        for (field, count, least) in [leaders, ("trialsPerLeader", self.trials_per_leader, 2)] {
            if let Some(count) = count.filter(|count| !(least..=MOST).contains(count)) {
                let allowed = format_args!("a whole number from {least} to {MOST}");
                violations.error(format_args!("{FIELD}.{field}"), format_args!("{count} is out of range"), allowed);
            }
        }
        if metrics > 1 {
            let message = format_args!("there are {metrics} metrics to optimise, and no single best trial");
            violations.error(FIELD, message, "only with one metric");
        }
        let field = format!("{FIELD}.parameter");
        let name = self.parameter.as_str();
        let Some(parameter) = find(spec, name) else { return unknown(spec, field, name, violations) };
        if spec.params.len() == 1 {
            violations.error(&field, "is the only parameter, and nothing is searched", "another parameter");
        }
        let is_conditional = |condition: &ParameterCondition| condition.parameter == name || condition.parent == name;
        if conditions.iter().any(is_conditional) {
            let message = format_args!("{name:?} is conditional, or another parameter is conditional on it");
            violations.error(&field, message, "a parameter without conditions");
        }
        let values = match parameter.parameter_type {
            // Reported by the parameter rules.
            ParameterType::ParameterTypeUnspecified => return,
            ParameterType::Double => {
                let message = format_args!("{name:?} is a DOUBLE, which has no listed values");
                violations.error(&field, message, "an INTEGER, DISCRETE or CATEGORICAL parameter");
                return;
            }
            ParameterType::Integer => {
                let bounds = parameter.bounds().map(|(min, max)| (min.as_exact_integer(), max.as_exact_integer()));
                let Some((Some(min), Some(max))) = bounds else { return };
                max.abs_diff(min).saturating_add(1)
            }
            ParameterType::Discrete => parameter.discrete_values.len() as u64,
            ParameterType::Categorical => parameter.categorical_values.len() as u64,
        };
        let trials = u64::from(self.trials_per_leader.unwrap_or(2));
        if values < trials {
            let message = format_args!("{name:?} has {values} values, fewer than {trials}");
            violations.error(&field, message, "a value for each trial of a leader, at least 2");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::ai_platform::{TrainingInput, check, study_spec};

    fn input(repeats: Value) -> TrainingInput {
        serde_json::from_value(json!({
            "hyperparameters": {"goal": "MINIMIZE", "maxTrials": 50, "params": [
                {"parameterName": "rate", "type": "DOUBLE", "minValue": 0, "maxValue": 1},
                {"parameterName": "seed", "type": "INTEGER", "minValue": 1, "maxValue": 4},
            ]},
            "tunesmith": {"repeats": repeats},
        }))
        .unwrap()
    }

    fn fields(input: &TrainingInput) -> Vec<String> {
        let mut fields: Vec<String> = check(input).into_iter().map(|violation| violation.field).collect();
        fields.sort();
        fields.retain(|field| field.contains("repeats"));
        fields
    }

    #[test]
    fn repeats_become_part_of_the_problem() {
        let input = input(json!({"parameter": "seed"}));
        assert_eq!(fields(&input), [""; 0]);
        let problem = study_spec(&input.hyperparameters.unwrap(), &input.tunesmith).unwrap().study.problem;
        let repeats = problem.repeats().unwrap();
        assert_eq!((repeats.parameter.as_str(), repeats.leaders, repeats.trials_per_leader), ("seed", 7, 4));
        assert_eq!(repeats.search_trials, 50 - 7 * 3);
        let searched = problem.without_repeated_parameter().unwrap();
        assert_eq!(searched.search_space().parameters().len(), 1);
    }

    #[test]
    fn settings_that_do_not_fit_the_parameters_are_reported() {
        let of = |repeats: Value| fields(&input(repeats));
        assert_eq!(of(json!({"parameter": "sed"})), ["tunesmith.repeats.parameter"]);
        assert_eq!(of(json!({"parameter": "rate"})), ["tunesmith.repeats.parameter"]);
        assert_eq!(of(json!({"parameter": "seed", "trialsPerLeader": 5})), ["tunesmith.repeats.parameter"]);
        let counts = of(json!({"parameter": "seed", "leaders": 0, "trialsPerLeader": 1}));
        assert_eq!(counts, ["tunesmith.repeats.leaders", "tunesmith.repeats.trialsPerLeader"]);
        let mut several = input(json!({"parameter": "seed"}));
        several.tunesmith = serde_json::from_value(json!({
            "repeats": {"parameter": "seed"}, "metrics": [{"metric": "time", "goal": "MINIMIZE"}],
            "conditions": [{"parameter": "rate", "parent": "seed", "values": [1]}],
        }))
        .unwrap();
        assert_eq!(fields(&several), ["tunesmith.repeats", "tunesmith.repeats.parameter"]);
        several.hyperparameters = None;
        assert_eq!(fields(&several), ["tunesmith.repeats"]);
    }
}
