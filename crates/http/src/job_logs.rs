//! `GET jobs/{job}/logs` and `GET jobs/{job}/logs/{log}`. AI Platform has no such methods: its logs are part of another
//! service.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::{Json, Router};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::names::{Names, job_id};
use super::openapi::Operation;
use super::paging::{self, Page};
use super::query::Query;
use super::routes::{Dispatch, Routes};
use super::status::{ApiError, Code};
use tunesmith_access::Permission;
use tunesmith_domain::JobId;
use tunesmith_service::job_logs::{LogError, LogFile, LogName, LogStart};
use tunesmith_service::jobs::Jobs;

/// Default and maximum number of logs in a page.
const DEFAULT_PAGE_SIZE: usize = 1000;
const MAX_PAGE_SIZE: usize = 1000;

/// Maximum number of bytes of a log in a response.
const CHUNK_BYTES: usize = 256 << 10;

/// Allowed difference between the clock and the modification times of a file system.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

/// The routes.
pub(super) fn routes() -> Routes<Arc<Jobs>> {
    let get = |path, id, summary| Operation::get(path, id, summary).or_not_found();
    Routes::new()
        .add(
            get(
                "/v1/projects/{project}/jobs/{job}/logs",
                "tunesmith.projects.jobs.logs.list",
                "Lists the logs of a job's programs.",
            )
            .permission(Permission::JobsGet),
            list,
        )
        .add(
            get(
                "/v1/projects/{project}/jobs/{job}/logs/{log}",
                "tunesmith.projects.jobs.logs.get",
                "Reads a part of a log.",
            )
            .permission(Permission::JobsGet),
            read,
        )
}

/// The router of the logs of `jobs`.
pub(super) fn router(jobs: Arc<Jobs>, dispatch: &Arc<Dispatch>) -> Router {
    routes().with_state(jobs, dispatch)
}

/// A selection of logs.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ListQuery {
    /// Only logs of this trial.
    trial: Option<u64>,
    /// Only logs of this task, such as `master-0`.
    task: String,
    /// Only logs that were written since this time: the `readTime` of a previous response.
    modified_since: Option<Timestamp>,
    /// Maximum number of logs; default and maximum 1000.
    #[schemars(range(min = 0))]
    page_size: i32,
    /// The `nextPageToken` of the previous page.
    page_token: String,
}

async fn list(
    State(jobs): State<Arc<Jobs>>,
    Names([project, job]): Names<2>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Value>, ApiError> {
    let Page { limit, after } = Page::read(query.page_size, &query.page_token, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
    // Both are read before the files: the logs of an ended job are then complete.
    let read_time = Timestamp::now();
    let id = job_id(&project, &job)?;
    let (state, mut logs) = jobs.logs(&id, query.trial).await?;
    if logs.is_empty() {
        refuse_logs_elsewhere(&jobs, &id).await?;
    }
    let since = query.modified_since.map(|time| SystemTime::from(time) - CLOCK_TOLERANCE);
    logs.retain(|log| {
        (query.task.is_empty() || log.name.task == query.task)
            && since.is_none_or(|since| log.modified >= since)
            && after.as_ref().is_none_or(|after| log.name > *after)
    });
    let has_more = logs.len() > limit;
    logs.truncate(limit);
    let mut answer = json!({"jobState": state.to_string(), "readTime": read_time});
    if let Some(last) = logs.last().filter(|_| has_more) {
        answer["nextPageToken"] = json!(paging::token(&last.name.to_string()));
    }
    if !logs.is_empty() {
        answer["logs"] = logs.iter().map(|log| message(&project, &job, log)).collect();
    }
    Ok(Json(answer))
}

/// Names the server whose machine has the logs of a job, if it is another one.
async fn refuse_logs_elsewhere(jobs: &Jobs, id: &JobId) -> Result<(), ApiError> {
    match jobs.owner(id).await? {
        Some(owner) if !owner.is_self => Err(ApiError::new(
            Code::FailedPrecondition,
            format!("the logs of job {id} are on the server that runs it: {}; request them there", owner.name),
        )),
        _ => Ok(()),
    }
}

fn message(project: &str, job: &str, log: &LogFile) -> Value {
    let LogName { trial, attempt, task, stream } = &log.name;
    let mut message = json!({
        "name": format!("projects/{project}/jobs/{job}/logs/{}", log.name),
        "attempt": attempt.to_string(),
        "task": task,
        "stream": stream.as_str(),
        "sizeBytes": log.size_bytes.to_string(),
    });
    if let Some(trial) = trial {
        message["trial"] = json!(trial.to_string());
    }
    message
}

/// A selection of a part of a log.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ReadQuery {
    /// Offset of the first byte; the `nextOffset` of the previous part.
    offset: u64,
}

async fn read(
    State(jobs): State<Arc<Jobs>>,
    Names([project, job, log]): Names<3>,
    Query(query): Query<ReadQuery>,
) -> Result<Json<Value>, ApiError> {
    let name: LogName = log.parse().map_err(|rule| ApiError::invalid("name", format!("{log:?}: {rule}")))?;
    let (id, start) = (job_id(&project, &job)?, LogStart::At(query.offset));
    let chunk = jobs.read_log(&id, &name, start, CHUNK_BYTES).await?;
    if chunk.is_none() {
        refuse_logs_elsewhere(&jobs, &id).await?;
    }
    let chunk = chunk.ok_or_else(|| ApiError::new(Code::NotFound, format!("job {job} has no log {log}")))?;
    Ok(Json(json!({"text": chunk.text, "nextOffset": chunk.next_offset.to_string()})))
}

impl From<LogError> for ApiError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Store(error) => error.into(),
            LogError::Unreadable(_) => {
                tracing::error!(error = &error as &dyn std::error::Error, "logs cannot be read");
                Self::new(Code::Internal, "the logs cannot be read; see the server's log")
            }
        }
    }
}
