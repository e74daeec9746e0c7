//! Tunesmith's extensions of `TrainingInput`, under the key `tunesmith`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value};

use super::{
    Double, EarlyStoppingSettings, FurtherMetric, MlflowConfig, ObservationNoise, ProtoDuration, Repeats,
    StudyStoppingConfig, is_default,
};
use tunesmith_algorithms::early_stopping::StoppingRuleKind;

/// Default of [`Additions::stop_grace_period`]; a guess, equal to Kubernetes' default.
pub const DEFAULT_STOP_GRACE_PERIOD: Duration = Duration::from_secs(30);

/// Default of [`Additions::max_lost_attempts`]; a guess: enough for a machine that restarts a few times, and few enough
/// for a machine that always fails.
pub const DEFAULT_MAX_LOST_ATTEMPTS: u32 = 3;

/// Tunesmith's extensions, which are not part of AI Platform.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Additions {
    /// (Tunesmith) Random seed: equal seeds give equal trials. Drawn at random if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// (Tunesmith) Metrics in addition to `hyperparameterMetricTag`: further objectives, and constraints, which have a
    /// `safetyConfig`. Trials report all of them.
    #[serde(skip_serializing_if = "is_default")]
    pub metrics: Vec<FurtherMetric>,
    /// (Tunesmith) Parameters that are active only for some values of another parameter. Otherwise, they have no value:
    /// the trainer gets no flag, and the search ignores them. The parent may itself be conditional, to any depth.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Vec<ParameterCondition>,
    /// (Tunesmith) Prior distributions of the best values of some parameters. They guide the first trials, and their
    /// influence decreases with the number of trials. `RANDOM_SEARCH` draws all trials from them; `GRID_SEARCH` ignores
    /// them.
    #[serde(skip_serializing_if = "is_default")]
    pub priors: Vec<ParameterPrior>,
    /// (Tunesmith) First trials, in order: values by parameter name. A parameter without a value gets the mode of its
    /// prior, or the middle of its range on its scale.
    #[serde(skip_serializing_if = "is_default")]
    pub initial_trials: Vec<BTreeMap<String, ParentValue>>,
    /// (Tunesmith) By parameter name: number of grid points of a `DOUBLE` parameter for `GRID_SEARCH`, at least 1.
    /// Without an entry, `GRID_SEARCH` rejects a `DOUBLE` parameter, as AI Platform does.
    #[serde(skip_serializing_if = "is_default")]
    pub double_resolution: BTreeMap<String, NonZeroU32>,
    /// (Tunesmith) Noise: variation between trials with the same parameters. Default `AUTO`.
    #[serde(skip_serializing_if = "is_default")]
    pub observation_noise: ObservationNoise,
    /// (Tunesmith) Repetition of the best trials with other seeds or folds. None by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// (Tunesmith) Also read the metric from lines `tag=value` or `tag: value` on standard output. Default false.
    #[serde(skip_serializing_if = "is_default")]
    pub metric_from_stdout: bool,
    /// (Tunesmith) Only folder of TensorFlow event files whose metrics count, relative to the trial's folder:
    /// `validation`, `logs/validation`, or `.` for the trial's folder. A path suffix suffices. By default, a metric
    /// found in several folders is read from one of them, preferably of evaluation or validation, not training.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub metric_folder: Option<String>,
    /// (Tunesmith) Flag that passes each program its own folder, such as `output-dir`; replaces `job-dir`. Without
    /// `jobDir`, the folder is among the job's files.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub job_dir_flag: Option<String>,
    /// (Tunesmith) Report that becomes the result of a trial. Default `LAST`.
    #[serde(skip_serializing_if = "is_default")]
    pub final_measurement: FinalMeasurement,
    /// (Tunesmith) Early stopping rule for `enableTrialEarlyStopping`. Default `DECAY_CURVE`.
    #[serde(skip_serializing_if = "Option::is_none", with = "early_stopping")]
    #[schemars(with = "Option<EarlyStopping>")]
    pub early_stopping: Option<StoppingRuleKind>,
    /// (Tunesmith) Thresholds of that rule.
    #[serde(skip_serializing_if = "is_default")]
    pub early_stopping_settings: EarlyStoppingSettings,
    /// (Tunesmith) Whether the trainer saves checkpoints in its folder and continues from them when it is started there again.
    /// A trial that was stopped early then goes on once the rule, with the trials that have ended since, would no longer stop
    /// it. Default false.
    #[serde(skip_serializing_if = "is_default")]
    pub continues_from_checkpoints: bool,
    /// (Tunesmith) Rules that end the job with its trials so far, as in `studyStoppingConfig` of Vertex AI.
    #[serde(skip_serializing_if = "is_default")]
    pub study_stopping_config: StudyStoppingConfig,
    /// (Tunesmith) Time limit of one trial; exceeding it fails the trial. No limit by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_time_limit: Option<ProtoDuration>,
    /// (Tunesmith) Grace period between SIGTERM and SIGKILL when a program is stopped. Default `30s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_grace_period: Option<ProtoDuration>,
    /// (Tunesmith) Additional pip requirements, such as `scikit-learn==1.5`.
    #[serde(skip_serializing_if = "is_default")]
    pub requirements: Vec<String>,
    /// (Tunesmith) Environment variables of the programs, by name. In a value, `$(NAME)` stands for a variable that the service
    /// sets, or for one before it in alphabetical order, and `$$(NAME)` for `$(NAME)`.
    #[serde(skip_serializing_if = "is_default")]
    pub environment: BTreeMap<String, String>,
    /// (Tunesmith) Maximum number of retries of a trial after the loss of its machine or executor. Failed programs are
    /// not retried. Default 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lost_attempts: Option<u32>,
    /// (Tunesmith) Export to MLflow while the job runs: the job as a run, its trials as child runs. None by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mlflow: Option<MlflowConfig>,
    /// (Tunesmith) Whether the programs may run on machines that can be taken from them. Their place is
    /// `preemptible` in the server configuration; without it, this has no effect.
    #[serde(skip_serializing_if = "is_default")]
    pub preemptible: bool,
    /// (Tunesmith) Job of Vertex AI from which this training input follows. Set by that API; refused in requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vertex: Option<Value>,
}

