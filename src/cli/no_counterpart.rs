//! gcloud commands without a counterpart, and the reasons.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};

/// Page about migrating from gcloud.
const PAGE: &str = "docs/guide/from-ai-platform.md";

/// Commands of `gcloud ai-platform` for operations, and `gcloud config`.
#[derive(Debug, Subcommand)]
pub(super) enum NoCounterpart {
    /// Long-running operations. No counterpart.
    #[command(hide = true)]
    Operations(AnyArgs),
    /// Settings of gcloud. No counterpart.
    #[command(hide = true)]
    Config(AnyArgs),
}

#[derive(Debug, Args)]
pub(super) struct AnyArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
    arguments: Vec<String>,
}

/// Names an alternative to the command.
///
/// # Errors
/// Always.
pub(super) fn refuse(command: &NoCounterpart) -> anyhow::Result<ExitCode> {
    match command {
        NoCounterpart::Operations(_) => bail!(
            "no command \"operations\": `tunesmith versions create` waits for its operation; a job has its state in \
             `tunesmith jobs describe` ({PAGE})"
        ),
        NoCounterpart::Config(_) => bail!(
            "no command \"config\": set TUNESMITH_PROJECT, TUNESMITH_SERVER and TUNESMITH_ACCESS_TOKEN in the environment, \
             or give --project and --server ({PAGE})"
        ),
    }
}
