//! `projects.locations.operations`: suggestions and checks for early stopping.
//!
//! An operation's name tells all that it was asked for, so that one that was begun before the service was started
//! anew can still be asked for: it is then carried out again, which gives the client the trials it has already.

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
use super::trials::list_message;
use crate::api::ai_platform::optimizer::operation::typed;
use crate::api::ai_platform::optimizer::study::{state_name, study_name};
use crate::api::ai_platform::optimizer::{Operation, OperationResult, Progress};
use crate::domain::{StudyId, TrialId};
use crate::service::optimizer::{Optimizer, Suggested, SuggestionRequest, TrialRef};

/// A suggestion that is ready within this is answered at once.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long the result of an operation is kept for those who ask.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// What an operation does, as its name tells.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Task {
    Suggest { study: String, client: String, count: usize, lease_millis: Option<u64>, begun: i64 },
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

    fn study(&self) -> &str {
        match self {
            Self::Suggest { study, .. } | Self::CheckEarlyStopping { study, .. } => study,
        }
    }
}

/// Suggestions that were not ready at once.
#[derive(Default)]
pub(super) struct Operations {
    running: Mutex<HashMap<Task, watch::Receiver<Option<OperationResult>>>>,
}

impl Operations {
    fn lock(&self) -> MutexGuard<'_, HashMap<Task, watch::Receiver<Option<OperationResult>>>> {
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
    let mut result = begin(api, &task, study, request);
    let ready = tokio::time::timeout(PATIENCE, result.wait_for(Option::is_some)).await;
    let progress = match ready {
        Ok(Ok(result)) => result.clone().map_or(Progress::Running, Progress::Done),
        Ok(Err(_)) | Err(_) => Progress::Running,
    };
    Ok(json!(message(&task, progress)))
}

/// Carries a suggestion out, whether or not its client waits for it.
fn begin(
    api: &Api,
    task: &Task,
    study: StudyId,
    request: SuggestionRequest,
) -> watch::Receiver<Option<OperationResult>> {
    let (sender, receiver) = watch::channel(None);
    api.operations.lock().insert(task.clone(), receiver.clone());
    let (api, task) = (api.clone(), task.clone());
    tokio::spawn(async move {
        let start = api.clock.now();
        let answer = match api.optimizer.suggest(&study, &request).await {
            Ok(suggested) => response(&api.optimizer, &study, suggested, start, api.clock.now()).await,
            Err(error) => Err(error.into()),
        };
        let result = match answer {
            Ok(response) => OperationResult::Response(response),
            Err(error) => OperationResult::Error(error.status()),
        };
        sender.send_replace(Some(result));
        tokio::time::sleep(KEPT_FOR).await;
        api.operations.lock().remove(&task);
    });
    receiver
}

async fn response(
    optimizer: &Optimizer,
    study: &StudyId,
    suggested: Suggested,
    start: Timestamp,
    end: Timestamp,
) -> Result<Value, ApiError> {
    let mut response = list_message(optimizer, study, &suggested.trials).await?;
    response["studyState"] = json!(state_name(suggested.study_state));
    response["startTime"] = json!(start);
    response["endTime"] = json!(end);
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
        Task::Suggest { client, count, begun, .. } => {
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
    let Task::Suggest { client, count, lease_millis, .. } = &task else {
        return Ok(Json(message(&task, checked(&task))));
    };
    let known = api.operations.lock().get(&task).cloned();
    let result = match known {
        Some(result) => result,
        None => {
            api.optimizer.study(&study).await?;
            let count = NonZeroUsize::new(*count).unwrap_or(NonZeroUsize::MIN);
            let lease = lease_millis.map(Duration::from_millis);
            begin(&api, &task, study, SuggestionRequest { client_id: client.clone(), count, lease })
        }
    };
    let progress = result.borrow().clone().map_or(Progress::Running, Progress::Done);
    Ok(Json(message(&task, progress)))
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
