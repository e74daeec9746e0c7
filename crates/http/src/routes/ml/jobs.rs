//! `projects.jobs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::Method;
use axum::{Extension, Json};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::Rng;
use schemars::JsonSchema;
use serde::Deserialize;

use super::batch_prediction;
use super::job_reopen::{self, MAX_PARALLEL_TRIALS, MAX_TRIALS};
use super::packages;
use crate::openapi::examples;
use crate::openapi::{Created, Operation};
use crate::request::body::Body;
use crate::request::names::{self, Names, job_id};
use crate::request::paging::{self, Page};
use crate::request::query::{self, Query};
use crate::response::error::{ApiError, Code};
use crate::response::rendered::Rendered;
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::{Admission, use_cases};
use tunesmith_api::ai_platform::job::{JobList, JobRequest, JobResource, job_resource};
use tunesmith_api::ai_platform::plan::{CommandLine, PlanningError, job_plan_on, job_study, previous_job};
use tunesmith_api::ai_platform::rpc::{Empty, FieldViolation};
use tunesmith_api::ai_platform::{
    MlflowExport, MlflowExportState, Notice, Severity, TrainingInput, Violation, check, continued, inherited_fields,
    proto_json,
};
use tunesmith_domain::{Job, JobChange, JobId, JobPlan};
use tunesmith_jobs::JobFilter;
use tunesmith_jobs::{JobReport, JobsError, TrackingStatus};
use tunesmith_jobs::{Submission, SubmitError};
use tunesmith_store::StoreError;

const JOBS: &str = "/v1/projects/{project}/jobs";
pub(crate) const JOB: &str = "/v1/projects/{project}/jobs/{job}";

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    routes
        .add(
            Operation::post(JOBS, use_cases::CREATE_JOB)
                .example(examples::JOB)
                .makes("job", "$response.body#/jobId")
                .or_conflict(),
            create,
        )
        .add(Operation::get(JOBS, use_cases::LIST_JOBS), list)
        .add(Operation::get(JOB, use_cases::GET_JOB).or_not_found(), get)
        .add(
            Operation::new(Method::PATCH, JOB, use_cases::PATCH_JOB)
                .example(examples::LABELS)
                .or_not_found()
                .or_conflict(),
            patch,
        )
        .add(
            Operation::post("/v1/projects/{project}/jobs/{job}:cancel", use_cases::CANCEL_JOB)
                .or_not_found()
                .or_conflict(),
            cancel,
        )
}

async fn create(
    State(api): State<Arc<Api>>,
    Extension(admission): Extension<Admission>,
    Names([project]): Names<1>,
    Body(request): Body<JobRequest>,
) -> Result<Created<JobResource>, ApiError> {
    let mut notices = request.notices_of_creation();
    let id = JobId::new(&project, &request.job_id);
    let id = id.map_err(|error| ApiError::invalid("jobId", error.to_string()))?;
    let input = match (request.training_input, request.prediction_input) {
        (Some(_), Some(_)) => {
            let text = "is given together with trainingInput: one of the two is allowed";
            return Err(ApiError::invalid("predictionInput", text));
        }
        (None, Some(input)) => {
            check_labels(&request.labels)?;
            let job = batch_prediction::create(&api, &admission, id, request.labels, input).await?;
            return created(&api, &project, &job, notices).await;
        }
        (input, None) => {
            input.ok_or_else(|| ApiError::invalid("trainingInput", "is required, unless predictionInput is given"))?
        }
    };
    check_input(&input)?;
    check_labels(&request.labels)?;
    let input = completed(&api, &project, input, &mut notices).await?;
    let command_line = CommandLine {
        working_directory: api.working_directory.clone(),
        job_dir_base: api.jobs.job_dir_base(&project),
        ..CommandLine::default()
    };
    let refuse = |error: &dyn std::error::Error| ApiError::invalid("trainingInput", error.to_string());
    let placed = packages::resolved(&api.packages, &project, &input).await?;
    let machines = Arc::clone(&api.machines.read());
    let plan = job_plan_on(&machines, &placed, &command_line);
    let plan = plan.map_err(|error| match error {
        PlanningError::Machines { violations } => violated("trainingInput.", violations),
        error => refuse(&error),
    })?;
    let plan = JobPlan { principal: admission.principal().map(str::to_owned), ..plan };
    let study = job_study(&input).map_err(|error| refuse(&error))?;
    // Only jobs of the same project can be continued.
    let previous = previous_job(&input).map_err(|error| refuse(&error))?;
    let previous = previous.map(|job| job_id(&project, job.parts().1)).transpose()?;
    let submission = Submission {
        id: Some(id),
        name_prefix: String::new(),
        labels: request.labels,
        study,
        resume_previous_job: previous,
        seed: input.tunesmith.seed,
        training_input: serde_json::to_value(&input).map_err(|error| refuse(&error))?,
        plan,
        policy: admission.policy_of_creator(),
    };
    let random_seed = rand::rng().next_u64();
    let job = api.jobs.create(submission, random_seed).await?;
    created(&api, &project, &job, notices).await
}

