//! Exit codes of the client commands, and errors in job names.

use std::process::ExitCode;

use crate::cli::BAD_INPUT;
use crate::cli::output::notice;
use tunesmith_client::ClientError;

/// A job name that matches no single job.
#[derive(Debug, thiserror::Error)]
pub(super) enum JobNameError {
    #[error(
        "job {given} does not exist{}",
        .similar.as_ref().map(|id| format!("; did you mean {id:?}?")).unwrap_or_default()
    )]
    Unknown { given: String, similar: Option<String> },
    #[error(
        "job {name} does not exist; for the study of this name: --study {name}{}",
        .location.as_ref().map(|location| format!(" --region {location}")).unwrap_or_default()
    )]
    Study {
        name: String,
        /// Location of the study, unless it is the default.
        location: Option<String>,
    },
    /// An ambiguous prefix of several job IDs.
    #[error("several jobs start with {given:?}: {matching}; give more of the name")]
    Ambiguous { given: String, matching: String },
    #[error(transparent)]
    Request(#[from] ClientError),
}

/// Prints a failed request and returns its exit code; passes other errors through.
pub(in crate::cli) fn report(error: anyhow::Error) -> anyhow::Result<ExitCode> {
    let request = match error.downcast_ref::<JobNameError>() {
        Some(JobNameError::Request(error)) => Some(error),
        _ => error.downcast_ref::<ClientError>(),
    };
    let Some(request) = request else { return Err(error) };
    for line in request.to_string().lines() {
        notice(&format!("error: {line}"));
    }
    Ok(ExitCode::from(exit_code(request)))
}

/// Returns 2 for invalid input, otherwise 1.
fn exit_code(error: &ClientError) -> u8 {
    match error {
        ClientError::Refused(refusal) => match refusal.code.as_str() {
            "INVALID_ARGUMENT" | "NOT_FOUND" | "ALREADY_EXISTS" | "UNIMPLEMENTED" => BAD_INPUT,
            _ => 1,
        },
        ClientError::NoPage { status: 400 | 404, .. } => BAD_INPUT,
        _ => 1,
    }
}
