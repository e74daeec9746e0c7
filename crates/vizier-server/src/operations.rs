//! Operations: suggestions and checks for early stopping, whose results are in their names.

use std::time::Duration;

use jiff::Timestamp;
use prost::{Message, Name};
use prost_types::Any;
use tokio::time::Instant;
use tunesmith_admission::use_cases;
use tunesmith_api::ai_platform::optimizer::{OperationName, SuggestTrialsRequest};
use tunesmith_domain::{Code, FixedParameters, Refusal, Study, StudyId, SuggestionOperation, Trial, TrialId};
use tunesmith_studies::{Suggested, SuggestionProgress};
use tunesmith_vizier::messages::longrunning::operation;
use tunesmith_vizier::messages::longrunning::{
    CancelOperationRequest, DeleteOperationRequest, GetOperationRequest, ListOperationsRequest, ListOperationsResponse,
    Operation, WaitOperationRequest,
};
use tunesmith_vizier::messages::oss;
use tunesmith_vizier::messages::vertex as messages;
use tunesmith_vizier::names::{self, parts};
use tunesmith_vizier::{Version, oss as of_oss, std_duration, timestamp, vertex};

use crate::method::Method;
use crate::refusals::{any, any_of, status_message, violation};
use crate::services::{Context, Reply};
use crate::trials;

/// Longest wait for an operation, below the time limit of a call.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Time between two looks at an operation that is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// Names of operations, which are equal but for their beginning.
const NAMES: [&str; 5] = [
    "projects/*/locations/*/operations/*",
    "projects/*/locations/*/customJobs/*/operations/*",
    "projects/*/locations/*/hyperparameterTuningJobs/*/operations/*",
    "projects/*/locations/*/studies/*/operations/*",
    "projects/*/locations/*/studies/*/trials/*/operations/*",
];

/// End of the IDs of operations of `v1beta1`. Both versions read operations by the same methods, and accept only their
/// own messages.
const BETA: &str = "~v1beta1";

/// Protocol of an operation's name and messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    VertexAi(Version),
    OssVizier,
}

impl Protocol {
    /// Protocol of the operation of Vertex AI with this name.
    fn of_vertex(name: &str) -> Self {
        Self::VertexAi(if name.ends_with(BETA) { Version::V1Beta1 } else { Version::V1 })
    }

    /// `message` with the type that its clients expect.
    fn any<T: Message + Name>(self, message: &T) -> Any {
        match self {
            Self::VertexAi(version) => any_of(version, message),
            Self::OssVizier => any(message),
        }
    }

    fn id(self, name: &OperationName) -> String {
        let id = name.id();
        if self == Self::VertexAi(Version::V1Beta1) { id + BETA } else { id }
    }
}

