//! Commands that talk to the service: over HTTP to a server, or to a data folder, whose service then answers in this
//! process. Both get the same requests and give the same answers.

mod error;
mod folder;
mod format;
mod http;
mod job_labels;
mod jobs;
mod log_stream;
mod measurement;
mod packages;
mod request;
mod studies;
mod submit;
mod submit_flags;
mod target;
mod trial_create;
mod trial_view;
mod trials;

use std::process::ExitCode;

use self::error::ClientError;
pub(super) use self::jobs::JobsCommand;
pub(super) use self::studies::StudiesCommand;
pub(super) use self::trials::TrialsCommand;
use super::progress::say;

/// A command of the client.
pub(super) enum Command {
    /// `tunesmith jobs`.
    Jobs(JobsCommand),
    /// `tunesmith studies`.
    Studies(StudiesCommand),
    /// `tunesmith trials`.
    Trials(TrialsCommand),
}

/// Carries the command out.
pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        match command {
            Command::Jobs(command) => jobs::run(command).await,
            Command::Studies(command) => studies::run(command).await,
            Command::Trials(command) => trials::run(command).await,
        }
    });
    // Suggestions that are being prepared need not be waited for.
    runtime.shutdown_background();
    let error = match outcome {
        Ok(code) => return Ok(code),
        Err(error) => error,
    };
    let Some(told) = error.downcast_ref::<ClientError>() else { return Err(error) };
    for line in told.to_string().lines() {
        say(&format!("error: {line}"));
    }
    Ok(ExitCode::from(told.exit_code()))
}
