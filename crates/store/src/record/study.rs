//! Records of studies, without [`Progress`], which changes with every trial.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tunesmith_algorithms::problem::{
    Condition, ConstraintSpec, Goal, MetricSpec, ObservationNoise, ParameterKind, ParameterPrior, ParameterSpec,
    ParameterValue, ParameterValues, ProblemStatement, ScaleType, SearchSpace,
};

use super::float::Float;
use super::stopping::{StoppingRuleField, StudyStoppingRecord, ThresholdsRecord, decode_rule, encode_rule};
use super::trial::ValueRecord;
use super::{Progress, RecordError, from_json, to_json};
use tunesmith_domain::{Algorithm, CurveAxis, FinalMeasurement, Study, StudyFields, StudyState, StudyStopping};

/// The newest version of the record. 1: as below.
const VERSION: u32 = 1;

/// The stored form of `study`, and its progress.
pub(crate) fn encode_study(study: &Study) -> (Vec<u8>, Progress) {
    let StudyFields {
        id,
        problem,
        initial_points,
        algorithm,
        seed,
        stopping_rule,
        stopping_axis,
        study_stopping,
        final_measurement,
        prior_studies,
        max_trials,
        trial_lease,
        config,
        state,
        state_reason,
        create_time,
        next_trial_id,
        revision,
    } = &**study;
    let (stopping_rule, stopping_thresholds) = stopping_rule.map(encode_rule).unzip();
    let body = to_json(&StudyRecord {
        v: VERSION,
        id: id.to_string(),
        parameters: problem.search_space().parameters().iter().map(ParameterRecord::from).collect(),
        metrics: problem
            .metrics()
            .iter()
            .map(|metric| MetricSpecRecord { name: metric.name.clone(), goal: metric.goal })
            .collect(),
        constraints: problem.constraints().iter().map(ConstraintRecord::from).collect(),
        observation_noise: Some(problem.observation_noise())
            .filter(|noise| *noise != ObservationNoise::Auto)
            .map(Into::into),
        initial_points: initial_points.iter().map(point_record).collect(),
        algorithm: algorithm.clone(),
        seed: *seed,
        stopping_rule,
        stopping_thresholds: stopping_thresholds.flatten(),
        stopping_axis: *stopping_axis,
        study_stopping: (*study_stopping != StudyStopping::default()).then(|| study_stopping.into()),
        final_measurement: *final_measurement,
        prior_studies: prior_studies.iter().map(ToString::to_string).collect(),
        max_trials: *max_trials,
        trial_lease: *trial_lease,
        config: (**config).clone(),
        state: *state,
        state_reason: state_reason.clone(),
        create_time: *create_time,
    });
    (body, Progress { next_trial_id: *next_trial_id, revision: *revision })
}