pub(crate) fn methods() -> Vec<Method> {
    macro_rules! rules {
        ($method:expr, $verb:literal, $custom:literal, $body:literal) => {
            rules!(@ $method, $verb, $custom, $body;
                "" "studies/*/" "studies/*/trials/*/" "customJobs/*/" "hyperparameterTuningJobs/*/")
        };
        (@ $method:expr, $verb:literal, $custom:literal, $body:literal; $($below:literal)*) => {{
            let method: Method = $method;
            method$(
                .http(concat!($verb, " /v1/{name=projects/*/locations/*/", $below, "operations/*}", $custom, $body))
                .http(concat!($verb, " /v1beta1/{name=projects/*/locations/*/", $below, "operations/*}", $custom, $body))
                .http(concat!($verb, " /ui/{name=projects/*/locations/*/", $below, "operations/*}", $custom, $body))
            )*
        }};
    }
    macro_rules! lists {
        ($method:expr; $($parent:literal)*) => {{
            let method: Method = $method;
            method$(
                .http(concat!("GET /v1/{name=projects/*/locations/*", $parent, "}/operations"))
                .http(concat!("GET /v1beta1/{name=projects/*/locations/*", $parent, "}/operations"))
                .http(concat!("GET /ui/{name=projects/*/locations/*", $parent, "}/operations"))
            )*
        }};
    }
    vec![
        lists!(
            Method::new(
                "google.longrunning.Operations.ListOperations",
                use_cases::LIST_OPERATIONS,
                |request: &ListOperationsRequest| &request.name,
                list,
            );
            "" "/studies/*" "/studies/*/trials/*" "/customJobs/*" "/hyperparameterTuningJobs/*"
        ),
        rules!(
            Method::new(
                "google.longrunning.Operations.GetOperation",
                use_cases::GET_OPERATION,
                |request: &GetOperationRequest| &request.name,
                get,
            ),
            "GET",
            "",
            ""
        ),
        rules!(
            Method::new(
                "google.longrunning.Operations.DeleteOperation",
                use_cases::DELETE_OPERATION,
                |request: &DeleteOperationRequest| &request.name,
                delete,
            ),
            "DELETE",
            "",
            ""
        ),
        rules!(
            Method::new(
                "google.longrunning.Operations.CancelOperation",
                use_cases::CANCEL_OPERATION,
                |request: &CancelOperationRequest| &request.name,
                cancel,
            ),
            "POST",
            ":cancel",
            " *"
        ),
        rules!(
            Method::new(
                "google.longrunning.Operations.WaitOperation",
                use_cases::GET_OPERATION,
                |request: &WaitOperationRequest| &request.name,
                wait,
            ),
            "POST",
            ":wait",
            " *"
        ),
    ]
}

/// Starts a suggestion of `study`; the operation is complete if the suggestion is ready soon.
pub(crate) async fn suggest(
    context: &Context,
    protocol: Protocol,
    study: Study,
    suggestion_count: i32,
    client_id: String,
) -> Result<Operation, Refusal> {
    let operation = requested(context, &study, suggestion_count, client_id)?;
    let held = context.admission.hold_trials(operation.request.count.get())?;
    let progress = context.studies().start_suggestion(&operation, held).await?;
    suggestion(context, protocol, &study, &operation, progress).await
}

/// Suggests one trial of `study` for each of `contexts`. The operation is complete: its name would not hold the fixed
/// parameters of a suggestion that continues.
pub(crate) async fn suggest_in_contexts(
    context: &Context,
    study: Study,
    (suggestion_count, client_id): (i32, String),
    contexts: &[FixedParameters],
) -> Result<Operation, Refusal> {
    let operation = requested(context, &study, suggestion_count, client_id)?;
    let _held = context.admission.hold_trials(operation.request.count.get())?;
    let suggested = context.studies().suggest_in_contexts(&study.id, &operation.request, contexts).await?;
    let end_time = context.services.clock.now();
    let progress = SuggestionProgress::Done { suggested: Box::new(suggested), end_time };
    suggestion(context, Protocol::VertexAi(context.version), &study, &operation, progress).await
}

/// The operation of a valid request.
fn requested(
    context: &Context,
    study: &Study,
    suggestion_count: i32,
    client_id: String,
) -> Result<SuggestionOperation, Refusal> {
    let request = SuggestTrialsRequest { suggestion_count, client_id, ..SuggestTrialsRequest::default() };
    let request = request.into_request().map_err(violation)?;
    // Operation IDs have a resolution of milliseconds.
    let start_time = Timestamp::from_millisecond(context.services.clock.now().as_millisecond()).unwrap_or_default();
    Ok(SuggestionOperation { study: study.id.clone(), request, start_time })
}

async fn suggestion(
    context: &Context,
    protocol: Protocol,
    study: &Study,
    operation: &SuggestionOperation,
    progress: SuggestionProgress,
) -> Result<Operation, Refusal> {
    let pending = OperationName::suggest(operation);
    Ok(match progress {
        SuggestionProgress::Running => message(protocol, study, &pending, None),
        SuggestionProgress::Failed(error) => {
            let status = status_message(&Refusal::from(&*error));
            message(protocol, study, &pending, Some(operation::Result::Error(status)))
        }
        SuggestionProgress::Done { suggested, end_time } => {
            let Suggested { study, trials } = &*suggested;
            let numbers = trials.iter().map(|trial| trial.id);
            let name = OperationName::suggested(operation, study.state, numbers, end_time);
            suggested_message(context, protocol, study, &name, trials).await?
        }
    })
}

