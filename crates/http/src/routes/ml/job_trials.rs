//! `POST jobs/{job}/trials`, and `:stop` and `:setNote` of a trial: users add, stop and comment trials of a job. A Tunesmith
//! extension.

use std::sync::Arc;

use axum::extract::{Extension, State};

use crate::openapi::Operation;
use crate::openapi::examples;
use crate::request::body::Body;
use crate::request::names::{Names, job_id, trial_ref};
use crate::response::error::ApiError;
use crate::response::rendered::Rendered;
use crate::routes::ml::trial_messages::{message, message_with_notices};
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::{Admission, use_cases};
use tunesmith_api::ai_platform::optimizer::{SetNoteRequest, TrialMessage, TrialRequest, point};
use tunesmith_api::ai_platform::rpc::Empty;

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    let post = |path, use_case| Operation::post(path, use_case).or_not_found().or_conflict();
    routes
        .add(
            post("/v1/projects/{project}/jobs/{job}/trials", use_cases::ADD_JOB_TRIAL).example(examples::TRIAL_OF_JOB),
            create,
        )
        .add(post("/v1/projects/{project}/jobs/{job}/trials/{trial}:stop", use_cases::STOP_JOB_TRIAL), stop)
        .add(
            post("/v1/projects/{project}/jobs/{job}/trials/{trial}:setNote", use_cases::SET_JOB_TRIAL_NOTE)
                .example(examples::NOTE),
            set_note,
        )
}

async fn create(
    State(api): State<Arc<Api>>,
    Names([project, job]): Names<2>,
    Extension(admission): Extension<Admission>,
    Body(request): Body<TrialRequest>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    let id = job_id(&project, &job)?;
    let is_given = [
        ("finalMeasurement", request.final_measurement.is_some()),
        ("trialInfeasible", request.trial_infeasible),
        ("infeasibleReason", !request.infeasible_reason.is_empty()),
        ("measurements", !request.measurements.is_empty()),
    ];
    if let Some((field, _)) = is_given.into_iter().find(|(_, is_given)| *is_given) {
        return Err(ApiError::invalid(field, "is not allowed: the program of the job gives the result of the trial"));
    }
    let notices = request.notices();
    let study = api.jobs.study_of(&id).await?;
    let parameters = point(study.problem.search_space(), &request.parameters)?;
    let added = api.jobs.add_trial(&id, parameters, admission.idempotency_key()).await?;
    message_with_notices(&api.studies, added, notices).await
}

async fn stop(
    State(api): State<Arc<Api>>,
    Names([project, job, trial]): Names<3>,
    Body(_): Body<Empty>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    let id = job_id(&project, &job)?;
    let study = api.jobs.study_of(&id).await?;
    // Trials of jobs are named without an attempt: users do not run them.
    let trial = trial_ref(study.id.clone(), &trial)?.trial;
    message(&api.studies, api.jobs.stop_trial(&id, trial).await?).await
}

async fn set_note(
    State(api): State<Arc<Api>>,
    Names([project, job, trial]): Names<3>,
    Extension(admission): Extension<Admission>,
    Body(request): Body<SetNoteRequest>,
) -> Result<Rendered<TrialMessage>, ApiError> {
    let note = request.into_note(admission.principal().map(str::to_owned))?;
    let study = api.jobs.study_of(&job_id(&project, &job)?).await?;
    let trial = trial_ref(study.id.clone(), &trial)?.trial;
    message(&api.studies, api.studies.set_note_of_any(&study.id, trial, note).await?).await
}
