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
use axum::extract::{Path, State};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::body::Body;
use super::names::{no_method, study_id};
use super::optimizer::Api;
use super::status::{ApiError, Code};
use super::trials::{MAX_SUGGESTIONS, list_message};
use crate::api::ai_platform::optimizer::operation::typed;
use crate::api::ai_platform::optimizer::study::{state_name, study_name};
use crate::api::ai_platform::optimizer::{Operation, OperationResult, Progress};
use crate::domain::{StudyId, Trial, TrialId};
use crate::service::optimizer::{OptimizerError, Suggested, SuggestionRequest, TrialRef};
use crate::store::StoreError;

/// A suggestion that is ready within this is answered at once.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long the result of an operation that was not ready at once is kept for those who ask.
const KEPT_FOR: Duration = Duration::from_secs(600);

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
        state: String,
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
            state: state_name(suggested.study_state).to_owned(),
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
pub(super) async fn suggest(api: &Api, study: StudyId, request: SuggestionRequest) -> Result<Value, ApiError> {
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
        None => Ok(json!(message(&task, Progress::Running))),
        Some(Ok(ended)) => {
            api.operations.lock().remove(&task);
            let task = task.suggested(&ended);
            let response = response(api, &study, &ended.suggested.trials, &task).await?;
            Ok(json!(message(&task, Progress::Done(OperationResult::Response(response)))))
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

/// `SuggestTrialsResponse`.
async fn response(api: &Api, study: &StudyId, trials: &[Trial], task: &Task) -> Result<Value, ApiError> {
    let Task::Suggested { state, begun, ended, .. } = task else { return Ok(json!({})) };
    let mut response = list_message(&api.optimizer, study, trials).await?;
    response["studyState"] = json!(state);
    response["startTime"] = json!(time(*begun));
    response["endTime"] = json!(time(*ended));
    Ok(typed("SuggestTrialsResponse", response))
}

/// Asks whether a trial should stop, as an operation that is done.
pub(super) async fn check_early_stopping(api: &Api, key: &TrialRef) -> Result<Value, ApiError> {
    let should_stop = api.optimizer.should_stop(key).await?;
    let task = Task::CheckEarlyStopping {
        study: key.study.as_str().to_owned(),
        trial: key.trial.0,
        should_stop,
        begun: api.clock.now().as_millisecond(),
    };
    Ok(json!(message(&task, checked(&task))))
}

fn checked(task: &Task) -> Progress {
    let Task::CheckEarlyStopping { should_stop, begun, .. } = task else { return Progress::Running };
    let time = json!(time(*begun));
    let response = json!({ "shouldStop": should_stop, "startTime": time, "endTime": time });
    Progress::Done(OperationResult::Response(typed("CheckTrialEarlyStoppingStateResponse", response)))
}

fn time(millisecond: i64) -> Timestamp {
    Timestamp::from_millisecond(millisecond).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn message(task: &Task, progress: Progress) -> Operation {
    let study: Result<StudyId, _> = task.study().parse();
    let (project, location) = study.as_ref().map_or(("-", "-"), |study| (study.parts().0, study.parts().1));
    let name = format!("projects/{project}/locations/{location}/operations/{}", task.id());
    let study_name = study.as_ref().map_or_else(|_| String::new(), study_name);
    match task {
        Task::Suggest { client, count, begun, .. } | Task::Suggested { client, count, begun, .. } => {
            let metadata = json!({
                "study": study_name, "clientId": client, "suggestionCount": count, "createTime": time(*begun),
            });
            Operation::new(name, "SuggestTrialsMetadata", metadata, progress)
        }
        Task::CheckEarlyStopping { trial, begun, .. } => {
            let metadata = json!({
                "study": study_name, "trial": TrialId(*trial).to_string(), "createTime": time(*begun),
            });
            Operation::new(name, "CheckTrialEarlyStoppingStateMetatdata", metadata, progress)
        }
    }
}

type OperationPath = Path<(String, String, String)>;

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

pub(super) async fn get(
    State(api): State<Api>,
    Path((project, location, operation)): OperationPath,
) -> Result<Json<Operation>, ApiError> {
    let (task, study) = task(&project, &location, &operation)?;
    let progress = match &task {
        Task::CheckEarlyStopping { .. } => checked(&task),
        Task::Suggested { trials, .. } => given(&api, &study, trials, &task).await?,
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
                Some(Err(error)) => Progress::Done(OperationResult::Error(error.status())),
                Some(Ok(ended)) => {
                    let response = response(&api, &study, &ended.suggested.trials, &task.suggested(&ended)).await?;
                    Progress::Done(OperationResult::Response(response))
                }
            }
        }
    };
    Ok(Json(message(&task, progress)))
}

/// The trials that were given, as they are now; those that were deleted since are left out.
async fn given(api: &Api, study: &StudyId, ranges: &[(u64, u64)], task: &Task) -> Result<Progress, ApiError> {
    let mut trials = Vec::new();
    for id in ranges.iter().flat_map(|(first, last)| *first..=*last).take(MAX_SUGGESTIONS) {
        match api.optimizer.trial(study, TrialId(id)).await {
            Ok(trial) => trials.push(trial),
            Err(OptimizerError::Store(StoreError::NotFound { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Progress::Done(OperationResult::Response(response(api, study, &trials, task).await?)))
}

/// `{operation}:cancel`. A suggestion that is begun comes to its end; its trials are the client's.
pub(super) async fn operation_method(
    Path((project, location, segment)): OperationPath,
    Body(_): Body<Value>,
) -> Result<Json<Value>, ApiError> {
    match segment.split_once(':') {
        Some((operation, "cancel")) => task(&project, &location, operation).map(|_| Json(json!({}))),
        _ => Err(no_method(&format!("{segment:?} of an operation"))),
    }
}
