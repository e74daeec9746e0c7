//! `projects.jobs`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::routing::get;
use axum::{Extension, Json, Router};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rand::Rng;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Body;
use super::job_filter::JobFilter;
use super::names::no_method;
use super::status::{ApiError, Code};
use crate::access::Caller;
use crate::api::ai_platform::job::{JobRequest, JobResource, job_resource};
use crate::api::ai_platform::optimizer::FieldViolation;
use crate::api::ai_platform::plan::{CommandLine, job_plan, job_study};
use crate::api::ai_platform::{Severity, TrainingInput, check};
use crate::domain::{Job, JobChange, JobId};
use crate::service::jobs::{JobReport, Jobs};
use crate::service::packages::Packages;
use crate::service::{StudySpec, Submission};

/// How many jobs a list has, unless the client says otherwise, and at most.
const DEFAULT_PAGE_SIZE: i32 = 20;
const MAX_PAGE_SIZE: i32 = 100;

/// What the handlers need.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) jobs: Arc<Jobs>,
    packages: Packages,
    /// From where relative paths of jobs are taken.
    working_directory: PathBuf,
}

/// The routes, answered by `jobs`, which run what is in `packages`; relative paths in jobs are taken from `working_directory`.
pub fn router(jobs: Arc<Jobs>, packages: Packages, working_directory: PathBuf) -> Router {
    let project = "/v1/projects/{project}";
    Router::new()
        .route(&format!("{project}/jobs"), get(list).post(create))
        // The last segment is `census` or `census:cancel`.
        .route(&format!("{project}/jobs/{{job}}"), get(read).patch(patch).post(job_method))
        .with_state(Api { jobs, packages, working_directory })
}

pub(super) fn job_id(project: &str, id: &str) -> Result<JobId, ApiError> {
    JobId::new(project, id).map_err(|error| ApiError::invalid("name", error.to_string()))
}

async fn create(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Path(project): Path<String>,
    Body(request): Body<JobRequest>,
) -> Result<Json<JobResource>, ApiError> {
    let id = JobId::new(&project, &request.job_id);
    let id = id.map_err(|error| ApiError::invalid("jobId", error.to_string()))?;
    if request.prediction_input.is_some() {
        return Err(ApiError::invalid("predictionInput", "this service trains; it does no batch prediction"));
    }
    let input = request.training_input.ok_or_else(|| ApiError::invalid("trainingInput", "is required"))?;
    check_input(&input)?;
    let command_line = CommandLine { working_directory: api.working_directory.clone(), ..CommandLine::default() };
    let refuse = |error: &dyn std::error::Error| ApiError::invalid("trainingInput", error.to_string());
    let placed = super::packages::resolved(&api.packages, &project, &input)?;
    let plan = job_plan(&placed, &command_line).map_err(|error| refuse(&error))?;
    let study = job_study(&input).map_err(|error| refuse(&error))?;
    let submission = Submission {
        id: Some(id),
        name_prefix: String::new(),
        labels: request.labels,
        study: study.map(|study| in_project(study, &project)).transpose()?,
        seed: input.tunesmith.seed,
        training_input: serde_json::to_value(&input).map_err(|error| refuse(&error))?,
        plan,
        policy: super::job_iam::policy_of_creator(&caller),
    };
    let random_seed = rand::rng().next_u64();
    let job = api.jobs.create(submission, random_seed).await?;
    Ok(Json(resource(&api.jobs.report(&job.id).await?)))
}

/// The job to be continued is one of the same project.
fn in_project(study: StudySpec, project: &str) -> Result<StudySpec, ApiError> {
    let previous = study.resume_previous_job.as_ref().map(|job| job_id(project, job.parts().1)).transpose()?;
    Ok(StudySpec { resume_previous_job: previous, ..study })
}

fn check_input(input: &TrainingInput) -> Result<(), ApiError> {
    let violations = check(input).into_iter().filter(|violation| violation.severity == Severity::Error);
    let violations: Vec<FieldViolation> = violations
        .map(|violation| FieldViolation {
            field: format!("trainingInput.{}", violation.field),
            description: format!("{}; allowed: {}", violation.message, violation.allowed),
        })
        .collect();
    if violations.is_empty() { Ok(()) } else { Err(ApiError::violations(violations)) }
}

fn resource(report: &JobReport) -> JobResource {
    job_resource(&report.job, report.study.as_ref(), &report.trials).served(etag(&report.job), report.position)
}

