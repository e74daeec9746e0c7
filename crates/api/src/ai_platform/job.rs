//! AI Platform's `Job` resource, also written by `--output`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::notices::{Notice, Notices, job_notices};
use super::optimizer::MetricFolderChoice;
use super::optimizer::measurement::MetricMessage;
use super::prediction::{PredictionInput, PredictionOutput};
pub use super::waiting::WaitingMessage;
use super::{BuiltInAlgorithmOutput, Double, Int64, MlflowExport, TrainingInput, is_default};
use tunesmith_algorithms::encoding::{AtBound, Bound};
use tunesmith_algorithms::problem::{Origin, ParameterValue};
use tunesmith_domain::{
    Job, JobState, Study, StudyState, Trial, TrialState, Waiting, best_at_bounds, best_first, optimal_of_several,
};

/// Training job or batch prediction. Fields at their defaults are omitted, and 64-bit integers are strings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Job")]
pub struct JobResource {
    /// ID of the job within its project.
    pub job_id: String,
    /// Training input; absent in a batch prediction.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(with = "TrainingInput")]
    pub training_input: Value,
    /// Input of a batch prediction.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(with = "PredictionInput")]
    pub prediction_input: Value,
    /// Creation time.
    pub create_time: Timestamp,
    /// Start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// End time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// State of the job.
    #[serde(serialize_with = "serialize_state", deserialize_with = "deserialize_state")]
    #[schemars(schema_with = "state_schema")]
    pub state: JobState,
    /// Reason for the failure or cancellation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error_message: String,
    /// Output so far; absent in a batch prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training_output: Option<TrainingOutput>,
    /// Progress of a batch prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction_output: Option<PredictionOutput>,
    /// Labels by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Number of jobs that start before this one while it is `QUEUED`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_position: Option<Int64>,
    /// Changes with every change of the job; base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// Tunesmith's extensions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tunesmith: JobAdditions,
}

/// Tunesmith's extensions of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct JobAdditions {
    /// Parts of the request without effect.
    #[serde(flatten)]
    pub notices: Notices,
    /// Reasons for the job or its trials to wait. Empty if nothing waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingMessage>,
    /// Reason the job gets no further trials: it has all of them, its search space is exhausted, or a rule of
    /// `studyStoppingConfig` applies. Absent while it may get some.
    #[serde(default, rename = "studyStateReason", skip_serializing_if = "String::is_empty")]
    pub study_state_reason: String,
    /// With several metrics: Pareto-optimal trials, that is, trials that satisfy every constraint and are not dominated
    /// by another such trial; sorted by the first metric.
    #[serde(default, rename = "optimalTrials", skip_serializing_if = "Vec::is_empty")]
    pub optimal_trials: Vec<String>,
    /// Parameters of the best trial at a bound of their range, which may be too narrow. Only for jobs with one metric
    /// and at least ten results.
    #[serde(default, rename = "bestAtBounds", skip_serializing_if = "Vec::is_empty")]
    pub best_at_bounds: Vec<ParameterAtBound>,
    /// Trial with the best expected result; only in files written by `run --output`. Over HTTP, see `views/recommended`
    /// of the job's study.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended: Option<RecommendedTrial>,
    /// Progress of the export to MLflow. Absent without `tunesmith.mlflow` in the training input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mlflow: Option<MlflowExport>,
}

/// Parameter whose best value is at a bound of its range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParameterAtBound {
    /// Name of the parameter.
    pub parameter_name: String,
    /// Bound: `minValue` or `maxValue`, or the first or last value of `discreteValues`.
    pub bound: String,
    /// Value of the bound.
    pub value: String,
}

impl From<AtBound> for ParameterAtBound {
    fn from(AtBound { parameter, bound, limit }: AtBound) -> Self {
        let bound = match (bound, &limit) {
            (_, ParameterValue::Discrete(_)) => "discreteValues",
            (Bound::Lower, _) => "minValue",
            (Bound::Upper, _) => "maxValue",
        };
        Self { parameter_name: parameter, bound: bound.to_owned(), value: limit.to_string() }
    }
}