/// Decodes the result of [`encode_study`].
pub(crate) fn decode_study(bytes: &[u8], progress: Progress) -> Result<Study, RecordError> {
    let record: StudyRecord = from_json(bytes, VERSION)?;
    let parameters: Vec<ParameterSpec> =
        record.parameters.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
    let space = SearchSpace::new(parameters).map_err(RecordError::malformed)?;
    let metrics =
        record.metrics.into_iter().map(|metric| MetricSpec { name: metric.name, goal: metric.goal }).collect();
    let prior_studies: Result<_, _> = record.prior_studies.iter().map(|id| id.parse()).collect();
    Ok(Study::restore(StudyFields {
        id: record.id.parse().map_err(RecordError::malformed)?,
        problem: ProblemStatement::new(space, metrics)
            .and_then(|problem| problem.with_constraints(record.constraints.into_iter().map(Into::into).collect()))
            .map_err(RecordError::malformed)?
            .with_observation_noise(record.observation_noise.map(Into::into).unwrap_or_default())
            .into(),
        initial_points: record.initial_points.into_iter().map(point).collect(),
        algorithm: record.algorithm,
        seed: record.seed,
        stopping_rule: decode_rule(record.stopping_rule, record.stopping_thresholds)?,
        stopping_axis: record.stopping_axis,
        study_stopping: record.study_stopping.map(Into::into).unwrap_or_default(),
        final_measurement: record.final_measurement,
        prior_studies: prior_studies.map_err(RecordError::malformed)?,
        max_trials: record.max_trials,
        trial_lease: record.trial_lease,
        config: record.config.into(),
        state: record.state,
        state_reason: record.state_reason,
        create_time: record.create_time,
        next_trial_id: progress.next_trial_id,
        revision: progress.revision,
    }))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StudyRecord {
    v: u32,
    id: String,
    parameters: Vec<ParameterRecord>,
    metrics: Vec<MetricSpecRecord>,
    /// Absent without any, and in records of versions without constraints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    constraints: Vec<ConstraintRecord>,
    /// Absent if it is estimated, and in records of versions without this setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    observation_noise: Option<NoiseRecord>,
    /// Absent without any, and in records of versions without initial points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    initial_points: Vec<PointRecord>,
    #[serde(with = "AlgorithmRecord")]
    algorithm: Algorithm,
    seed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopping_rule: Option<StoppingRuleField>,
    /// Absent with the default thresholds, and in records of versions that have no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopping_thresholds: Option<ThresholdsRecord>,
    #[serde(default, with = "CurveAxisRecord", skip_serializing_if = "is_step")]
    stopping_axis: CurveAxis,
    /// Absent without any, and in records of versions without such rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    study_stopping: Option<StudyStoppingRecord>,
    #[serde(with = "FinalMeasurementRecord")]
    final_measurement: FinalMeasurement,
    prior_studies: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_trials: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trial_lease: Option<Duration>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    config: Value,
    #[serde(with = "StateRecord")]
    state: StudyState,
    state_reason: String,
    create_time: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricSpecRecord {
    name: String,
    #[serde(with = "GoalRecord")]
    goal: Goal,
}

/// The noise that a user has stated.
#[derive(Serialize, Deserialize)]
enum NoiseRecord {
    Auto,
    Low,
    High,
}

impl From<ObservationNoise> for NoiseRecord {
    fn from(noise: ObservationNoise) -> Self {
        match noise {
            ObservationNoise::Auto => Self::Auto,
            ObservationNoise::Low => Self::Low,
            ObservationNoise::High => Self::High,
        }
    }
}

impl From<NoiseRecord> for ObservationNoise {
    fn from(noise: NoiseRecord) -> Self {
        match noise {
            NoiseRecord::Auto => Self::Auto,
            NoiseRecord::Low => Self::Low,
            NoiseRecord::High => Self::High,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstraintRecord {
    name: String,
    #[serde(with = "GoalRecord")]
    goal: Goal,
    threshold: Float,
    /// Absent without a target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_safe_fraction: Option<Float>,
}

impl From<&ConstraintSpec> for ConstraintRecord {
    fn from(constraint: &ConstraintSpec) -> Self {
        let ConstraintSpec { name, goal, threshold, min_safe_fraction } = constraint;
        Self {
            name: name.clone(),
            goal: *goal,
            threshold: Float(*threshold),
            min_safe_fraction: (*min_safe_fraction != 0.0).then_some(Float(*min_safe_fraction)),
        }
    }
}

impl From<ConstraintRecord> for ConstraintSpec {
    fn from(record: ConstraintRecord) -> Self {
        let constraint = Self::new(record.name, record.goal, record.threshold.0);
        Self { min_safe_fraction: record.min_safe_fraction.map_or(0.0, |fraction| fraction.0), ..constraint }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParameterRecord {
    name: String,
    kind: KindRecord,
    /// Absent if the parameter is always active, and in records of versions without conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    condition: Option<ConditionRecord>,
    /// Absent without one, and in records of versions without priors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prior: Option<PriorRecord>,
}

type PointRecord = BTreeMap<String, ValueRecord>;

fn point_record(point: &ParameterValues) -> PointRecord {
    point.iter().map(|(name, value)| (name.clone(), value.into())).collect()
}

fn point(record: PointRecord) -> ParameterValues {
    record.into_iter().map(|(name, value)| (name, value.into())).collect()
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum PriorRecord {
    Normal { mode: ValueRecord, spread: Float },
    Weights(Vec<(ValueRecord, Float)>),
}

impl From<&ParameterPrior> for PriorRecord {
    fn from(prior: &ParameterPrior) -> Self {
        match prior {
            ParameterPrior::Normal { mode, spread } => Self::Normal { mode: mode.into(), spread: Float(*spread) },
            ParameterPrior::Weights(weights) => {
                Self::Weights(weights.iter().map(|(value, weight)| (value.into(), Float(*weight))).collect())
            }
        }
    }
}

impl From<PriorRecord> for ParameterPrior {
    fn from(record: PriorRecord) -> Self {
        match record {
            PriorRecord::Normal { mode, spread } => Self::Normal { mode: mode.into(), spread: spread.0 },
            PriorRecord::Weights(weights) => {
                Self::Weights(weights.into_iter().map(|(value, weight)| (value.into(), weight.0)).collect())
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConditionRecord {
    parent: String,
    values: ParentValuesRecord,
}

/// Values of a parent parameter, all of one kind.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ParentValuesRecord {
    Integer(Vec<i64>),
    Discrete(Vec<Float>),
    Categorical(Vec<String>),
}

impl From<&Condition> for ConditionRecord {
    fn from(condition: &Condition) -> Self {
        let (mut integers, mut numbers, mut levels) = (Vec::new(), Vec::new(), Vec::new());
        for value in condition.values() {
            match value {
                ParameterValue::Integer(value) => integers.push(*value),
                // Parents are never of kind double.
                ParameterValue::Discrete(value) | ParameterValue::Double(value) => numbers.push(Float(*value)),
                ParameterValue::Categorical(level) => levels.push(level.clone()),
            }
        }
        let values = if !levels.is_empty() {
            ParentValuesRecord::Categorical(levels)
        } else if !numbers.is_empty() {
            ParentValuesRecord::Discrete(numbers)
        } else {
            ParentValuesRecord::Integer(integers)
        };
        Self { parent: condition.parent().to_owned(), values }
    }
}

impl From<ConditionRecord> for Condition {
    fn from(record: ConditionRecord) -> Self {
        let values = match record.values {
            ParentValuesRecord::Integer(values) => values.into_iter().map(ParameterValue::Integer).collect(),
            ParentValuesRecord::Discrete(values) => {
                values.into_iter().map(|value| ParameterValue::Discrete(value.0)).collect()
            }
            ParentValuesRecord::Categorical(values) => values.into_iter().map(ParameterValue::Categorical).collect(),
        };
        Self::new(record.parent, values)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum KindRecord {
    Double {
        min: Float,
        max: Float,
        #[serde(with = "ScaleRecord")]
        scale: ScaleType,
    },
    Integer {
        min: i64,
        max: i64,
        #[serde(with = "ScaleRecord")]
        scale: ScaleType,
    },
    Discrete {
        values: Vec<Float>,
        #[serde(with = "ScaleRecord")]
        scale: ScaleType,
    },
    Categorical {
        values: Vec<String>,
    },
}

impl From<&ParameterSpec> for ParameterRecord {
    fn from(spec: &ParameterSpec) -> Self {
        let kind = match spec.kind() {
            ParameterKind::Double { min, max, scale } => {
                KindRecord::Double { min: Float(*min), max: Float(*max), scale: *scale }
            }
            ParameterKind::Integer { min, max, scale } => KindRecord::Integer { min: *min, max: *max, scale: *scale },
            ParameterKind::Discrete { values, scale } => {
                KindRecord::Discrete { values: values.iter().copied().map(Float).collect(), scale: *scale }
            }
            ParameterKind::Categorical { values } => KindRecord::Categorical { values: values.clone() },
        };
        Self {
            name: spec.name().to_owned(),
            kind,
            condition: spec.condition().map(ConditionRecord::from),
            prior: spec.prior().map(PriorRecord::from),
        }
    }
}

impl TryFrom<ParameterRecord> for ParameterSpec {
    type Error = RecordError;

    fn try_from(record: ParameterRecord) -> Result<Self, RecordError> {
        let kind = match record.kind {
            KindRecord::Double { min, max, scale } => ParameterKind::Double { min: min.0, max: max.0, scale },
            KindRecord::Integer { min, max, scale } => ParameterKind::Integer { min, max, scale },
            KindRecord::Discrete { values, scale } => {
                ParameterKind::Discrete { values: values.into_iter().map(|value| value.0).collect(), scale }
            }
            KindRecord::Categorical { values } => ParameterKind::Categorical { values },
        };
        let spec = Self::new(record.name, kind).map_err(RecordError::malformed)?;
        let spec = match record.prior {
            Some(prior) => spec.with_prior(prior.into()).map_err(RecordError::malformed)?,
            None => spec,
        };
        Ok(match record.condition {
            Some(condition) => spec.with_condition(condition.into()),
            None => spec,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Goal", rename_all = "SCREAMING_SNAKE_CASE")]
enum GoalRecord {
    Maximize,
    Minimize,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ScaleType", rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(clippy::enum_variant_names, reason = "a mirror of the domain's type has its names")]
enum ScaleRecord {
    UnitLinear,
    UnitLog,
    UnitReverseLog,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Algorithm", rename_all = "SCREAMING_SNAKE_CASE")]
enum AlgorithmRecord {
    Automatic,
    GaussianProcessBandit,
    GridSearch { double_resolution: BTreeMap<String, u32> },
    RandomSearch,
    QuasiRandomSearch,
    Tpe,
    CmaEs,
}

fn is_step(axis: &CurveAxis) -> bool {
    *axis == CurveAxis::Step
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CurveAxis", rename_all = "SCREAMING_SNAKE_CASE")]
enum CurveAxisRecord {
    Step,
    ElapsedTime,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FinalMeasurement", rename_all = "SCREAMING_SNAKE_CASE")]
enum FinalMeasurementRecord {
    Last,
    Best,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "StudyState", rename_all = "SCREAMING_SNAKE_CASE")]
enum StateRecord {
    Active,
    Inactive,
    Completed,
}
