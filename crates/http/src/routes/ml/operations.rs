//! `projects.locations.operations`: suggestions and early stopping checks.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;

use super::trial_messages::messages;
use crate::openapi;
use crate::request::body::Body;
use crate::request::names::Names;
use crate::response::error::{ApiError, Code};
use crate::response::rendered::Rendered;
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::use_cases;
use tunesmith_api::ai_platform::optimizer::{Operation, OperationName, Progress};
use tunesmith_api::ai_platform::rpc::Empty;
use tunesmith_domain::{StudyId, StudyState, SuggestionOperation, SuggestionRequest, Trial};
use tunesmith_store::StoreError;
use tunesmith_studies::{StudiesError, Suggested, SuggestionProgress, TrialRef};

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    routes
        .add(
            openapi::Operation::get(
                "/v1/projects/{project}/locations/{location}/operations/{operation}",
                use_cases::GET_OPERATION,
            )
            .or_not_found(),
            get,
        )
        .add(
            openapi::Operation::post(
                "/v1/projects/{project}/locations/{location}/operations/{operation}:cancel",
                use_cases::CANCEL_OPERATION,
            )
            .or_not_found(),
            cancel,
        )
}

/// Starts a suggestion. Returns a completed operation if it is ready soon.
pub(crate) async fn suggest(
    api: &Api,
    study: StudyId,
    request: SuggestionRequest,
    held: impl Send + 'static,
) -> Result<Operation, ApiError> {
    // Operation IDs have a resolution of milliseconds.
    let start_time = Timestamp::from_millisecond(api.clock.now().as_millisecond()).unwrap_or_default();
    let operation = SuggestionOperation { study, request, start_time };
    let progress = api.studies.start_suggestion(&operation, held).await?;
    if let SuggestionProgress::Done { suggested, .. } = &progress
        && suggested.trials.is_empty()
        && suggested.study.state == StudyState::Completed
    {
        // Published clients end their search at this code, and expect trials in any other response.
        let study = suggested.study.id.parts().2;
        let text = format!("study {study} is COMPLETED and has no more trials: {}", suggested.study.state_reason);
        return Err(ApiError::new(Code::ResourceExhausted, text).because("STUDY_COMPLETED"));
    }
    let (name, progress) = suggestion(api, &operation, progress).await?;
    Ok(name.operation(progress))
}

async fn suggestion(
    api: &Api,
    operation: &SuggestionOperation,
    progress: SuggestionProgress,
) -> Result<(OperationName, Progress), ApiError> {
    let pending = || OperationName::suggest(operation);
    Ok(match progress {
        SuggestionProgress::Running => (pending(), Progress::Running),
        SuggestionProgress::Failed(error) => (pending(), Progress::Failed(ApiError::from(&*error).status())),
        SuggestionProgress::Done { suggested, end_time } => {
            let Suggested { study, trials, .. } = &*suggested;
            let numbers = trials.iter().map(|trial| trial.id);
            let name = OperationName::suggested(operation, study.state, numbers, end_time);
            let progress = name.progress(messages(&api.studies, study, trials).await?);
            (name, progress)
        }
    })
}

/// Checks whether to stop a trial. The operation is always complete.
pub(crate) async fn check_early_stopping(api: &Api, key: &TrialRef) -> Result<Operation, ApiError> {
    let should_stop = api.studies.should_stop(key).await?;
    let name = OperationName::CheckEarlyStopping {
        study: key.study.as_str().to_owned(),
        trial: key.trial.0,
        attempt: key.attempt,
        should_stop,
        started: api.clock.now().as_millisecond(),
    };
    Ok(name.operation(name.progress(Vec::new())))
}

/// Parses an operation ID and checks that its study is at the given location.
fn named(project: &str, location: &str, id: &str) -> Result<(OperationName, StudyId), ApiError> {
    let (name, study) = OperationName::parse(id).ok_or_else(|| not_found(id))?;
    let (of_project, at_location, _) = study.parts();
    if (of_project, at_location) != (project, location) {
        return Err(not_found(id));
    }
    Ok((name, study))
}

fn not_found(id: &str) -> ApiError {
    let text = format!("operation {id} does not exist, or its result is no longer kept: request suggestions again");
    ApiError::new(Code::NotFound, text)
}

async fn get(
    State(api): State<Arc<Api>>,
    Names([project, location, operation]): Names<3>,
) -> Result<Rendered<Operation>, ApiError> {
    let (name, study) = named(&project, &location, &operation)?;
    let progress = match name.pending(study.clone()) {
        Some(pending) => {
            let known = api.studies.suggestion_progress(&pending).await?;
            let known = known.ok_or_else(|| not_found(&operation))?;
            suggestion(&api, &pending, known).await?.1
        }
        None if name.has_trials() => {
            let study = api.studies.study(&study).await?;
            let trials = existing(&api, &study.id, &name).await?;
            name.progress(messages(&api.studies, &study, &trials).await?)
        }
        None => name.progress(Vec::new()),
    };
    Rendered::of(name.count(), move || name.operation(progress)).await
}

/// Current state of the trials returned by the operation `name`, without deleted ones.
async fn existing(api: &Api, study: &StudyId, name: &OperationName) -> Result<Vec<Trial>, ApiError> {
    let mut trials = Vec::new();
    for id in name.trials() {
        match api.studies.trial(study, id).await {
            Ok(trial) => trials.push(trial),
            Err(StudiesError::Store(StoreError::NotFound { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(trials)
}

async fn cancel(
    State(api): State<Arc<Api>>,
    Names([project, location, operation]): Names<3>,
    Body(_): Body<Empty>,
) -> Result<Json<Empty>, ApiError> {
    let (name, study) = named(&project, &location, &operation)?;
    if let Some(operation) = name.pending(study) {
        api.studies.cancel_suggestion(&operation);
    }
    Ok(Json(Empty {}))
}