/// Tried point with the best expected result of the first metric, according to a model of all results. Under noise, the
/// best result is also the luckiest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecommendedTrial {
    /// Number of the trial.
    pub trial_id: String,
    /// Median of the prediction.
    pub predicted: f64,
    /// Lower end of the 95% interval.
    pub lower: f64,
    /// Upper end of the 95% interval.
    pub upper: f64,
    /// Whether the best result may be due to luck: the model gives a probability above 95% that its trial is worse than
    /// this one.
    pub best_may_be_lucky: bool,
}

impl JobResource {
    /// Output of the training so far; empty in a batch prediction.
    pub fn training_output(&self) -> &TrainingOutput {
        static NONE: LazyLock<TrainingOutput> = LazyLock::new(TrainingOutput::default);
        self.training_output.as_ref().unwrap_or(&NONE)
    }

    /// Adds the etag and queue position, which only a server knows.
    #[must_use]
    pub fn served(mut self, etag: String, position: Option<usize>) -> Self {
        self.etag = Some(etag);
        self.job_position = position.and_then(|position| i64::try_from(position).ok()).map(Int64);
        self
    }

    /// Adds `notices` about the request to those about the training input.
    #[must_use]
    pub fn with_notices(mut self, notices: Vec<Notice>) -> Self {
        self.tunesmith.notices.notices.extend(notices);
        self
    }

    /// Adds the reasons why the job or its trials are waiting.
    #[must_use]
    pub fn with_waiting(mut self, waiting: &[Waiting]) -> Self {
        self.tunesmith.waiting = waiting.iter().map(WaitingMessage::from).collect();
        self
    }

    /// Adds the progress of the export to MLflow.
    #[must_use]
    pub fn with_mlflow(mut self, export: Option<MlflowExport>) -> Self {
        self.tunesmith.mlflow = export;
        self
    }

    #[must_use]
    pub fn with_recommended(mut self, recommended: Option<RecommendedTrial>) -> Self {
        self.tunesmith.recommended = recommended;
        self
    }

    /// Notices about request fields without effect.
    pub fn notices(&self) -> &[Notice] {
        &self.tunesmith.notices.notices
    }
}

/// Job in a request. Fields set only by the service are accepted and ignored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "JobInput")]
pub struct JobRequest {
    /// ID of the job within its project.
    pub job_id: String,
    /// Training input; either this or `predictionInput` is required.
    pub training_input: Option<TrainingInput>,
    /// Labels by key.
    pub labels: BTreeMap<String, String>,
    /// In an update: etag of the job that the update is based on.
    pub etag: String,
    /// Batch prediction.
    pub prediction_input: Option<PredictionInput>,
    create_time: Value,
    start_time: Value,
    end_time: Value,
    state: Value,
    error_message: Value,
    job_position: Value,
    training_output: Value,
    prediction_output: Value,
    tunesmith: Value,
}

impl JobRequest {
    /// Notices about given fields that the service sets itself on creation.
    pub fn notices_of_creation(&self) -> Vec<Notice> {
        let etag = Value::from(self.etag.as_str());
        let fields = [
            ("createTime", &self.create_time),
            ("startTime", &self.start_time),
            ("endTime", &self.end_time),
            ("state", &self.state),
            ("errorMessage", &self.error_message),
            ("jobPosition", &self.job_position),
            ("etag", if self.etag.is_empty() { &Value::Null } else { &etag }),
            ("trainingOutput", &self.training_output),
            ("predictionOutput", &self.prediction_output),
            ("tunesmith", &self.tunesmith),
        ];
        fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| Notice::set_by_service(name)).collect()
    }
}

