//! `projects.locations.operations`: suggestions and checks for early stopping.
//!
//! An operation's name tells all that was asked for, and what came of it if that was known when it was answered: nothing
//! is kept, and every operation can still be asked for after the service was started anew. One that had not come to its
//! end by then is carried out again, which gives the client the trials it has already.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::body::Body;
use super::names::{Names, study_id};
use super::openapi;
use super::optimizer::Api;
use super::routes::Routes;
use super::status::{ApiError, Code};
use super::trials::{MAX_SUGGESTIONS, messages};
use tunesmith_api::ai_platform::optimizer::operation::{
    CheckTrialEarlyStoppingStateMetadata, CheckTrialEarlyStoppingStateResponse, OperationMetadata, OperationResponse,
    SuggestTrialsMetadata, SuggestTrialsResponse,
};
use tunesmith_api::ai_platform::optimizer::study::{StudyStateName, study_name};
use tunesmith_api::ai_platform::optimizer::{Operation, Progress};
use tunesmith_api::ai_platform::rpc::Empty;
use tunesmith_domain::{StudyId, Trial, TrialId};
use tunesmith_service::optimizer::{OptimizerError, Suggested, SuggestionRequest, TrialRef};
use tunesmith_store::StoreError;

/// A suggestion that is ready within this is answered at once.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long the result of an operation that was not ready at once is kept for those who ask.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// `routes`, and those of operations.
pub(super) fn routes(routes: Routes<Api>) -> Routes<Api> {
    routes
        .add(
            openapi::Operation::get(
                "/v1/projects/{project}/locations/{location}/operations/{operation}",
                "ml.projects.locations.operations.get",
                "Tells of an operation, and its answer once it is done.",
            )
            .or_not_found(),
            get,
        )
        .add(
            openapi::Operation::post(
                "/v1/projects/{project}/locations/{location}/operations/{operation}:cancel",
                "ml.projects.locations.operations.cancel",
                "Cancels an operation. A suggestion that is begun comes to its end all the same.",
            )
            .or_not_found(),
            cancel,
        )
}

/// What an operation does, as its name tells.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Task {
    /// Trials are asked for.
    Suggest { study: String, client: String, count: usize, lease_millis: Option<u64>, begun: i64 },
    /// They were given: these numbers, each with the last of those that follow it.
    Suggested {
        study: String,
        client: String,
        count: usize,
        trials: Vec<(u64, u64)>,
        state: StudyStateName,
        begun: i64,
        ended: i64,
    },
    /// Whether a trial should stop was asked for, and answered.
    CheckEarlyStopping { study: String, trial: u64, should_stop: bool, begun: i64 },
}

impl Task {
    fn id(&self) -> String {
        // Numbers and text only, so that this cannot fail.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn of(id: &str) -> Option<Self> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(id).ok()?).ok()
    }

    /// This task, once it gave these trials.
    fn suggested(&self, Ended { suggested, at }: &Ended) -> Self {
        let Self::Suggest { study, client, count, begun, .. } = self else { return self.clone() };
        let mut trials: Vec<(u64, u64)> = Vec::new();
        for trial in &suggested.trials {
            match trials.last_mut() {
                Some((_, last)) if *last + 1 == trial.id.0 => *last += 1,
                _ => trials.push((trial.id.0, trial.id.0)),
            }
        }
        Self::Suggested {
            study: study.clone(),
            client: client.clone(),
            count: *count,
            trials,
            state: suggested.study_state.into(),
            begun: *begun,
            ended: at.as_millisecond(),
        }
    }

    fn study(&self) -> &str {
        match self {
            Self::Suggest { study, .. } | Self::Suggested { study, .. } | Self::CheckEarlyStopping { study, .. } => {
                study
            }
        }
    }
}

/// A suggestion, once it has come to its end.
type Running = watch::Receiver<Option<Result<Ended, ApiError>>>;

/// What a suggestion gave, and when.
#[derive(Debug, Clone)]
struct Ended {
    suggested: Suggested,
    at: Timestamp,
}

/// Suggestions that were not ready at once.
#[derive(Default)]
pub(super) struct Operations {
    running: Mutex<HashMap<Task, Running>>,
}

