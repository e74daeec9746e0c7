//! Rerunning, extending and deleting jobs. A Tunesmith extension: AI Platform's jobs end once and are never deleted.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Method;

use crate::openapi::Operation;
use crate::request::body::Body;
use crate::request::names::{Names, job_id};
use crate::response::error::ApiError;
use crate::response::rendered::Rendered;
use crate::routes::ml::jobs::{JOB, rendered};
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::use_cases;
use tunesmith_api::ai_platform::TrainingInput;
use tunesmith_api::ai_platform::job::JobResource;
use tunesmith_api::ai_platform::plan::with_trial_counts;
use tunesmith_api::ai_platform::rpc::Empty;
use tunesmith_domain::JobId;
use tunesmith_jobs::{Extension, Jobs};

pub(crate) const MAX_TRIALS: &str = "trainingInput.hyperparameters.maxTrials";

pub(crate) const MAX_PARALLEL_TRIALS: &str = "trainingInput.hyperparameters.maxParallelTrials";

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    routes
        .add(
            Operation::post("/v1/projects/{project}/jobs/{job}:retry", use_cases::RETRY_JOB)
                .or_not_found()
                .or_conflict(),
            retry,
        )
        .add(Operation::new(Method::DELETE, JOB, use_cases::DELETE_JOB).or_not_found(), delete)
}

async fn retry(
    State(api): State<Arc<Api>>,
    Names([project, id]): Names<2>,
    Body(_): Body<Empty>,
) -> Result<Rendered<JobResource>, ApiError> {
    let job = api.jobs.retry(&job_id(&project, &id)?).await?;
    rendered(api.jobs.report(&job.id).await?).await
}

async fn delete(State(api): State<Arc<Api>>, Names([project, id]): Names<2>) -> Result<Json<Empty>, ApiError> {
    api.jobs.delete(&job_id(&project, &id)?).await?;
    Ok(Json(Empty {}))
}

/// Changes the trial count and parallelism of the job `id` to the fields of `input` listed in `wanted`.
pub(crate) async fn extend(
    jobs: &Jobs,
    id: &JobId,
    input: Option<&TrainingInput>,
    wanted: (bool, bool),
    revision: Option<u64>,
) -> Result<(), ApiError> {
    let spec = input.and_then(|input| input.hyperparameters.as_ref());
    let count = |is_wanted: bool, field: &str, given: Option<i32>| {
        if !is_wanted {
            return Ok(None);
        }
        let given = given.and_then(|count| u64::try_from(count).ok()).filter(|count| *count > 0);
        given.map(Some).ok_or_else(|| ApiError::invalid(field, "is required, and must be at least 1"))
    };
    let max_trials = count(wanted.0, MAX_TRIALS, spec.and_then(|spec| spec.max_trials))?;
    let max_parallel_trials = count(wanted.1, MAX_PARALLEL_TRIALS, spec.and_then(|spec| spec.max_parallel_trials))?;
    let job = jobs.job(id).await?;
    let training_input = with_trial_counts(&job.training_input, max_trials, max_parallel_trials);
    jobs.extend(id, Extension { max_trials, max_parallel_trials, training_input, revision }).await?;
    Ok(())
}