/// Page of jobs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ListJobsResponse")]
pub struct JobList {
    /// Jobs, by ID.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobResource>,
    /// Token of the next page; absent on the last page.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
}

/// Output of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrainingOutput {
    /// Number of successful trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_trial_count: Option<Int64>,
    /// Successful trials, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<HyperparameterOutput>,
    /// Whether the job is a tuning job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_hyperparameter_tuning_job: bool,
    /// Whether the job runs a built-in algorithm.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_built_in_algorithm_job: bool,
    /// Output of a built-in algorithm. It has the path of the model in a successful job without hyperparameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub built_in_algorithm_output: Option<BuiltInAlgorithmOutput>,
    /// Metric tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyperparameter_metric_tag: Option<String>,
}

/// Successful trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HyperparameterOutput {
    /// Number of the trial.
    pub trial_id: String,
    /// Parameter values, as text.
    pub hyperparameters: BTreeMap<String, String>,
    /// Result of the trial.
    pub final_metric: HyperparameterMetric,
    /// Whether the trial was stopped early.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_trial_stopped_early: bool,
    /// Start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// End time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// State of the job.
    #[serde(serialize_with = "serialize_state", deserialize_with = "deserialize_state")]
    #[schemars(schema_with = "state_schema")]
    pub state: JobState,
    /// Output of a built-in algorithm, with the path of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub built_in_algorithm_output: Option<BuiltInAlgorithmOutput>,
    /// Tunesmith's extensions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunesmith: Option<OutputAdditions>,
}

/// Tunesmith's extensions of a trial's output.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputAdditions {
    /// Algorithm and step that proposed the trial.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known_origin")]
    #[schemars(schema_with = "origin_schema")]
    pub origin: Option<Origin>,
    /// Results by metric and constraint; absent in a job with one metric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricMessage>,
    /// Constraints that the result violates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violated_constraints: Vec<String>,
    /// Metrics found in several folders of event files, with the folder that contains the curve, and the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metric_folders: Vec<MetricFolderChoice>,
}

/// Value of the metric at one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HyperparameterMetric {
    /// Training step.
    pub training_step: Int64,
    /// Value of the metric.
    pub objective_value: f64,
}

pub(super) fn serialize_state<S: Serializer>(state: &JobState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(state)
}

pub(super) fn deserialize_state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<JobState, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// Drops unknown origins: another version may have other algorithms and steps.
pub(super) fn known_origin<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Origin>, D::Error> {
    Ok(Option::<Origin>::deserialize(Value::deserialize(deserializer)?).ok().flatten())
}

fn state_schema(_: &mut SchemaGenerator) -> Schema {
    let states = [
        JobState::Queued,
        JobState::Preparing,
        JobState::Running,
        JobState::Succeeded,
        JobState::Failed,
        JobState::Cancelling,
        JobState::Cancelled,
    ];
    json_schema!({ "type": "string", "enum": states.map(|state| state.to_string()) })
}

pub(super) fn origin_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "algorithm": { "type": "string", "description": "The algorithm." },
            "step": { "type": "string", "description": "The step of the algorithm, if it has several." },
        },
        "required": ["algorithm"],
    })
}

/// Name of `job` for people: that given through the API of Vertex AI, or its ID.
pub fn display_name(job: &Job) -> &str {
    job.training_input["tunesmith"]["vertex"]["displayName"].as_str().unwrap_or(job.id.parts().1)
}

