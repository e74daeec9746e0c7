//! Runs jobs again, extends and deletes them. AI Platform has no such methods: its jobs end once and are kept.

use axum::Json;
use axum::extract::State;

use super::body::Body;
use super::jobs::{JOB, rendered};
use super::names::{Names, job_id};
use super::openapi::Operation;
use super::rendered::Rendered;
use super::routes::Routes;
use super::state::JobsState;
use super::status::ApiError;
use tunesmith_access::Permission;
use tunesmith_api::ai_platform::TrainingInput;
use tunesmith_api::ai_platform::job::JobResource;
use tunesmith_api::ai_platform::plan::with_trial_counts;
use tunesmith_api::ai_platform::rpc::Empty;
use tunesmith_domain::JobId;
use tunesmith_service::jobs::{Extension, Jobs};

/// The field of a job with its number of trials.
pub(super) const MAX_TRIALS: &str = "trainingInput.hyperparameters.maxTrials";

/// The field of a job with its number of trials at once.
pub(super) const MAX_PARALLEL_TRIALS: &str = "trainingInput.hyperparameters.maxParallelTrials";

/// Adds the routes to `routes`.
pub(super) fn routes(routes: Routes<JobsState>) -> Routes<JobsState> {
    routes
        .add(
            Operation::post(
                "/v1/projects/{project}/jobs/{job}:retry",
                "tunesmith.projects.jobs.retry",
                "Runs the failed and lost trials of a job again, or the program of a job without hyperparameters.",
            )
            .permission(Permission::JobsUpdate)
            .or_not_found()
            .or_conflict(),
            retry,
        )
        .add(
            Operation::delete(
                JOB,
                "tunesmith.projects.jobs.delete",
                "Deletes a job in a final state with its trials and logs. Its job-dir is kept.",
            )
            .permission(Permission::JobsUpdate)
            .or_not_found(),
            delete,
        )
}

async fn retry(
    State(api): State<JobsState>,
    Names([project, id]): Names<2>,
    Body(_): Body<Empty>,
) -> Result<Rendered<JobResource>, ApiError> {
    let job = api.jobs.retry(&job_id(&project, &id)?).await?;
    rendered(api.jobs.report(&job.id).await?).await
}

async fn delete(State(api): State<JobsState>, Names([project, id]): Names<2>) -> Result<Json<Empty>, ApiError> {
    api.jobs.delete(&job_id(&project, &id)?).await?;
    Ok(Json(Empty {}))
}

/// Changes the numbers of trials of the job `id`, in all and at once, to those of `input` that are `wanted`.
pub(super) async fn extend(
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
