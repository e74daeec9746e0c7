//! `GET jobs/{job}/logs` and `GET jobs/{job}/logs/{log}`. A Tunesmith extension: AI Platform's logs belong to another
//! service.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::openapi::Operation;
use crate::request::names::{Names, job_id};
use crate::request::paging::{self, Page};
use crate::request::query::Query;
use crate::response::error::{ApiError, Code};
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::use_cases;
use tunesmith_api::ai_platform::Int64;
use tunesmith_api::ai_platform::logs::{JobLog, JobLogList, JobLogPart};
use tunesmith_domain::JobId;
use tunesmith_jobs::Jobs;
use tunesmith_jobs::job_logs::{LogFile, LogName, LogStart};

const DEFAULT_PAGE_SIZE: usize = 1000;
const MAX_PAGE_SIZE: usize = 1000;

/// Maximum number of log bytes per response.
const CHUNK_BYTES: usize = 256 << 10;

/// Tolerated difference between the clock and a file system's modification times.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    let get = |path, use_case| Operation::get(path, use_case).or_not_found();
    routes
        .add(get("/v1/projects/{project}/jobs/{job}/logs", use_cases::LIST_JOB_LOGS), list)
        .add(get("/v1/projects/{project}/jobs/{job}/logs/{log}", use_cases::GET_JOB_LOG), read)
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
    State(api): State<Arc<Api>>,
    Names([project, job]): Names<2>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Value>, ApiError> {
    let Page { limit, after } = Page::read(query.page_size, &query.page_token, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
    // Read before the files, so that the logs of an ended job are complete.
    let read_time = Timestamp::now();
    let id = job_id(&project, &job)?;
    let (state, mut logs) = api.jobs.logs(&id, query.trial).await?;
    if logs.is_empty() {
        refuse_logs_elsewhere(&api.jobs, &id).await?;
    }
    let since = query.modified_since.map(|time| SystemTime::from(time) - CLOCK_TOLERANCE);
    logs.retain(|log| {
        (query.task.is_empty() || log.name.task == query.task)
            && since.is_none_or(|since| log.modified >= since)
            && after.as_ref().is_none_or(|after| log.name > *after)
    });
    let has_more = logs.len() > limit;
    logs.truncate(limit);
    let last = logs.last().filter(|_| has_more);
    Ok(Json(json!(JobLogList {
        next_page_token: last.map(|last| paging::token(&last.name.to_string())).unwrap_or_default(),
        logs: logs.iter().map(|log| message(&project, &job, log)).collect(),
        job_state: state,
        read_time,
    })))
}

/// Refuses with the name of the server that has the logs of a job, if it is another one.
async fn refuse_logs_elsewhere(jobs: &Jobs, id: &JobId) -> Result<(), ApiError> {
    match jobs.owner(id).await? {
        Some(owner) if !owner.is_self => Err(ApiError::new(
            Code::FailedPrecondition,
            format!("the logs of job {id} are on the server that runs it: {}; request them there", owner.name),
        )),
        _ => Ok(()),
    }
}

fn message(project: &str, job: &str, log: &LogFile) -> JobLog {
    let LogName { trial, attempt, task, stream } = &log.name;
    JobLog {
        name: format!("projects/{project}/jobs/{job}/logs/{}", log.name),
        trial: trial.map(|trial| Int64(trial.cast_signed())),
        attempt: Int64(attempt.cast_signed()),
        task: task.clone(),
        stream: stream.as_str().to_owned(),
        size_bytes: Int64(log.size_bytes.cast_signed()),
    }
}

/// A selection of a part of a log.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ReadQuery {
    /// Offset of the first byte; the `nextOffset` of the previous part.
    offset: u64,
}

async fn read(
    State(api): State<Arc<Api>>,
    Names([project, job, log]): Names<3>,
    Query(query): Query<ReadQuery>,
) -> Result<Json<Value>, ApiError> {
    let name: LogName = log.parse().map_err(|rule| ApiError::invalid("name", format!("{log:?}: {rule}")))?;
    let (id, start) = (job_id(&project, &job)?, LogStart::At(query.offset));
    let chunk = api.jobs.read_log(&id, &name, start, CHUNK_BYTES).await?;
    if chunk.is_none() {
        refuse_logs_elsewhere(&api.jobs, &id).await?;
    }
    let chunk = chunk.ok_or_else(|| ApiError::new(Code::NotFound, format!("job {job} has no log {log}")))?;
    Ok(Json(json!(JobLogPart { text: chunk.text, next_offset: Int64(chunk.next_offset.cast_signed()) })))
}