/// Changes with every change of the job.
pub(super) fn etag(job: &Job) -> String {
    STANDARD.encode(job.revision.to_be_bytes())
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListQuery {
    filter: String,
    page_size: i32,
    page_token: String,
}

async fn list(
    State(api): State<Api>,
    Path(project): Path<String>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Value>, ApiError> {
    let filter: JobFilter = query.filter.parse().map_err(|text: String| ApiError::invalid("filter", text))?;
    let limit = match query.page_size {
        0 => DEFAULT_PAGE_SIZE,
        size if size < 0 => return Err(ApiError::invalid("pageSize", format!("{size} is negative"))),
        size => size.min(MAX_PAGE_SIZE),
    };
    let after = match query.page_token.as_str() {
        "" => None,
        token => Some(page_start(token).ok_or_else(|| ApiError::invalid("pageToken", "is none of this service"))?),
    };
    let wanted = move |job: &Job| filter.accepts(job);
    let (jobs, has_more) = api.jobs.list(&project, wanted, after, limit.unsigned_abs() as usize).await?;
    let mut resources = Vec::with_capacity(jobs.len());
    for job in &jobs {
        resources.push(resource(&api.jobs.report(&job.id).await?));
    }
    let mut answer = json!({});
    if !resources.is_empty() {
        answer["jobs"] = json!(resources);
    }
    if let Some(last) = jobs.last().filter(|_| has_more) {
        answer["nextPageToken"] = json!(URL_SAFE_NO_PAD.encode(last.id.as_str()));
    }
    Ok(Json(answer))
}

fn page_start(token: &str) -> Option<JobId> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?.parse().ok()
}

/// `GET jobs/census` and `GET jobs/census:getIamPolicy`.
async fn read(
    State(api): State<Api>,
    Path((project, segment)): Path<(String, String)>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<Json<Value>, ApiError> {
    match segment.split_once(':') {
        None => Ok(Json(json!(resource(&api.jobs.report(&job_id(&project, &segment)?).await?)))),
        Some((id, "getIamPolicy")) => super::job_iam::get(&api, &job_id(&project, id)?, &query).await.map(Json),
        Some((_, method)) => Err(no_method(&format!("GET {method:?} of a job"))),
    }
}

async fn job_method(
    State(api): State<Api>,
    Path((project, segment)): Path<(String, String)>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<Value>,
) -> Result<Json<Value>, ApiError> {
    let Some((id, method)) = segment.split_once(':') else {
        return Err(no_method(&format!("POST {segment:?} of a job")));
    };
    let id = job_id(&project, id)?;
    match method {
        "cancel" => {
            api.jobs.cancel(&id).await?;
            Ok(Json(json!({})))
        }
        "setIamPolicy" => super::job_iam::set(&api, &id, body).await.map(Json),
        "testIamPermissions" => super::job_iam::test(&api, &id, &caller, body).await.map(Json),
        _ => Err(no_method(&format!("{method:?} of a job"))),
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PatchQuery {
    update_mask: String,
}

async fn patch(
    State(api): State<Api>,
    Path((project, id)): Path<(String, String)>,
    Query(query): Query<PatchQuery>,
    Body(request): Body<JobRequest>,
) -> Result<Json<JobResource>, ApiError> {
    let id = job_id(&project, &id)?;
    let fields: Vec<&str> = query.update_mask.split(',').map(str::trim).filter(|field| !field.is_empty()).collect();
    if let Some(other) = fields.iter().find(|field| !matches!(**field, "labels" | "etag")) {
        return Err(ApiError::invalid("updateMask", format!("{other:?} cannot be changed; labels and etag can")));
    }
    if !fields.contains(&"labels") {
        return Err(ApiError::invalid("updateMask", "must have labels, the only thing that can be changed"));
    }
    let revision = if fields.contains(&"etag") { Some(revision_of(&request.etag)?) } else { None };
    let job = api.jobs.change(&id, JobChange::SetLabels { labels: request.labels, revision }).await?;
    Ok(Json(resource(&api.jobs.report(&job.id).await?)))
}

fn revision_of(etag: &str) -> Result<u64, ApiError> {
    let bytes = STANDARD.decode(etag).ok().and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| ApiError::new(Code::Aborted, "the etag is none of this job: read it again"))?;
    Ok(u64::from_be_bytes(bytes))
}