/// The completed suggestion `name` of `trials`.
async fn suggested_message(
    context: &Context,
    protocol: Protocol,
    study: &Study,
    name: &OperationName,
    trials: &[Trial],
) -> Result<Operation, Refusal> {
    let OperationName::Suggested { state, started, ended, .. } = name else {
        return Ok(message(protocol, study, name, None));
    };
    let messages = trials::messages(context.studies(), study, trials).await?;
    let study_state = vertex::study_state((*state).into()).into();
    let (start_time, end_time) = (Some(time(*started)), Some(time(*ended)));
    let response = match protocol {
        Protocol::VertexAi(_) => {
            protocol.any(&messages::SuggestTrialsResponse { trials: messages, study_state, start_time, end_time })
        }
        Protocol::OssVizier => {
            let trials = trials.iter().zip(messages);
            let trials = trials.map(|(trial, message)| of_oss::message_of_trial(study, trial, message)).collect();
            protocol.any(&oss::SuggestTrialsResponse { trials, study_state, start_time, end_time })
        }
    };
    Ok(message(protocol, study, name, Some(operation::Result::Response(response))))
}

/// Checks whether a trial should stop. The operation is always complete.
pub(crate) fn early_stopping(context: &Context, study: &Study, trial: TrialId, should_stop: bool) -> Operation {
    let name = OperationName::CheckEarlyStopping {
        study: study.id.as_str().to_owned(),
        trial: trial.0,
        attempt: None,
        should_stop,
        started: context.services.clock.now().as_millisecond(),
    };
    let protocol = Protocol::VertexAi(context.version);
    let response = protocol.any(&messages::CheckTrialEarlyStoppingStateResponse { should_stop });
    message(protocol, study, &name, Some(operation::Result::Response(response)))
}

fn message(protocol: Protocol, study: &Study, name: &OperationName, result: Option<operation::Result>) -> Operation {
    let of_study = names::vertex::of_study(&study.id);
    let metadata = |started: i64| messages::GenericOperationMetadata {
        partial_failures: Vec::new(),
        create_time: Some(time(started)),
        update_time: Some(time(started)),
    };
    let (parent, metadata) = match name {
        OperationName::Suggest { client, started, .. } | OperationName::Suggested { client, started, .. } => {
            let generic_metadata = Some(metadata(*started));
            let metadata = messages::SuggestTrialsMetadata { generic_metadata, client_id: client.clone() };
            (of_study, protocol.any(&metadata))
        }
        OperationName::CheckEarlyStopping { trial, started, .. } => {
            let parent = format!("{of_study}/trials/{trial}");
            let metadata = messages::CheckTrialEarlyStoppingStateMetatdata {
                generic_metadata: Some(metadata(*started)),
                study: of_study,
                trial: trial.to_string(),
            };
            (parent, protocol.any(&metadata))
        }
    };
    let parent = match protocol {
        Protocol::VertexAi(_) => parent,
        Protocol::OssVizier => format!("owners/{}", study.id.parts().0),
    };
    let metadata = Some(metadata).filter(|_| protocol != Protocol::OssVizier);
    Operation { name: format!("{parent}/operations/{}", protocol.id(name)), metadata, done: result.is_some(), result }
}

fn time(millisecond: i64) -> prost_types::Timestamp {
    timestamp(Timestamp::from_millisecond(millisecond).unwrap_or(Timestamp::UNIX_EPOCH))
}

fn not_found(name: &str) -> Refusal {
    let text = format!("operation {name} does not exist, or its result is no longer kept: request suggestions again");
    Refusal::new(Code::NotFound, text)
}

