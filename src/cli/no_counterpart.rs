//! gcloud commands without a counterpart, and the reasons.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};

/// Page about migrating from gcloud.
const PAGE: &str = "docs/guide/from-ai-platform.md";

/// Commands of `gcloud ai-platform` for deployed models, and `gcloud config`.
#[derive(Debug, Subcommand)]
pub(super) enum NoCounterpart {
    /// Models for prediction. No counterpart.
    #[command(hide = true)]
    Models(AnyArgs),
    /// Versions of models. No counterpart.
    #[command(hide = true)]
    Versions(AnyArgs),
    /// Online prediction. No counterpart.
    #[command(hide = true)]
    Predict(AnyArgs),
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
        NoCounterpart::Models(args) => no_prediction("models", args),
        NoCounterpart::Versions(args) => no_prediction("versions", args),
        NoCounterpart::Predict(args) => no_prediction("predict", args),
        NoCounterpart::Operations(_) => bail!(
            "no command \"operations\": only deployments of models had operations here; a job has its state in \
             `tunesmith jobs describe` ({PAGE})"
        ),
        NoCounterpart::Config(_) => bail!(
            "no command \"config\": set TUNESMITH_PROJECT, TUNESMITH_SERVER and TUNESMITH_ACCESS_TOKEN in the environment, \
             or give --project and --server ({PAGE})"
        ),
    }
}

/// Explains that models are not deployed, and where to find them.
///
/// # Errors
/// Always.
pub(super) fn no_prediction(name: &str, args: &AnyArgs) -> anyhow::Result<ExitCode> {
    bail!(
        "no command {:?}: tunesmith trains and tunes, but does not serve predictions; the models of a job are in its \
         job-dir, one folder for each trial ({PAGE})",
        [&[name.to_owned()], &args.arguments[..]].concat().join(" ")
    )
}
