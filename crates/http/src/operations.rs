//! `projects.locations.operations`: suggestions and checks for early stopping.
//!
//! The ID of an operation is its content in base64url: the request, and the result if it was known at the time of the
//! response. So every operation can be read after a restart of the server. Anyone can make up an ID: reading an operation
//! shows what its caller may read anyway, and changes nothing.

use std::num::NonZeroUsize;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::body::Body;
use super::names::{Names, study_id};
use super::openapi;
use super::rendered::Rendered;
use super::routes::Routes;
use super::state::StudiesState;
use super::status::{ApiError, Code};
use super::trial_messages::{MAX_SUGGESTIONS, messages};
use tunesmith_access::Permission;
use tunesmith_api::ai_platform::optimizer::operation::{
    CheckTrialEarlyStoppingStateMetadata, CheckTrialEarlyStoppingStateResponse, OperationMetadata, OperationResponse,
    SuggestTrialsMetadata, SuggestTrialsResponse,
};
use tunesmith_api::ai_platform::optimizer::study::{StudyStateName, study_name};
use tunesmith_api::ai_platform::optimizer::{Operation, Progress};
use tunesmith_api::ai_platform::rpc::Empty;
use tunesmith_domain::{Study, StudyId, StudyState, Trial, TrialId};
use tunesmith_service::studies::{
    StudiesError, Suggested, SuggestionOperation, SuggestionProgress, SuggestionRequest, TrialRef,
};
use tunesmith_store::StoreError;

/// Adds the routes of operations to `routes`.
pub(super) fn routes(routes: Routes<StudiesState>) -> Routes<StudiesState> {
    routes
        .add(
            openapi::Operation::get(
                "/v1/projects/{project}/locations/{location}/operations/{operation}",
                "ml.projects.locations.operations.get",
                "Gets an operation, with its response once it is done.",
            )
            .permission(Permission::OperationsGet)
            .or_not_found(),
            get,
        )
        .add(
            openapi::Operation::post(
                "/v1/projects/{project}/locations/{location}/operations/{operation}:cancel",
                "ml.projects.locations.operations.cancel",
                "Cancels an operation. A suggestion that is being computed ends; its trials that exist already belong to the client.",
            )
            .permission(Permission::OperationsCancel)
            .or_not_found(),
            cancel,
        )
}

/// The content of an operation's ID. Its serialised form is part of published names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Task {
    /// Trials were requested.
    Suggest {
        study: String,
        client: String,
        count: usize,
        lease_millis: Option<u64>,
        #[serde(rename = "begun")]
        started: i64,
    },
    /// Trials were returned: ranges of numbers, first and last inclusive.
    Suggested {
        study: String,
        client: String,
        count: usize,
        trials: Vec<(u64, u64)>,
        state: StudyStateName,
        #[serde(rename = "begun")]
        started: i64,
        ended: i64,
    },
    /// A check for early stopping was answered.
    CheckEarlyStopping {
        study: String,
        trial: u64,
        /// The attempt in the trial's name, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u64>,
        should_stop: bool,
        #[serde(rename = "begun")]
        started: i64,
    },
}

impl Task {
    fn id(&self) -> String {
        // Serialising numbers and text does not fail.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn of(id: &str) -> Option<Self> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(id).ok()?).ok()
    }