impl Additions {
    /// Grace period between SIGTERM and SIGKILL.
    pub fn stop_grace_period(&self) -> Duration {
        self.stop_grace_period.map_or(DEFAULT_STOP_GRACE_PERIOD, |period| period.0)
    }

    pub fn early_stopping(&self) -> StoppingRuleKind {
        self.early_stopping.unwrap_or(StoppingRuleKind::DecayCurve)
    }

    /// Maximum number of retries after the loss of a machine or executor.
    pub fn max_lost_attempts(&self) -> u32 {
        self.max_lost_attempts.unwrap_or(DEFAULT_MAX_LOST_ATTEMPTS)
    }
}

/// Condition of one parameter: it is active only in trials whose `parent` is active and has one of `values`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["parameter", "parent", "values"]))]
pub struct ParameterCondition {
    /// (Tunesmith) Name of the parameter; at most one condition per parameter.
    #[schemars(length(min = 1))]
    pub parameter: String,
    /// (Tunesmith) Name of the parent parameter: `INTEGER`, `DISCRETE` or `CATEGORICAL`.
    #[schemars(length(min = 1))]
    pub parent: String,
    /// (Tunesmith) Values of the parent for which the parameter is active, at least one.
    #[schemars(length(min = 1))]
    pub values: Vec<ParentValue>,
}

/// Prior of one parameter: a `mode`, or `weights`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["parameter"]))]
pub struct ParameterPrior {
    /// (Tunesmith) Name of the parameter; at most one prior per parameter.
    #[schemars(length(min = 1))]
    pub parameter: String,
    /// (Tunesmith) Most likely best value of an `INTEGER`, `DOUBLE` or `DISCRETE` parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ParentValue>,
    /// (Tunesmith) Confidence in the mode. Default `MEDIUM`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// (Tunesmith) Replaces `confidence`: standard deviation around the mode, as a fraction of the range on the
    /// parameter's scale, from 0.001 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<Double>,
    /// (Tunesmith) Relative probability of each value of a `DISCRETE` or `CATEGORICAL` parameter to be the best, above
    /// 0. Only proportions matter.
    #[serde(skip_serializing_if = "is_default")]
    pub weights: BTreeMap<String, Double>,
}

/// Confidence in a mode, as a standard deviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Confidence {
    /// Half of the range.
    Low,
    /// A quarter of the range.
    #[default]
    Medium,
    /// A tenth of the range.
    High,
}

impl Confidence {
    /// Standard deviation as a fraction of the range (guesses).
    pub fn spread(self) -> f64 {
        match self {
            Self::Low => 0.5,
            Self::Medium => 0.25,
            Self::High => 0.1,
        }
    }
}

/// A parent's value as written: a level, or a number's text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct ParentValue(pub String);

impl<'de> Deserialize<'de> for ParentValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Number(Number),
        }
        Ok(Self(match Written::deserialize(deserializer)? {
            Written::Text(text) => text,
            Written::Number(number) => number.to_string(),
        }))
    }
}

impl JsonSchema for ParentValue {
    fn schema_name() -> Cow<'static, str> {
        "ParentValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A value of a parent: a level, or a number.",
            "type": ["string", "number"],
        })
    }
}

/// Report that becomes the result of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FinalMeasurement {
    /// Report with the highest step.
    #[default]
    Last,
    /// Best report according to the goal.
    Best,
}

impl FinalMeasurement {
    pub(super) fn to_domain(self) -> tunesmith_domain::FinalMeasurement {
        match self {
            Self::Last => tunesmith_domain::FinalMeasurement::Last,
            Self::Best => tunesmith_domain::FinalMeasurement::Best,
        }
    }
}

/// Early stopping rule.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "StoppingRuleKind", rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(rename = "EarlyStopping")]
pub(super) enum EarlyStopping {
    /// Stops a trial whose best value is worse than the median of the other trials' averages up to that step.
    Median,
    /// Stops a trial whose extrapolated curve has a probability below `maxProbability` of ending better than the best
    /// result. Active after `minTrials` completed trials.
    DecayCurve,
    /// Asynchronous successive halving: stops a trial that is not among the best `1/eta` of the trials that reached the
    /// same step. Suited to many trials of which only few should run to completion.
    Asha,
}

/// Serde form of an optional [`StoppingRuleKind`]: [`EarlyStopping`].
pub(super) mod early_stopping {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{EarlyStopping, StoppingRuleKind};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Field(#[serde(with = "EarlyStopping")] StoppingRuleKind);

    #[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(in super::super) fn serialize<S: Serializer>(
        rule: &Option<StoppingRuleKind>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        rule.map(Field).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<StoppingRuleKind>, D::Error> {
        Ok(Option::<Field>::deserialize(deserializer)?.map(|Field(rule)| rule))
    }
}
