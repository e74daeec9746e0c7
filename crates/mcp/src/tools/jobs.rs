//! Jobs: lists, and one with its results.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tunesmith_api::ai_platform::Int64;
use tunesmith_api::ai_platform::job::{JobResource, WaitingMessage};
use tunesmith_client::Client;
use tunesmith_domain::StudyId;

use super::explain::{Prediction, Recommendation};
use crate::context::Context;
use crate::failure::Failure;
use crate::program_text::ProgramText;
use crate::rows::{count, row};
use crate::subject::{bounded, given};
use crate::tool::{Effects, Tool};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            ("mcp.list_jobs", "List jobs"),
            "Lists jobs by ID, one page at a time.",
            Effects::Reads,
            json!({"filter": "state = RUNNING", "page_size": 20}),
            list_jobs,
        ),
        Tool::new(
            ("mcp.get_job", "Get a job"),
            "Gets a job: state, counts of trials, best and recommended trial, why it waits or failed.",
            Effects::Reads,
            json!({"job": "census"}),
            get_job,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct ListArguments {
    /// As in `state = FAILED AND labels.owner:me AND createTime > -P7D`; default all. Fields: jobId, state, errorMessage,
    /// labels.KEY, createTime, startTime, endTime.
    filter: Option<String>,
    /// 1 to 100; default 20.
    page_size: Option<u64>,
    /// next_page_token of the previous page.
    page_token: Option<String>,
    /// Project; default that of the server.
    project: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct JobPage {
    jobs: Vec<JobSummary>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page_token: Option<String>,
}

/// A job in short.
#[derive(Serialize, JsonSchema)]
pub(crate) struct JobSummary {
    pub(crate) job: String,
    /// QUEUED, PREPARING, RUNNING, SUCCEEDED, FAILED, CANCELLING or CANCELLED.
    pub(super) state: String,
    create_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<String>,
    /// Metric of the results.
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<String>,
    /// Trials with a result.
    pub(super) completed_trials: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_trials: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best_trial: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best_value: Option<f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// Why it failed or was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ProgramText>,
}

impl From<&JobResource> for JobSummary {
    fn from(job: &JobResource) -> Self {
        let best = job.training_output().trials.first();
        Self {
            job: job.job_id.clone(),
            state: job.state.to_string(),
            create_time: job.create_time.to_string(),
            end_time: job.end_time.map(|time| time.to_string()),
            metric: job.training_output().hyperparameter_metric_tag.clone(),
            completed_trials: job.training_output().completed_trial_count.map_or(0, |Int64(count)| count),
            max_trials: max_trials(job),
            best_trial: best.map(|trial| trial.trial_id.clone()),
            best_value: best.map(|trial| trial.final_metric.objective_value),
            labels: job.labels.clone(),
            error: ProgramText::given(&job.error_message),
        }
    }
}

impl JobSummary {
    /// State and best result in one line.
    pub(crate) fn line(&self) -> String {
        let trials = self.max_trials.map(|most| format!(", {} of {most} trials have a result", self.completed_trials));
        let best = self.metric.as_ref().zip(self.best_value).map(|(metric, value)| format!(", best {metric} {value}"));
        format!("{}{}{}", self.state, trials.unwrap_or_default(), best.unwrap_or_default())
    }
}

/// Number of trials of `job`; `None` without hyperparameters.
pub(super) fn max_trials(job: &JobResource) -> Option<u64> {
    let hyperparameters = job.training_input.get("hyperparameters").filter(|value| value.is_object())?;
    // The published default is 1.
    Some(hyperparameters.get("maxTrials").and_then(Value::as_u64).unwrap_or(1))
}

async fn list_jobs(context: Context, arguments: ListArguments) -> Result<JobPage, Failure> {
    let size = bounded("page_size", arguments.page_size, 20, (1, 100))?;
    let client = context.client(arguments.project.as_deref());
    let (filter, token) = (arguments.filter.unwrap_or_default(), arguments.page_token.unwrap_or_default());
    let page = client.job_page(&filter, u8::try_from(size).unwrap_or(u8::MAX), &token).await?;
    let next_page_token = Some(page.next_page_token).filter(|token| !token.is_empty());
    Ok(JobPage { jobs: page.jobs.iter().map(|job| JobSummary::from(&job.message)).collect(), next_page_token })
}

/// A job by its ID.
#[derive(Deserialize, JsonSchema)]
pub(super) struct JobArguments {
    /// Job ID.
    pub(super) job: String,
    /// Project; default that of the server.
    pub(super) project: Option<String>,
}

impl JobArguments {
    /// Client of its project, and the ID.
    pub(super) fn client(&self, context: &Context) -> Result<(Client, &str), Failure> {
        Ok((context.client(self.project.as_deref()), given("job", &self.job)?))
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct JobDetails {
    #[serde(flatten)]
    summary: JobSummary,
    failed_trials: u64,
    running_trials: u64,
    /// Trials that clients proposed.
    proposed_trials: u64,
    /// Best result. It may be lucky: see `recommended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<Prediction>,
    /// Tried point with the best expected result.
    #[serde(skip_serializing_if = "Option::is_none")]
    recommended: Option<Prediction>,
    /// Whether the best result is probably due to luck.
    #[serde(skip_serializing_if = "Option::is_none")]
    best_may_be_lucky: Option<bool>,
    /// Why it gets no further trials.
    #[serde(skip_serializing_if = "String::is_empty")]
    no_further_trials: String,
    /// Pareto-optimal trials of several metrics.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    optimal_trials: Vec<String>,
    /// Parameters whose best value is at a bound: the range may be too narrow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    best_at_bounds: Vec<String>,
    /// Why the job or its trials wait.
    waiting: Vec<WaitReason>,
    /// Settings without effect.
    notes: Vec<String>,
}

/// Why something waits.
#[derive(Serialize, JsonSchema)]
pub(super) struct WaitReason {
    /// LIMIT, RESOURCES, JOB_SLOT, ENGINE or another kind.
    kind: String,
    reason: ProgramText,
    /// Trial that waits; absent if the job waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trial: Option<String>,
    /// Number of trials that wait for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    trials: Option<i64>,
    since: String,
}

impl From<WaitingMessage> for WaitReason {
    fn from(waiting: WaitingMessage) -> Self {
        Self {
            kind: waiting.kind,
            reason: ProgramText::new(&waiting.reason),
            trial: waiting.trial_id,
            trials: waiting.trial_count.map(|Int64(count)| count),
            since: waiting.since.to_string(),
        }
    }
}

async fn get_job(context: Context, arguments: JobArguments) -> Result<JobDetails, Failure> {
    let (client, id) = arguments.client(&context)?;
    let job = client.job(id).await?.message;
    details(&client, job).await
}

/// `job` with the results of its trials.
pub(crate) async fn details(client: &Client, job: JobResource) -> Result<JobDetails, Failure> {
    let study = client.study(StudyId::JOBS_LOCATION, &job.job_id);
    let mut details = JobDetails {
        summary: JobSummary::from(&job),
        failed_trials: 0,
        running_trials: 0,
        proposed_trials: 0,
        best: None,
        recommended: None,
        best_may_be_lucky: None,
        no_further_trials: job.tunesmith.study_state_reason,
        optimal_trials: job.tunesmith.optimal_trials,
        best_at_bounds: job
            .tunesmith
            .best_at_bounds
            .into_iter()
            .map(|it| format!("{} = {} ({})", it.parameter_name, it.value, it.bound))
            .collect(),
        waiting: job.tunesmith.waiting.into_iter().map(WaitReason::from).collect(),
        notes: job
            .tunesmith
            .notices
            .notices
            .into_iter()
            .map(|notice| format!("{}: {}", notice.field, notice.description))
            .collect(),
    };
    let output = job.training_output.unwrap_or_default();
    if !output.is_hyperparameter_tuning_job {
        return Ok(details);
    }
    details.failed_trials = count(&study, "state = INFEASIBLE").await?;
    details.running_trials = count(&study, "state = (ACTIVE STOPPING)").await?;
    details.proposed_trials = count(&study, "NOT origin:*").await?;
    match Recommendation::read(&study, &[]).await {
        Ok(view) => {
            details.best = Some(view.best);
            details.recommended = view.recommended;
            details.best_may_be_lucky = Some(view.best_may_be_lucky);
        }
        // A model needs some results.
        Err(failure) if failure.is_precondition() => {
            if let Some(best) = output.trials.first() {
                details.best = Some(Prediction::measured(row(&study, &best.trial_id).await?));
            }
        }
        Err(failure) => return Err(failure),
    }
    Ok(details)
}
