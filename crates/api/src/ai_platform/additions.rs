//! Tunesmith's own additions to `TrainingInput`, all under its key `tunesmith`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

use super::{Double, ProtoDuration, is_default};

/// How long a program may take to end after SIGTERM, unless [`Additions::stop_grace_period`] says otherwise.
/// A guess: the default of Kubernetes.
pub const DEFAULT_STOP_GRACE_PERIOD: Duration = Duration::from_secs(30);

/// How often a trial whose place was lost is run again, unless [`Additions::max_lost_attempts`] says otherwise.
/// A guess: enough for a machine that is restarted a few times, few enough to end on one that always dies.
pub const DEFAULT_MAX_LOST_ATTEMPTS: u32 = 3;

/// Tunesmith's own additions; AI Platform knows none of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Additions {
    /// (Tunesmith) Key of all randomness: the same seed gives the same trials. Drawn at random if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// (Tunesmith) Parameters that exist only for some values of another one. Elsewhere they have no value: the trainer
    /// gets no flag, and the search does not count them. Conditions may hang on conditional parameters, to any depth.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Vec<ParameterCondition>,
    /// (Tunesmith) What is believed of the best values of some parameters. It guides the search at its beginning and fades
    /// with the number of trials. `RANDOM_SEARCH` draws from it throughout, `GRID_SEARCH` makes no use of it.
    #[serde(skip_serializing_if = "is_default")]
    pub priors: Vec<ParameterPrior>,
    /// (Tunesmith) Points to be tried first, in this order and as they are: values by parameter name. A parameter
    /// without a value gets the mode of its prior, or the middle of its range on its scale.
    #[serde(skip_serializing_if = "is_default")]
    pub initial_trials: Vec<BTreeMap<String, ParentValue>>,
    /// (Tunesmith) By parameter name, how many points `GRID_SEARCH` divides a `DOUBLE` parameter into, at least 1.
    /// Without an entry `GRID_SEARCH` refuses a `DOUBLE`, as AI Platform does.
    #[serde(skip_serializing_if = "is_default")]
    pub double_resolution: BTreeMap<String, NonZeroU32>,
    /// (Tunesmith) Also read the metric from lines `tag=value` or `tag: value` on standard output. Default false.
    #[serde(skip_serializing_if = "is_default")]
    pub metric_from_stdout: bool,
    /// (Tunesmith) Which report of a trial is its result. Default `LAST`.
    #[serde(skip_serializing_if = "is_default")]
    pub final_measurement: FinalMeasurement,
    /// (Tunesmith) The rule by which `enableTrialEarlyStopping` stops trials. Default `MEDIAN`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<EarlyStopping>,
    /// (Tunesmith) How long one trial may run; it then fails. No limit by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_time_limit: Option<ProtoDuration>,
    /// (Tunesmith) How long a program may take to end after SIGTERM, before SIGKILL. Default `30s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_grace_period: Option<ProtoDuration>,
    /// (Tunesmith) Requirements for pip, installed beside the packages, such as `scikit-learn==1.5`.
    #[serde(skip_serializing_if = "is_default")]
    pub requirements: Vec<String>,
    /// (Tunesmith) How often a trial is run again when the place it ran in was lost (not when its program failed).
    /// Default 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lost_attempts: Option<u32>,
}

impl Additions {
    /// How long a program may take to end after SIGTERM.
    pub fn stop_grace_period(&self) -> Duration {
        self.stop_grace_period.map_or(DEFAULT_STOP_GRACE_PERIOD, |period| period.0)
    }

    /// How often a trial whose place was lost is run again.
    pub fn max_lost_attempts(&self) -> u32 {
        self.max_lost_attempts.unwrap_or(DEFAULT_MAX_LOST_ATTEMPTS)
    }
}

/// When one parameter exists: only in trials whose `parent` exists and has one of `values`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["parameter", "parent", "values"]))]
pub struct ParameterCondition {
    /// (Tunesmith) Name of the parameter; each at most once.
    #[schemars(length(min = 1))]
    pub parameter: String,
    /// (Tunesmith) Name of the parameter that decides; `INTEGER`, `DISCRETE` or `CATEGORICAL`.
    #[schemars(length(min = 1))]
    pub parent: String,
    /// (Tunesmith) The values of the parent for which the parameter exists, at least one.
    #[schemars(length(min = 1))]
    pub values: Vec<ParentValue>,
}

/// What is believed of the best value of one parameter: a `mode`, or `weights`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["parameter"]))]
pub struct ParameterPrior {
    /// (Tunesmith) Name of the parameter; each at most once.
    #[schemars(length(min = 1))]
    pub parameter: String,
    /// (Tunesmith) The most likely best value of an `INTEGER`, `DOUBLE` or `DISCRETE` parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ParentValue>,
    /// (Tunesmith) How sure that is. Default `MEDIUM`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// (Tunesmith) Instead of `confidence`: one standard deviation around the mode, as a fraction of the range on the
    /// parameter's scale, from 0.001 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<Double>,
    /// (Tunesmith) For each value of a `DISCRETE` or `CATEGORICAL` parameter how likely it is the best, above 0; only
    /// proportions matter.
    #[serde(skip_serializing_if = "is_default")]
    pub weights: BTreeMap<String, Double>,
}

/// How sure a user is of a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Confidence {
    /// Within half of the range.
    Low,
    /// Within a quarter of the range.
    #[default]
    Medium,
    /// Within a tenth of the range.
    High,
}

impl Confidence {
    /// One standard deviation as a fraction of the range (guesses that match the words).
    pub fn spread(self) -> f64 {
        match self {
            Self::Low => 0.5,
            Self::Medium => 0.25,
            Self::High => 0.1,
        }
    }
}

/// A value of a parent as it was written: a level, or the text of a number.
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

/// Which report of a trial is its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FinalMeasurement {
    /// The one with the highest step.
    #[default]
    Last,
    /// The best by the goal.
    Best,
}

/// By which rule trials are stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EarlyStopping {
    /// Stop a trial whose best value is worse than the median of what the others had on average at that step.
    #[default]
    Median,
    /// Stop a trial whose curve, carried on to its end, has a chance below 1% to be better than the best so far. Begins
    /// when 10 trials have run to their end.
    DecayCurve,
    /// Asynchronous successive halving: stop a trial that is not in the best third of those that came as far. For many
    /// trials of which few shall run to their end.
    Asha,
}
