//! Commands that send requests to the service: to a server over HTTP, or to the service on a data folder in this
//! process.
//! Requests and responses are the same.

mod error;
mod folder;
mod format;
mod http;
mod job_labels;
mod job_list;
mod job_name;
mod job_reopen;
mod job_state;
mod jobs;
mod log_stream;
mod measurement;
mod notices;
mod packages;
mod read_back;
mod request;
mod service;
mod studies;
mod study_target;
mod submit;
mod submit_flags;
mod target;
mod trial_create;
mod trial_view;
mod trials;
mod upload_body;

use std::process::ExitCode;

use axum::body::Bytes;

use self::error::ClientError;
use self::folder::Purpose;
pub(super) use self::job_labels::label;
pub(super) use self::jobs::JobsCommand;
pub(super) use self::studies::StudiesCommand;
pub(super) use self::submit_flags::{FLAGS as TRAINING_FLAGS, TrainingFlags};
pub(super) use self::target::{LocationArgs, TargetArgs};
pub(super) use self::trials::TrialsCommand;
use super::output::notice;
use super::results::Results;
use tunesmith_domain::{JobId, Study, Trial};

/// A command of the client.
pub(super) enum Command {
    /// `tunesmith jobs`.
    Jobs(JobsCommand),
    /// `tunesmith studies`.
    Studies(StudiesCommand),
    /// `tunesmith trials`.
    Trials(TrialsCommand),
}

/// Runs the command.
pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        match command {
            Command::Jobs(command) => jobs::run(command).await,
            Command::Studies(command) => studies::run(command).await,
            Command::Trials(command) => trials::run(command).await,
        }
    });
    // Does not wait for suggestions that are computed ahead.
    runtime.shutdown_background();
    outcome.or_else(report)
}

/// Reads a job with its trials. `location` is that of a study to propose if it is no job.
pub(super) async fn job_results(target: &TargetArgs, location: &LocationArgs, job: &JobId) -> anyhow::Result<Results> {
    let client = target.client_in(target.project_of(job), Purpose::Look).await?;
    let job = job_name::find_job_not_study(&client, &location.region, job).await?;
    read_back::job_results(&client, &job).await
}

/// Reads the report of a job as HTML, with the ID of the job. `location` is that of a study to propose if it is no job.
pub(super) async fn job_report(
    target: &TargetArgs,
    location: &LocationArgs,
    job: &JobId,
) -> anyhow::Result<(String, Bytes)> {
    let client = target.client_in(target.project_of(job), Purpose::Look).await?;
    let job = job_name::find_job_not_study(&client, &location.region, job).await?;
    let id = request::text(&job, "jobId").to_owned();
    let page = client.page(&["jobs", &id, "report"]).await?;
    Ok((id, page))
}

/// Reads the report of a study as HTML.
pub(super) async fn study_report(target: &TargetArgs, location: &LocationArgs, study: &str) -> anyhow::Result<Bytes> {
    let client = target.client(Purpose::Look).await?;
    Ok(client.page(&["locations", &location.region, "studies", study, "report"]).await?)
}

/// Reads a study with its trials.
pub(super) async fn study_trials(
    target: &TargetArgs,
    location: &LocationArgs,
    study: &str,
) -> anyhow::Result<(Study, Vec<Trial>)> {
    let client = target.client(Purpose::Look).await?;
    read_back::study_trials(&client, &location.region, study).await
}

/// Prints the error of a request, and returns its exit code. Returns other errors.
pub(super) fn report(error: anyhow::Error) -> anyhow::Result<ExitCode> {
    let Some(client_error) = error.downcast_ref::<ClientError>() else { return Err(error) };
    for line in client_error.to_string().lines() {
        notice(&format!("error: {line}"));
    }
    Ok(ExitCode::from(client_error.exit_code()))
}
