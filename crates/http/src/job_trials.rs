//! `POST jobs/{job}/trials` and `POST jobs/{job}/trials/{trial}:stop`: the user of a job adds and stops trials. AI Platform has no
//! such methods.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;

use super::body::Body;
use super::examples;
use super::names::{Names, job_id, trial_ref};
use super::openapi::Operation;
use super::rendered::Rendered;
use super::request_key::RequestKey;
use super::routes::{Dispatch, Routes};
use super::status::ApiError;
use super::trial_messages::{message, message_with_notices};
use tunesmith_access::Permission;
use tunesmith_api::ai_platform::optimizer::{TrialMessage, TrialRequest, point};
use tunesmith_api::ai_platform::rpc::Empty;
use tunesmith_service::jobs::Jobs;
use tunesmith_service::studies::Studies;

/// The state of the handlers.
#[derive(Clone)]
pub(super) struct JobTrials {
    pub(super) jobs: Arc<Jobs>,
    pub(super) studies: Arc<Studies>,
}

/// The routes.
pub(super) fn routes() -> Routes<JobTrials> {
    let post = |path, id, summary| {
        Operation::post(path, id, summary).permission(Permission::JobsUpdate).or_not_found().or_conflict()
    };
    Routes::new()
        .add(
            post(
                "/v1/projects/{project}/jobs/{job}/trials",
                "tunesmith.projects.jobs.trials.create",
                "Adds a user-supplied trial to a job that has not ended. It runs next and counts as one of the job's trials.",
            )
            .example(examples::TRIAL_OF_JOB),
            create,
        )
        .add(
            post(
                "/v1/projects/{project}/jobs/{job}/trials/{trial}:stop",
                "tunesmith.projects.jobs.trials.stop",
                "Stops a trial of a job: its program ends, and its last measurement becomes its result. The job goes on.",
            ),
            stop,
        )
}

/// The router.
pub(super) fn router(state: JobTrials, dispatch: &Arc<Dispatch>) -> Router {
    routes().with_state(state, dispatch)
}

async fn create(
    State(api): State<JobTrials>,
    Names([project, job]): Names<2>,
    RequestKey(request_key): RequestKey,
    Body(request): Body<TrialRequest>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    let id = job_id(&project, &job)?;
    let is_given = [
        ("finalMeasurement", request.final_measurement.is_some()),
        ("trialInfeasible", request.trial_infeasible),
        ("infeasibleReason", !request.infeasible_reason.is_empty()),
    ];
    if let Some((field, _)) = is_given.into_iter().find(|(_, is_given)| *is_given) {
        return Err(ApiError::invalid(field, "is not allowed: the program of the job gives the result of the trial"));
    }
    let notices = request.notices();
    let study = api.jobs.study_of(&id).await?;
    let parameters = point(study.problem.search_space(), &request.parameters)?;
    let added = api.jobs.add_trial(&id, parameters, request_key).await?;
    message_with_notices(&api.studies, added, notices).await
}

async fn stop(
    State(api): State<JobTrials>,
    Names([project, job, trial]): Names<3>,
    Body(_): Body<Empty>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    let id = job_id(&project, &job)?;
    let study = api.jobs.study_of(&id).await?;
    // The name of a trial of a job has no attempt: its user does not run it.
    let trial = trial_ref(study.id.clone(), &trial)?.trial;
    message(&api.studies, api.jobs.stop_trial(&id, trial).await?).await
}