/// Response to the creation of `job`.
async fn created(api: &Api, project: &str, job: &Job, notices: Vec<Notice>) -> Result<Created<JobResource>, ApiError> {
    let resource = resource(&api.jobs.report(&job.id).await?).with_notices(notices);
    if !resource.notices().is_empty() {
        // The client gets the notices in the response; they indicate no fault of the server.
        let fields: Vec<&str> = resource.notices().iter().map(|notice| notice.field.as_str()).collect();
        tracing::debug!(job.id = %job.id, fields = fields.join(", "), "a job was created with notices");
    }
    let name = format!("projects/{project}/jobs/{}", job.id.parts().1);
    Ok(Created(name, Json(resource)))
}

/// Fills in `input` from the job that it continues, with a notice per field.
async fn completed(
    api: &Api,
    project: &str,
    input: TrainingInput,
    notices: &mut Vec<Notice>,
) -> Result<TrainingInput, ApiError> {
    let absent = inherited_fields(&input);
    let previous = previous_job(&input).map_err(|error| ApiError::invalid("trainingInput", error.to_string()))?;
    let Some(previous) = previous.filter(|_| !absent.is_empty()) else { return Ok(input) };
    let id = job_id(project, previous.parts().1)?;
    let earlier = match api.jobs.job(&id).await {
        Ok(job) => TrainingInput::deserialize(&job.training_input).ok(),
        Err(JobsError::Store(StoreError::NotFound { .. })) => None,
        Err(error) => return Err(error.into()),
    };
    let Some(earlier) = earlier.filter(|earlier| earlier.hyperparameters.is_some()) else {
        return Err(JobsError::Submit(SubmitError::NoSuchPreviousJob(id)).into());
    };
    let input = continued(&input, &earlier);
    check_input(&input)?;
    let still_absent = inherited_fields(&input);
    notices.extend(absent.into_iter().filter(|field| !still_absent.contains(field)).map(|field| Notice {
        field: format!("trainingInput.hyperparameters.{field}"),
        description: format!("is as in job {}, which is continued", id.parts().1),
    }));
    Ok(input)
}

pub(super) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), ApiError> {
    refuse_violations("", tunesmith_api::ai_platform::check_labels(labels))
}

fn check_input(input: &TrainingInput) -> Result<(), ApiError> {
    refuse_violations("trainingInput.", check(input))
}

/// Fails if `violations` has an error. `prefix` is the path of the message.
fn refuse_violations(prefix: &str, violations: Vec<Violation>) -> Result<(), ApiError> {
    let violations = violations.into_iter().filter(|violation| violation.severity == Severity::Error);
    let violations: Vec<Violation> = violations.collect();
    if violations.is_empty() { Ok(()) } else { Err(violated(prefix, violations)) }
}

fn violated(prefix: &str, violations: Vec<Violation>) -> ApiError {
    let violations = violations.into_iter().map(|violation| FieldViolation {
        field: format!("{prefix}{}", violation.field),
        description: format!("{}; allowed: {}", violation.message, violation.allowed),
    });
    ApiError::violations(violations)
}

pub(crate) fn resource(report: &JobReport) -> JobResource {
    job_resource(&report.job, report.study.as_ref(), &report.trials)
        .served(etag(&report.job), report.position)
        .with_waiting(&report.waiting)
        .with_mlflow(report.tracking.as_ref().map(mlflow_export))
}

fn mlflow_export(status: &TrackingStatus) -> MlflowExport {
    MlflowExport {
        tracking_uri: status.uri.clone(),
        experiment: status.experiment.clone(),
        run_id: status.run.clone(),
        state: match &status.failing {
            Some(_) => MlflowExportState::Failing,
            None if status.is_complete => MlflowExportState::Complete,
            None => MlflowExportState::Following,
        },
        last_success_time: status.last_success,
        failing_since: status.failing.as_ref().map(|(since, _)| *since),
        error_message: status.failing.as_ref().map(|(_, error)| error.clone()).unwrap_or_default(),
    }
}

/// Changes with every change of the job.
pub(crate) fn etag(job: &Job) -> String {
    STANDARD.encode(job.revision.to_be_bytes())
}

