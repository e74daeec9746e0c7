//! Conversion of a `HyperparameterSpec` to domain types.

use tunesmith_algorithms::designers::completed_point;
use tunesmith_algorithms::problem::{
    Condition, ParameterKind, ParameterSpec, ParameterSpecError, ParameterValue, ParameterValues, ProblemError,
    ProblemStatement, RepeatsError, ScaleType, SearchSpace, SearchSpaceError, ValueError,
};

use tunesmith_domain::StudySpec;

use super::condition_rules::parent_value;
use super::early_stopping::stopping_rule;
use super::metrics::metrics;
use super::prior_knowledge_rules::{initial_values, parameter_prior};
use super::violations::Violations;
use super::{Additions, HyperparameterSpec, ParameterCondition, ParameterType};

/// A tuning job's study and trial counts.
#[derive(Debug, Clone, PartialEq)]
pub struct TuningSpec {
    pub study: StudySpec,
    /// At least 1.
    pub max_trials: u32,
    /// Maximum concurrent trials, at least 1.
    pub max_parallel_trials: u32,
    /// Number of failed trials that fail the job; 0 leaves the decision to the service.
    pub max_failed_trials: u32,
}

/// A spec that does not describe a study. Does not occur for a spec accepted by [`super::check`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StudySpecError {
    #[error("parameter {index} cannot be searched")]
    Parameter {
        /// Index in `params`.
        index: usize,
        #[source]
        source: ParameterSpecError,
    },
    /// A parameter lacks its type or a bound.
    #[error("parameter {index} has no type, or a bound that is missing or not a whole number")]
    Incomplete {
        /// Index in `params`.
        index: usize,
    },
    /// A condition has an unknown parent or parent value.
    #[error("the condition of parameter {parameter:?} names no parent, or no value of its parent")]
    Condition {
        /// The conditional parameter.
        parameter: String,
    },
    /// A prior names a value that its parameter lacks.
    #[error("the prior of parameter {parameter:?} names none of its values")]
    Prior { parameter: String },
    #[error("initial trial {index} is outside the search space")]
    InitialTrial {
        index: usize,
        /// `None` for a malformed value.
        #[source]
        source: Option<ValueError>,
    },
    /// An early stopping threshold is out of range.
    #[error("a threshold of early stopping is out of range")]
    EarlyStopping,
    /// The parameters do not form a search space.
    #[error(transparent)]
    Space(#[from] SearchSpaceError),
    /// The metrics and constraints are inconsistent.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// The repeats do not fit the parameters.
    #[error(transparent)]
    Repeats(#[from] RepeatsError),
}

/// Converts `spec` and `additions` to a study.
///
/// # Errors
/// [`StudySpecError`] for violations that [`super::check`] would have reported.
pub fn study_spec(spec: &HyperparameterSpec, additions: &Additions) -> Result<TuningSpec, StudySpecError> {
    let mut parameters = Vec::with_capacity(spec.params.len());
    for (index, parameter) in spec.params.iter().enumerate() {
        let kind = parameter_kind(parameter).ok_or(StudySpecError::Incomplete { index })?;
        let parameter = ParameterSpec::new(&*parameter.parameter_name, kind)
            .map_err(|source| StudySpecError::Parameter { index, source })?;
        let parameter = with_prior(parameter, index, spec, additions)?;
        let own = additions.conditions.iter().find(|condition| condition.parameter == parameter.name());
        parameters.push(match own {
            Some(own) => parameter.with_condition(condition(spec, own)?),
            None => parameter,
        });
    }
    let (metrics, constraints) = metrics(spec, additions);
    let problem = ProblemStatement::new(SearchSpace::new(parameters)?, metrics)?
        .with_constraints(constraints)?
        .with_observation_noise(additions.observation_noise.to_domain());
    let max_trials = additions
        .study_stopping_config
        .max_num_trials
        .map_or(u32::MAX, |most| most.max(1))
        .min(count(spec.max_trials).max(1));
    let problem = match &additions.repeats {
        Some(repeats) => repeats.add_to(problem, Some(max_trials.into()))?,
        None => problem,
    };
    let initial_points = initial_points(&problem, spec, additions)?;
    let study = StudySpec {
        problem,
        initial_points,
        algorithm: spec.algorithm.to_domain(&additions.double_resolution),
        stopping_rule: if spec.enable_trial_early_stopping {
            let settings = &additions.early_stopping_settings;
            let rule = stopping_rule(additions.early_stopping(), settings, &mut Violations::default());
            Some(rule.ok_or(StudySpecError::EarlyStopping)?)
        } else {
            None
        },
        study_stopping: additions.study_stopping_config.to_domain(),
        final_measurement: additions.final_measurement.to_domain(),
        stopping_axis: tunesmith_domain::CurveAxis::Step,
        max_trials: None,
        trial_lease: None,
    };
    Ok(TuningSpec {
        study,
        max_trials,
        max_parallel_trials: count(spec.max_parallel_trials).max(1),
        max_failed_trials: count(spec.max_failed_trials),
    })
}

/// `parameter`, at `index` of `spec`, with its prior if any.
pub(super) fn with_prior(
    parameter: ParameterSpec,
    index: usize,
    spec: &HyperparameterSpec,
    additions: &Additions,
) -> Result<ParameterSpec, StudySpecError> {
    let Some(prior) = additions.priors.iter().find(|prior| prior.parameter == parameter.name()) else {
        return Ok(parameter);
    };
    let fault = || StudySpecError::Prior { parameter: prior.parameter.clone() };
    let prior = parameter_prior(&spec.params[index], prior).ok_or_else(fault)?;
    parameter.with_prior(prior).map_err(|source| StudySpecError::Parameter { index, source })
}

/// Initial trials as points of `problem`, which has the parameters of `spec`.
pub(super) fn initial_points(
    problem: &ProblemStatement,
    spec: &HyperparameterSpec,
    additions: &Additions,
) -> Result<Vec<ParameterValues>, StudySpecError> {
    let point = |(index, written)| {
        let values = initial_values(spec, written).ok_or(StudySpecError::InitialTrial { index, source: None })?;
        completed_point(problem, &values).map_err(|source| StudySpecError::InitialTrial { index, source: Some(source) })
    };
    additions.initial_trials.iter().enumerate().map(point).collect()
}

/// Converts `condition`, looking up its parent in `spec`.
fn condition(spec: &HyperparameterSpec, condition: &ParameterCondition) -> Result<Condition, StudySpecError> {
    let fault = || StudySpecError::Condition { parameter: condition.parameter.clone() };
    let parent = spec.params.iter().find(|parameter| parameter.parameter_name == condition.parent).ok_or_else(fault)?;
    let values: Option<Vec<ParameterValue>> =
        condition.values.iter().map(|value| parent_value(parent, value)).collect();
    Ok(Condition::new(condition.parent.as_str(), values.ok_or_else(fault)?))
}

/// Value of an optional count; negative counts are 0.
fn count(count: Option<i32>) -> u32 {
    u32::try_from(count.unwrap_or(0)).unwrap_or(0)
}

fn parameter_kind(parameter: &super::ParameterSpec) -> Option<ParameterKind> {
    let scale = match parameter.scale_type {
        super::ScaleType::None | super::ScaleType::UnitLinearScale => ScaleType::UnitLinear,
        super::ScaleType::UnitLogScale => ScaleType::UnitLog,
        super::ScaleType::UnitReverseLogScale => ScaleType::UnitReverseLog,
    };
    Some(match parameter.parameter_type {
        ParameterType::ParameterTypeUnspecified => return None,
        ParameterType::Double => {
            let (min, max) = parameter.bounds()?;
            ParameterKind::Double { min: min.0, max: max.0, scale }
        }
        ParameterType::Integer => {
            let (min, max) = parameter.bounds()?;
            ParameterKind::Integer { min: min.as_exact_integer()?, max: max.as_exact_integer()?, scale }
        }
        ParameterType::Discrete => {
            let values = parameter.discrete_values.iter().map(|value| value.0).collect();
            ParameterKind::Discrete { values, scale }
        }
        ParameterType::Categorical => ParameterKind::Categorical { values: parameter.categorical_values.clone() },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tunesmith_algorithms::problem::{Goal, MetricSpec};

    use super::*;
    use crate::ai_platform::{self, Number, ScaleType as Scale, Severity, TrainingInput};

    #[test]
    fn spec_is_converted_to_a_study() {
        let json = serde_json::json!({
            "goal": "MINIMIZE", "maxTrials": 9, "maxParallelTrials": 2, "maxFailedTrials": 3,
            "hyperparameterMetricTag": "loss", "enableTrialEarlyStopping": true, "algorithm": "GRID_SEARCH",
            "params": [
                {"parameterName": "a", "type": "DOUBLE", "minValue": "1e-3", "maxValue": 1, "scaleType": "UNIT_LOG_SCALE"},
                {"parameterName": "b", "type": "INTEGER", "minValue": -1, "maxValue": 4},
                {"parameterName": "c", "type": "DISCRETE", "discreteValues": [1, 2.5], "scaleType": "UNIT_REVERSE_LOG_SCALE"},
                {"parameterName": "d", "type": "CATEGORICAL", "categoricalValues": ["x", "y"]},
            ],
        });
        let additions = serde_json::from_str(r#"{"doubleResolution": {"a": 4}, "finalMeasurement": "BEST"}"#).unwrap();
        let study = study_spec(&serde_json::from_value(json).unwrap(), &additions).unwrap();

        let kinds = [
            ("a", ParameterKind::Double { min: 1e-3, max: 1.0, scale: ScaleType::UnitLog }),
            ("b", ParameterKind::Integer { min: -1, max: 4, scale: ScaleType::UnitLinear }),
            ("c", ParameterKind::Discrete { values: vec![1.0, 2.5], scale: ScaleType::UnitReverseLog }),
            ("d", ParameterKind::Categorical { values: vec!["x".into(), "y".into()] }),
        ];
        let parameters = kinds.into_iter().map(|(name, kind)| ParameterSpec::new(name, kind).unwrap()).collect();
        let metric = MetricSpec { name: "loss".into(), goal: Goal::Minimize };
        let expected = StudySpec {
            stopping_axis: tunesmith_domain::CurveAxis::Step,
            max_trials: None,
            trial_lease: None,
            study_stopping: Default::default(),
            problem: ProblemStatement::new(SearchSpace::new(parameters).unwrap(), vec![metric]).unwrap(),
            initial_points: vec![],
            algorithm: tunesmith_domain::Algorithm::GridSearch { double_resolution: [("a".to_owned(), 4)].into() },
            stopping_rule: Some(tunesmith_domain::StoppingRuleKind::DecayCurve.into()),
            final_measurement: tunesmith_domain::FinalMeasurement::Best,
        };
        let expected = TuningSpec { study: expected, max_trials: 9, max_parallel_trials: 2, max_failed_trials: 3 };
        assert_eq!(study, expected);
    }

    #[test]
    fn missing_fields_have_their_published_defaults() {
        let json = r#"{"params": [{"parameterName": "a", "type": "CATEGORICAL", "categoricalValues": ["x"]}]}"#;
        let tuning = study_spec(&serde_json::from_str(json).unwrap(), &Additions::default()).unwrap();
        assert_eq!((tuning.max_trials, tuning.max_parallel_trials, tuning.max_failed_trials), (1, 1, 0));
        let study = tuning.study;
        assert_eq!(study.algorithm, tunesmith_domain::Algorithm::Automatic);
        assert_eq!(study.problem.metrics()[0].name, "training/hptuning/metric");
        assert_eq!(study.problem.metrics()[0].goal, Goal::Maximize);
        assert_eq!(study.stopping_rule, None);
    }

    #[test]
    fn additions_select_the_stopping_rule_that_enable_trial_early_stopping_enables() {
        let rule = |additions: &str, enabled: bool| {
            let params = serde_json::json!([{"parameterName": "a", "type": "CATEGORICAL", "categoricalValues": ["x"]}]);
            let spec = serde_json::json!({"enableTrialEarlyStopping": enabled, "params": params});
            let additions: Additions = serde_json::from_str(additions).unwrap();
            study_spec(&serde_json::from_value(spec).unwrap(), &additions).unwrap().study.stopping_rule
        };
        assert_eq!(rule("{}", true), Some(tunesmith_domain::StoppingRuleKind::DecayCurve.into()));
        assert_eq!(
            rule(r#"{"earlyStopping": "MEDIAN"}"#, true),
            Some(tunesmith_domain::StoppingRuleKind::Median.into())
        );
        assert_eq!(
            rule(r#"{"earlyStopping": "DECAY_CURVE"}"#, true),
            Some(tunesmith_domain::StoppingRuleKind::DecayCurve.into())
        );
        assert_eq!(rule(r#"{"earlyStopping": "ASHA"}"#, true), Some(tunesmith_domain::StoppingRuleKind::Asha.into()));
        assert_eq!(rule(r#"{"earlyStopping": "ASHA"}"#, false), None);
    }

    fn parameters() -> impl Strategy<Value = ai_platform::ParameterSpec> {
        let number = prop_oneof![
            (-4_i32..4).prop_map(f64::from),
            prop::sample::select(vec![0.5, 1e308, -1e308, 1e17, f64::INFINITY, f64::NAN]),
        ]
        .prop_map(Number::from);
        let kind = prop::sample::select(vec![
            ParameterType::ParameterTypeUnspecified,
            ParameterType::Double,
            ParameterType::Integer,
            ParameterType::Categorical,
            ParameterType::Discrete,
        ]);
        let scale = prop::sample::select(vec![
            Scale::None,
            Scale::UnitLinearScale,
            Scale::UnitLogScale,
            Scale::UnitReverseLogScale,
        ]);
        let bound = || prop::option::of(number.clone());
        let levels = prop::collection::vec("[ab]", 0..3);
        let points = prop::collection::vec(number.clone(), 0..3);
        ("[ab]?", kind, bound(), bound(), levels, points, scale).prop_map(
            |(
                parameter_name,
                parameter_type,
                min_value,
                max_value,
                categorical_values,
                discrete_values,
                scale_type,
            )| {
                ai_platform::ParameterSpec {
                    parameter_name,
                    parameter_type,
                    min_value,
                    max_value,
                    categorical_values,
                    discrete_values,
                    scale_type,
                }
            },
        )
    }

    proptest! {
        /// Accepted specs are valid studies, so later steps cannot fail.
        #[test]
        fn accepted_specs_are_valid_studies(params in prop::collection::vec(parameters(), 0..3)) {
            let spec = HyperparameterSpec { params, ..HyperparameterSpec::default() };
            let study = study_spec(&spec, &Additions::default());
            let input = TrainingInput { hyperparameters: Some(spec), ..TrainingInput::default() };
            let refused = ai_platform::check(&input).iter().any(|violation| violation.severity == Severity::Error);
            prop_assert!(refused || study.is_ok(), "{:?}", study);
        }
    }
}