/// The operation `name`, whose study must be in the named project and, in Vertex AI, location.
fn named(protocol: Protocol, name: &str) -> Result<(OperationName, StudyId), Refusal> {
    let id = name.rsplit('/').next().unwrap_or_default();
    let id = id.strip_suffix(BETA).filter(|_| protocol != Protocol::OssVizier).unwrap_or(id);
    let place = match protocol {
        Protocol::VertexAi(_) => NAMES.iter().find_map(|pattern| match pattern.matches('*').count() {
            3 => parts::<3>(name, pattern).map(|[project, location, _]| (project, Some(location))),
            4 => parts::<4>(name, pattern).map(|[project, location, ..]| (project, Some(location))),
            _ => parts::<5>(name, pattern).map(|[project, location, ..]| (project, Some(location))),
        }),
        Protocol::OssVizier => parts::<2>(name, "owners/*/operations/*").map(|[project, _]| (project, None)),
    };
    let (project, location) = place.ok_or_else(|| not_found(name))?;
    let (operation, study) = OperationName::parse(id).ok_or_else(|| not_found(name))?;
    let (of_project, at_location, _) = study.parts();
    if of_project != project || location.is_some_and(|location| location != at_location) {
        return Err(not_found(name));
    }
    Ok((operation, study))
}

/// Reads the operation `name`.
pub(crate) async fn read(context: &Context, protocol: Protocol, name: &str) -> Result<Operation, Refusal> {
    let (operation, study) = named(protocol, name)?;
    let study = context.studies().study(&study).await?;
    if let Some(pending) = operation.pending(study.id.clone()) {
        let known = context.studies().suggestion_progress(&pending).await?;
        let known = known.ok_or_else(|| not_found(name))?;
        let read = suggestion(context, protocol, &study, &pending, known).await?;
        // The name stays, although that of the result is another one.
        return Ok(Operation { name: name.to_owned(), ..read });
    }
    Ok(match operation {
        OperationName::CheckEarlyStopping { should_stop, .. } => {
            let response = protocol.any(&messages::CheckTrialEarlyStoppingStateResponse { should_stop });
            message(protocol, &study, &operation, Some(operation::Result::Response(response)))
        }
        _ => {
            let trials = context.studies().trials_numbered(&study.id, operation.trials()).await?;
            suggested_message(context, protocol, &study, &operation, &trials).await?
        }
    })
}

async fn get(context: Context, request: GetOperationRequest) -> Result<Reply<Operation>, Refusal> {
    Ok(read(&context, Protocol::of_vertex(&request.name), &request.name).await?.into())
}

async fn wait(context: Context, request: WaitOperationRequest) -> Result<Reply<Operation>, Refusal> {
    let limit = match &request.timeout {
        None => LONGEST_WAIT,
        Some(limit) => std_duration(limit)
            .ok_or_else(|| Refusal::invalid("timeout", "is no duration from 0 s on"))?
            .min(LONGEST_WAIT),
    };
    let end = Instant::now() + limit;
    loop {
        let operation = read(&context, Protocol::of_vertex(&request.name), &request.name).await?;
        if operation.done || Instant::now() >= end {
            return Ok(operation.into());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Lists no operations, whatever the filter: they are not kept.
async fn list(_: Context, request: ListOperationsRequest) -> Result<Reply<ListOperationsResponse>, Refusal> {
    if request.page_size < 0 {
        return Err(Refusal::invalid("pageSize", format!("{} is negative", request.page_size)));
    }
    if !request.page_token.is_empty() {
        return Err(Refusal::invalid("pageToken", "not issued by this server"));
    }
    Ok(ListOperationsResponse::default().into())
}

async fn delete(_: Context, request: DeleteOperationRequest) -> Result<Reply<()>, Refusal> {
    named(Protocol::of_vertex(&request.name), &request.name)?;
    Ok(().into())
}

async fn cancel(context: Context, request: CancelOperationRequest) -> Result<Reply<()>, Refusal> {
    let (name, study) = named(Protocol::of_vertex(&request.name), &request.name)?;
    if let Some(operation) = name.pending(study) {
        context.studies().cancel_suggestion(&operation);
    }
    Ok(().into())
}