impl Operations {
    fn lock(&self) -> MutexGuard<'_, HashMap<Task, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives a client its trials, as an operation that is done if they are ready soon.
pub(super) async fn suggest(api: &Api, study: StudyId, request: SuggestionRequest) -> Result<Operation, ApiError> {
    // What is wrong with the request itself is told at once, not by an operation.
    api.optimizer.study(&study).await?;
    let task = Task::Suggest {
        study: study.as_str().to_owned(),
        client: request.client_id.clone(),
        count: request.count.get(),
        lease_millis: request.lease.map(|lease| u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
        begun: api.clock.now().as_millisecond(),
    };
    let mut suggested = begin(api, &task, study.clone(), request);
    let outcome = tokio::time::timeout(PATIENCE, async {
        // What was sent stays locked while it is looked at, so it is taken away from there.
        suggested.wait_for(Option::is_some).await.map(|outcome| outcome.clone()).unwrap_or_default()
    });
    let outcome = outcome.await.unwrap_or_default();
    match outcome {
        None => Ok(message(&task, Progress::Running)),
        Some(Ok(ended)) => {
            api.operations.lock().remove(&task);
            let task = task.suggested(&ended);
            let progress = given(api, &study, &ended.suggested.trials, &task).await?;
            Ok(message(&task, progress))
        }
        Some(Err(error)) => {
            api.operations.lock().remove(&task);
            Err(error)
        }
    }
}

/// Carries a suggestion out, whether or not its client waits for it.
fn begin(api: &Api, task: &Task, study: StudyId, request: SuggestionRequest) -> Running {
    let (sender, receiver) = watch::channel(None);
    api.operations.lock().insert(task.clone(), receiver.clone());
    let (api, task) = (api.clone(), task.clone());
    tokio::spawn(async move {
        let outcome = api.optimizer.suggest(&study, &request).await;
        let at = api.clock.now();
        let outcome = outcome.map(|suggested| Ended { suggested, at }).map_err(ApiError::from);
        sender.send_replace(Some(outcome));
        // Until then whoever waited has taken it away, or asks again later.
        tokio::time::sleep(PATIENCE).await;
        if api.operations.lock().contains_key(&task) {
            tokio::time::sleep(KEPT_FOR).await;
            api.operations.lock().remove(&task);
        }
    });
    receiver
}

/// These trials are the answer.
async fn given(api: &Api, study: &StudyId, trials: &[Trial], task: &Task) -> Result<Progress, ApiError> {
    let Task::Suggested { state, begun, ended, .. } = task else { return Ok(Progress::Running) };
    Ok(Progress::Done(OperationResponse::Suggest(SuggestTrialsResponse {
        trials: messages(&api.optimizer, study, trials).await?,
        study_state: *state,
        start_time: time(*begun),
        end_time: time(*ended),
    })))
}

/// Asks whether a trial should stop, as an operation that is done.
pub(super) async fn check_early_stopping(api: &Api, key: &TrialRef) -> Result<Operation, ApiError> {
    let should_stop = api.optimizer.should_stop(key).await?;
    let begun = api.clock.now().as_millisecond();
    let task =
        Task::CheckEarlyStopping { study: key.study.as_str().to_owned(), trial: key.trial.0, should_stop, begun };
    Ok(message(&task, checked(should_stop, begun)))
}

fn checked(should_stop: bool, begun: i64) -> Progress {
    let time = time(begun);
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
        Task::Suggest { client, count, begun, .. } | Task::Suggested { client, count, begun, .. } => {
            OperationMetadata::Suggest(SuggestTrialsMetadata {
                study: study_name,
                client_id: client.clone(),
                suggestion_count: *count,
                create_time: time(*begun),
            })
        }
        Task::CheckEarlyStopping { trial, begun, .. } => {
            OperationMetadata::CheckEarlyStopping(CheckTrialEarlyStoppingStateMetadata {
                create_time: time(*begun),
                study: study_name,
                trial: TrialId(*trial).to_string(),
            })
        }
    };
    Operation::new(name, metadata, progress)
}

/// The task that the path names, if its study lies there.
fn task(project: &str, location: &str, id: &str) -> Result<(Task, StudyId), ApiError> {
    let not_found = || ApiError::new(Code::NotFound, format!("operation {id} does not exist"));
    let task = Task::of(id).ok_or_else(not_found)?;
    let study: StudyId = task.study().parse().map_err(|_| not_found())?;
    let (of_project, at_location, name) = study.parts();
    if (of_project, at_location) != (project, location) {
        return Err(not_found());
    }
    study_id(of_project, at_location, name)?;
    Ok((task, study))
}

async fn get(
    State(api): State<Api>,
    Names([project, location, operation]): Names<3>,
) -> Result<Json<Operation>, ApiError> {
    let (task, study) = task(&project, &location, &operation)?;
    let progress = match &task {
        Task::CheckEarlyStopping { should_stop, begun, .. } => checked(*should_stop, *begun),
        Task::Suggested { trials, .. } => {
            let trials = present(&api, &study, trials).await?;
            given(&api, &study, &trials, &task).await?
        }
        Task::Suggest { client, count, lease_millis, .. } => {
            let known = api.operations.lock().get(&task).cloned();
            let running = match known {
                Some(running) => running,
                None => {
                    api.optimizer.study(&study).await?;
                    let count = NonZeroUsize::new(*count).unwrap_or(NonZeroUsize::MIN);
                    let lease = lease_millis.map(Duration::from_millis);
                    begin(&api, &task, study.clone(), SuggestionRequest { client_id: client.clone(), count, lease })
                }
            };
            let outcome = running.borrow().clone();
            match outcome {
                None => Progress::Running,
                Some(Err(error)) => Progress::Failed(error.status()),
                Some(Ok(ended)) => given(&api, &study, &ended.suggested.trials, &task.suggested(&ended)).await?,
            }
        }
    };
    Ok(Json(message(&task, progress)))
}

/// The trials that were given, as they are now; those that were deleted since are left out.
async fn present(api: &Api, study: &StudyId, ranges: &[(u64, u64)]) -> Result<Vec<Trial>, ApiError> {
    let mut trials = Vec::new();
    for id in ranges.iter().flat_map(|(first, last)| *first..=*last).take(MAX_SUGGESTIONS) {
        match api.optimizer.trial(study, TrialId(id)).await {
            Ok(trial) => trials.push(trial),
            Err(OptimizerError::Store(StoreError::NotFound { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(trials)
}

/// A suggestion that is begun comes to its end; its trials are the client's.
async fn cancel(
    Names([project, location, operation]): Names<3>,
    Body(_): Body<Empty>,
) -> Result<Json<Empty>, ApiError> {
    task(&project, &location, &operation).map(|_| Json(Empty {}))
}