/// A selection of jobs.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ListQuery {
    /// Restrictions such as `state:FAILED` or `createTime > 2026-11-23`, joined by `AND`, `OR`, `NOT` and parentheses; a
    /// value may end with `*`. Fields: jobId, state, errorMessage, labels.KEY, createTime, startTime, endTime.
    filter: String,
    /// Maximum number of jobs; default 20, at most 100.
    #[schemars(range(min = 0))]
    page_size: i32,
    /// The `nextPageToken` of the previous page.
    page_token: String,
}

async fn list(
    State(api): State<Arc<Api>>,
    Names([project]): Names<1>,
    Query(query): Query<ListQuery>,
) -> Result<Rendered<JobList>, ApiError> {
    names::project(&project)?;
    let filter: JobFilter = query::filter(&query.filter)?;
    let Page { limit, after } = Page::of(query.page_size, &query.page_token)?;
    let wanted = move |job: &Job| filter.accepts(job);
    let (jobs, has_more) = api.jobs.list(&project, wanted, after, limit).await?;
    let mut reports = Vec::with_capacity(jobs.len());
    for job in &jobs {
        reports.push(api.jobs.report(&job.id).await?);
    }
    let last = jobs.last().filter(|_| has_more);
    let next_page_token = last.map(|last| paging::token(last.id.as_str())).unwrap_or_default();
    let size = reports.iter().map(|report| 1 + report.trials.len()).sum();
    Rendered::of(size, move || JobList { jobs: reports.iter().map(resource).collect(), next_page_token }).await
}

async fn get(State(api): State<Arc<Api>>, Names([project, id]): Names<2>) -> Result<Rendered<JobResource>, ApiError> {
    rendered(api.jobs.report(&job_id(&project, &id)?).await?).await
}

pub(crate) async fn rendered(report: JobReport) -> Result<Rendered<JobResource>, ApiError> {
    Rendered::of(report.trials.len(), move || resource(&report)).await
}

async fn cancel(
    State(api): State<Arc<Api>>,
    Names([project, id]): Names<2>,
    Body(_): Body<Empty>,
) -> Result<Json<Empty>, ApiError> {
    api.jobs.cancel(&job_id(&project, &id)?).await?;
    Ok(Json(Empty {}))
}

/// The fields to change.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["updateMask"]))]
struct PatchQuery {
    /// The fields to change: `labels`, `trainingInput.hyperparameters.maxTrials`,
    /// `trainingInput.hyperparameters.maxParallelTrials`. A running job takes the numbers over at once: a higher one starts
    /// trials, a lower one lets the running ones end. The number of trials of a job that has ended can only be raised; the
    /// job then goes on. With `etag`, the change is rejected if the job has changed since the etag was read.
    update_mask: String,
}

async fn patch(
    State(api): State<Arc<Api>>,
    Names([project, id]): Names<2>,
    Query(query): Query<PatchQuery>,
    Body(request): Body<JobRequest>,
) -> Result<Rendered<JobResource>, ApiError> {
    let id = job_id(&project, &id)?;
    let fields: Vec<&str> = query.update_mask.split(',').map(str::trim).filter(|field| !field.is_empty()).collect();
    let is_known = |field: &str| matches!(field, "labels" | "etag" | MAX_TRIALS | MAX_PARALLEL_TRIALS);
    if let Some(other) = fields.iter().find(|field| !is_known(field)) {
        let text = format!("{other:?} cannot be changed; labels, {MAX_TRIALS}, {MAX_PARALLEL_TRIALS} and etag can");
        return Err(ApiError::invalid("updateMask", text));
    }
    let (labels, trials) = (fields.contains(&"labels"), fields.contains(&MAX_TRIALS));
    let parallel = fields.contains(&MAX_PARALLEL_TRIALS);
    if !labels && !trials && !parallel {
        let text =
            format!("must contain labels, {MAX_TRIALS} or {MAX_PARALLEL_TRIALS}, the only fields that can be changed");
        return Err(ApiError::invalid("updateMask", text));
    }
    check_labels(&request.labels)?;
    let mut revision = if fields.contains(&"etag") { Some(revision_of(&request.etag)?) } else { None };
    if trials || parallel {
        // The extension checks the etag and changes it.
        let input = request.training_input.as_ref();
        job_reopen::extend(&api.jobs, &id, input, (trials, parallel), revision.take()).await?;
    }
    if labels {
        api.jobs.change(&id, JobChange::SetLabels { labels: request.labels, revision }).await?;
    }
    rendered(api.jobs.report(&id).await?).await
}

fn revision_of(etag: &str) -> Result<u64, ApiError> {
    let bytes = proto_json::bytes(etag).ok_or_else(|| ApiError::invalid("etag", "is not base64"))?;
    let bytes = <[u8; 8]>::try_from(bytes)
        .map_err(|_| ApiError::new(Code::Aborted, "the etag was not issued for this job: read the job again"))?;
    Ok(u64::from_be_bytes(bytes))
}
