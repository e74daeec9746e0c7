//! The extension for tasks: a wait that the client polls instead of a response that stays open.
//!
//! A task is nothing but its ID, which contains what is awaited. No server keeps it, so any server answers any poll, and its ID
//! gives no permission: each poll is a call of the tool by its caller.

use jiff::Timestamp;
use rmcp::model::{
    CallToolResponse, CallToolResult, CreateTaskResult, DetailedTask, ErrorData, GetTaskResult, Task, TaskPayload,
    TaskStatus,
};
use serde_json::Value;

use crate::context::Context;
use crate::failure::Failure;
use crate::tools::wait::{Polled, Wait};

/// Recommended time between polls in milliseconds.
const POLL_INTERVAL_MS: u64 = 2_000;

/// Most characters of an ID. Those of jobs and projects are bounded.
const MAX_ID: usize = 4_096;

/// Starts a wait with the arguments of a call: its result if there is nothing to wait for, or else a task.
pub(crate) async fn start(context: Context, arguments: Value) -> Result<CallToolResponse, Failure> {
    let mut wait = Wait::new(arguments)?;
    let polled = wait.poll(&context).await?;
    if polled.is_over {
        return Ok(completed(&polled)?.into());
    }
    Ok(CallToolResponse::Task(CreateTaskResult::new(task(&wait, &polled)?)))
}

/// State of the task `id`.
///
/// # Errors
/// If this server has issued no such ID.
pub(crate) async fn get(context: Context, id: &str) -> Result<GetTaskResult, ErrorData> {
    let mut wait = parsed(id)?;
    let outcome = async {
        let polled = wait.poll(&context).await?;
        let result = if polled.is_over { Some(completed(&polled)?) } else { None };
        Ok::<_, Failure>((task(&wait, &polled)?, result))
    };
    let (mut task, result) = match outcome.await {
        Ok(found) => found,
        Err(failure) => {
            let created = wait.created.to_string();
            let task = Task::new(id, TaskStatus::Completed, created.clone(), created);
            (task, Some(CallToolResult::structured_error(failure.to_json())))
        }
    };
    let payload = match result.map(serde_json::to_value) {
        None => TaskPayload::Working,
        Some(Ok(Value::Object(result))) => TaskPayload::Completed { result },
        Some(_) => return Err(ErrorData::internal_error("the result cannot be written", None)),
    };
    task.task_id = id.to_owned();
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

/// Checks that `id` is that of a task, for methods without an effect: nothing runs that could be cancelled.
pub(crate) fn check(id: &str) -> Result<(), ErrorData> {
    parsed(id).map(|_| ())
}

fn parsed(id: &str) -> Result<Wait, ErrorData> {
    let text = if id.len() <= MAX_ID { hex::decode(id).ok() } else { None };
    let wait = text.and_then(|text| serde_json::from_slice(&text).ok());
    wait.ok_or_else(|| ErrorData::invalid_params("there is no such task: taskId was not issued by this server", None))
}

fn task(wait: &Wait, polled: &Polled) -> Result<Task, Failure> {
    let id = serde_json::to_vec(wait).map_err(|error| Failure::new("INTERNAL", error.to_string()))?;
    let now = Timestamp::now().to_string();
    let task = Task::new(hex::encode(id), TaskStatus::Working, wait.created.to_string(), now);
    let ttl_ms = wait.timeout_secs.saturating_mul(1_000);
    Ok(task.with_status_message(polled.message.clone()).with_ttl_ms(ttl_ms).with_poll_interval_ms(POLL_INTERVAL_MS))
}

fn completed(polled: &Polled) -> Result<CallToolResult, Failure> {
    let result = serde_json::to_value(&polled.waited);
    Ok(CallToolResult::structured(result.map_err(|error| Failure::new("INTERNAL", error.to_string()))?))
}