/// Resource of `job` with the successful trials of `trials`, best first, as published.
pub fn job_resource(job: &Job, study: Option<&Study>, trials: &[Trial]) -> JobResource {
    let prediction = job.prediction.as_ref();
    let built_in = BuiltInAlgorithmOutput::of(job);
    let mut training_output = match study {
        Some(study) => tuning_output(study, trials),
        None => TrainingOutput::default(),
    };
    if let Some(built_in) = built_in {
        for trial in &mut training_output.trials {
            trial.built_in_algorithm_output = Some(built_in.of_trial(job, &trial.trial_id));
        }
        training_output.is_built_in_algorithm_job = true;
        training_output.built_in_algorithm_output = Some(built_in.of_single_run(job));
    }
    let machine_notices = job.plan.as_ref().ok().map(|plan| plan.machines.notices.as_slice());
    JobResource {
        job_id: job.id.parts().1.to_owned(),
        training_input: job.training_input.clone(),
        prediction_input: prediction.map(|prediction| prediction.input.clone()).unwrap_or_default(),
        create_time: job.create_time,
        start_time: job.start_time,
        end_time: job.end_time,
        state: job.state,
        error_message: job.error_message.clone(),
        training_output: Some(training_output).filter(|_| prediction.is_none()),
        prediction_output: prediction.map(PredictionOutput::of),
        labels: job.labels.clone(),
        job_position: None,
        etag: None,
        tunesmith: JobAdditions {
            notices: Notices { notices: job_notices(job, machine_notices) },
            waiting: Vec::new(),
            study_state_reason: match study {
                Some(study) if study.state == StudyState::Completed => study.state_reason.clone(),
                _ => String::new(),
            },
            optimal_trials: study.map_or_else(Vec::new, |study| {
                optimal_of_several(&study.problem, trials).iter().map(ToString::to_string).collect()
            }),
            best_at_bounds: study.map_or_else(Vec::new, |study| {
                best_at_bounds(&study.problem, trials).into_iter().map(Into::into).collect()
            }),
            recommended: None,
            mlflow: None,
        },
    }
}

fn tuning_output(study: &Study, trials: &[Trial]) -> TrainingOutput {
    let metric = &study.problem.metrics()[0];
    let outputs: Vec<HyperparameterOutput> = best_first(&study.problem, trials)
        .into_iter()
        .filter(|trial| trial.state == TrialState::Succeeded)
        .filter_map(|trial| hyperparameter_output(study, trial, &metric.name))
        .collect();
    TrainingOutput {
        completed_trial_count: i64::try_from(outputs.len()).ok().map(Int64),
        trials: outputs,
        is_hyperparameter_tuning_job: true,
        hyperparameter_metric_tag: Some(metric.name.clone()),
        ..TrainingOutput::default()
    }
}

fn hyperparameter_output(study: &Study, trial: &Trial, metric: &str) -> Option<HyperparameterOutput> {
    let measurement = trial.final_measurement.as_ref()?;
    let names = study.problem.value_names();
    let values = names.filter_map(|name| {
        let value = Double(measurement.value(name)?);
        Some(MetricMessage { metric: name.to_owned(), value })
    });
    let additions = OutputAdditions {
        origin: trial.origin,
        metrics: if has_several_values(study) { values.collect() } else { Vec::new() },
        violated_constraints: violated_names(study, trial),
        metric_folders: MetricFolderChoice::of(trial),
    };
    Some(HyperparameterOutput {
        trial_id: trial.id.to_string(),
        hyperparameters: trial.parameters.iter().map(|(name, value)| (name.clone(), value.to_string())).collect(),
        final_metric: HyperparameterMetric {
            training_step: Int64(measurement.step),
            objective_value: measurement.value(metric)?,
        },
        is_trial_stopped_early: trial.stopped_early,
        start_time: trial.start_time,
        end_time: trial.end_time,
        state: JobState::Succeeded,
        built_in_algorithm_output: None,
        tunesmith: (additions != OutputAdditions::default()).then_some(additions),
    })
}

/// Whether trials of `study` have several values.
fn has_several_values(study: &Study) -> bool {
    study.problem.value_names().nth(1).is_some()
}

/// Names of the constraints violated by the result of `trial`.
pub(super) fn violated_names(study: &Study, trial: &Trial) -> Vec<String> {
    study.violated(trial).map(|constraint| constraint.name.clone()).collect()
}