    fn suggest(operation: &SuggestionOperation) -> Self {
        let SuggestionOperation { study, request, start_time } = operation;
        Self::Suggest {
            study: study.as_str().to_owned(),
            client: request.client_id.clone(),
            count: request.count.get(),
            lease_millis: request.lease.map(|lease| u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
            started: start_time.as_millisecond(),
        }
    }

    fn suggested(operation: &SuggestionOperation, suggested: &Suggested, end_time: Timestamp) -> Self {
        let mut trials: Vec<(u64, u64)> = Vec::new();
        for trial in &suggested.trials {
            match trials.last_mut() {
                Some((_, last)) if *last + 1 == trial.id.0 => *last += 1,
                _ => trials.push((trial.id.0, trial.id.0)),
            }
        }
        Self::Suggested {
            study: operation.study.as_str().to_owned(),
            client: operation.request.client_id.clone(),
            count: operation.request.count.get(),
            trials,
            state: suggested.study.state.into(),
            started: operation.start_time.as_millisecond(),
            ended: end_time.as_millisecond(),
        }
    }

    /// The suggestion of `study` that may still be computed; `None` for other operations.
    fn pending(&self, study: StudyId) -> Option<SuggestionOperation> {
        let Self::Suggest { client, count, lease_millis, started, .. } = self else { return None };
        let count = NonZeroUsize::new(*count).unwrap_or(NonZeroUsize::MIN);
        let lease = lease_millis.map(Duration::from_millis);
        let request = SuggestionRequest { client_id: client.clone(), count, lease };
        Some(SuggestionOperation { study, request, start_time: time(*started) })
    }

    fn study(&self) -> &str {
        match self {
            Self::Suggest { study, .. } | Self::Suggested { study, .. } | Self::CheckEarlyStopping { study, .. } => {
                study
            }
        }
    }
}

/// Starts a suggestion; the operation is done if the suggestion is ready soon.
pub(super) async fn suggest(
    api: &StudiesState,
    study: StudyId,
    request: SuggestionRequest,
    held: impl Send + 'static,
) -> Result<Operation, ApiError> {
    // The ID of an operation has a resolution of milliseconds.
    let start_time = time(api.clock.now().as_millisecond());
    let operation = SuggestionOperation { study, request, start_time };
    let progress = api.studies.start_suggestion(&operation, held).await?;
    if let SuggestionProgress::Done { suggested, .. } = &progress
        && suggested.trials.is_empty()
        && suggested.study.state == StudyState::Completed
    {
        // Published clients end their search at this code, and take every other response for one with trials.
        let study = suggested.study.id.parts().2;
        let text = format!("study {study} is COMPLETED and has no more trials: {}", suggested.study.state_reason);
        return Err(ApiError::new(Code::ResourceExhausted, text).because("STUDY_COMPLETED"));
    }
    suggestion(api, &operation, progress).await
}

/// The message of a suggestion operation.
async fn suggestion(
    api: &StudiesState,
    operation: &SuggestionOperation,
    progress: SuggestionProgress,
) -> Result<Operation, ApiError> {
    Ok(match progress {
        SuggestionProgress::Running => message(&Task::suggest(operation), Progress::Running),
        SuggestionProgress::Failed(error) => {
            message(&Task::suggest(operation), Progress::Failed(ApiError::from(&*error).status()))
        }
        SuggestionProgress::Done { suggested, end_time } => {
            let task = Task::suggested(operation, &suggested, end_time);
            let progress = done(api, &suggested.study, &suggested.trials, &task).await?;
            message(&task, progress)
        }
    })
}

/// The response of a suggestion that returned `trials`.
async fn done(api: &StudiesState, study: &Study, trials: &[Trial], task: &Task) -> Result<Progress, ApiError> {
    let Task::Suggested { state, started, ended, .. } = task else { return Ok(Progress::Running) };
    Ok(Progress::Done(OperationResponse::Suggest(SuggestTrialsResponse {
        trials: match trials {
            // Published clients look at the state only where trials are absent.
            [] if *state == StudyStateName::Inactive => None,
            trials => Some(messages(&api.studies, study, trials).await?),
        },
        study_state: *state,
        start_time: time(*started),
        end_time: time(*ended),
    })))
}

/// Checks whether a trial should stop; the operation is done.
pub(super) async fn check_early_stopping(api: &StudiesState, key: &TrialRef) -> Result<Operation, ApiError> {
    let should_stop = api.studies.should_stop(key).await?;
    let started = api.clock.now().as_millisecond();
    let task = Task::CheckEarlyStopping {
        study: key.study.as_str().to_owned(),
        trial: key.trial.0,
        attempt: key.attempt,
        should_stop,
        started,
    };
    Ok(message(&task, checked(should_stop, started)))
}

fn checked(should_stop: bool, started: i64) -> Progress {
    let time = time(started);
    let response = CheckTrialEarlyStoppingStateResponse { should_stop, start_time: time, end_time: time };
    Progress::Done(OperationResponse::CheckEarlyStopping(response))
}

fn time(millisecond: i64) -> Timestamp {
    Timestamp::from_millisecond(millisecond).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn message(task: &Task, progress: Progress) -> Operation {
    let study: Result<StudyId, _> = task.study().parse();
    let (project, location) = study.as_ref().map_or(("-", "-"), |study| (study.parts().0, study.parts().1));
    let name = format!("projects/{project}/locations/{location}/operations/{}", task.id());
    let study_name = study.as_ref().map_or_else(|_| String::new(), study_name);
    let metadata = match task {
        Task::Suggest { client, count, started, .. } | Task::Suggested { client, count, started, .. } => {
            OperationMetadata::Suggest(SuggestTrialsMetadata {
                study: study_name,
                client_id: client.clone(),
                suggestion_count: *count,
                create_time: time(*started),
            })
        }
        Task::CheckEarlyStopping { trial, attempt, started, .. } => {
            let attempt = attempt.map(|attempt| format!("~{attempt}")).unwrap_or_default();
            OperationMetadata::CheckEarlyStopping(CheckTrialEarlyStoppingStateMetadata {
                create_time: time(*started),
                trial: format!("{study_name}/trials/{trial}{attempt}"),
                study: study_name,
            })
        }
    };
    Operation::new(name, metadata, progress)
}

/// The task of an operation's ID, if its study is at the given location.
fn task(project: &str, location: &str, id: &str) -> Result<(Task, StudyId), ApiError> {
    let task = Task::of(id).ok_or_else(|| not_found(id))?;
    let study: StudyId = task.study().parse().map_err(|_| not_found(id))?;
    let (of_project, at_location, name) = study.parts();
    if (of_project, at_location) != (project, location) {
        return Err(not_found(id));
    }
    study_id(of_project, at_location, name)?;
    Ok((task, study))
}

fn not_found(id: &str) -> ApiError {
    let text = format!("operation {id} does not exist, or its result is no longer kept: request suggestions again");
    ApiError::new(Code::NotFound, text)
}

async fn get(
    State(api): State<StudiesState>,
    Names([project, location, operation]): Names<3>,
) -> Result<Rendered<Operation>, ApiError> {
    let (task, study) = task(&project, &location, &operation)?;
    let progress = match &task {
        Task::CheckEarlyStopping { should_stop, started, .. } => checked(*should_stop, *started),
        Task::Suggested { trials, .. } => {
            let study = api.studies.study(&study).await?;
            let trials = existing(&api, &study.id, trials).await?;
            done(&api, &study, &trials, &task).await?
        }
        Task::Suggest { .. } => {
            let operation = task.pending(study).ok_or_else(|| not_found(&task.id()))?;
            let count = operation.request.count;
            let known = api.studies.suggestion_progress(&operation).await?;
            let progress = match known.ok_or_else(|| not_found(&task.id()))? {
                SuggestionProgress::Running => Progress::Running,
                SuggestionProgress::Failed(error) => Progress::Failed(ApiError::from(&*error).status()),
                SuggestionProgress::Done { suggested, end_time } => {
                    let task = Task::suggested(&operation, &suggested, end_time);
                    done(&api, &suggested.study, &suggested.trials, &task).await?
                }
            };
            return Rendered::of(count.get(), move || message(&task, progress)).await;
        }
    };
    let count = match &task {
        Task::Suggested { count, .. } => *count,
        Task::Suggest { .. } | Task::CheckEarlyStopping { .. } => 1,
    };
    Rendered::of(count, move || message(&task, progress)).await
}

/// The current state of the trials in `ranges`, without deleted ones.
async fn existing(api: &StudiesState, study: &StudyId, ranges: &[(u64, u64)]) -> Result<Vec<Trial>, ApiError> {
    let mut trials = Vec::new();
    for id in ranges.iter().flat_map(|(first, last)| *first..=*last).take(MAX_SUGGESTIONS) {
        match api.studies.trial(study, TrialId(id)).await {
            Ok(trial) => trials.push(trial),
            Err(StudiesError::Store(StoreError::NotFound { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(trials)
}

async fn cancel(
    State(api): State<StudiesState>,
    Names([project, location, operation]): Names<3>,
    Body(_): Body<Empty>,
) -> Result<Json<Empty>, ApiError> {
    let (task, study) = task(&project, &location, &operation)?;
    if let Some(operation) = task.pending(study) {
        api.studies.cancel_suggestion(&operation);
    }
    Ok(Json(Empty {}))
}
