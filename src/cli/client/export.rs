//! `tunesmith export`: a job or study, with its trials, for other tools.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

use super::export_source::Exported;
use super::study_target::StudyArgs;
use crate::cli::output::{notice, print};
use crate::cli::results::replace_file;
use crate::tracking::recommend;
use tunesmith_tracking::mlflow::{MlflowRuns, Operator, RunIds, TrackingServer, TrackingUri};
use tunesmith_tracking::tensorboard::EventFiles;
use tunesmith_tracking::{Destination, SubjectSource, Synchronization, TrackingError, optuna_journal};

/// Passes until a subject that other processes export, too, has all its runs once.
const MAX_PASSES: usize = 3;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ExportCommand {
    /// Send a job or study to an MLflow server, as a run with a child run for each trial. Sending again adds only what is
    /// missing.
    ///
    /// Credentials are read from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or from MLFLOW_TRACKING_TOKEN;
    /// certificates to trust from the file MLFLOW_TRACKING_SERVER_CERT_PATH.
    Mlflow(MlflowArgs),
    /// Write a job or study as event files, for TensorBoard's HParams page. Writing again adds only what is missing.
    Tensorboard(TensorboardArgs),
    /// Write a job or study as a journal file of Optuna, which JournalStorage opens: with curves, failures and trials that were
    /// stopped early, which are pruned there.
    Optuna(OptunaExportArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct OptunaExportArgs {
    #[command(flatten)]
    of: StudyArgs,
    /// Journal file to write. It must not exist: a journal is a sequence of changes.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: PathBuf,
    /// Name of the study in Optuna. By default, the name of the job or study.
    #[arg(long, value_name = "NAME")]
    study_name: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct MlflowArgs {
    #[command(flatten)]
    of: StudyArgs,
    /// Address of the MLflow server, such as http://127.0.0.1:5000. By default MLFLOW_TRACKING_URI.
    #[arg(long, value_name = "URI", env = "MLFLOW_TRACKING_URI", hide_env_values = true)]
    tracking_uri: Option<String>,
    /// Name of the experiment, which is created if it does not exist. By default, the project.
    #[arg(long, value_name = "NAME")]
    experiment: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TensorboardArgs {
    #[command(flatten)]
    of: StudyArgs,
    /// Folder for the event files. Those of the job or study are in a folder with its name; files of others stay.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    output: PathBuf,
}

pub(super) async fn run(command: ExportCommand) -> anyhow::Result<ExitCode> {
    match command {
        ExportCommand::Mlflow(args) => mlflow(args).await?,
        ExportCommand::Tensorboard(args) => tensorboard(args).await?,
        ExportCommand::Optuna(args) => optuna(args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn mlflow(args: MlflowArgs) -> anyhow::Result<()> {
    let text = args.tracking_uri.filter(|uri| !uri.is_empty());
    let uri = TrackingUri::new(&text.context("--tracking-uri: give the address of the MLflow server")?)
        .context("--tracking-uri")?;
    let exported = Exported::open(&args.of).await?;
    let experiment = args.experiment.unwrap_or_else(|| exported.project.clone());
    // The caller is the operator of the server that the caller names.
    let operator = Operator::of_environment(true).with_uri(uri.clone());
    let server = TrackingServer::new(uri.clone(), &operator)?;
    let runs = MlflowRuns::new(server, experiment.clone(), Arc::<RunIds>::default());
    let what = exported.name();
    let synchronization = send(exported, runs).await?;
    let runs = synchronization.destination();
    print(&format!(
        "exported {what} with {} trials to experiment {experiment:?} of {uri}: run {}\n",
        runs.trial_count(),
        runs.parent().unwrap_or_default()
    ))?;
    Ok(())
}

async fn tensorboard(args: TensorboardArgs) -> anyhow::Result<()> {
    let exported = Exported::open(&args.of).await?;
    if exported.subject.study.is_none() {
        bail!("{} has no hyperparameters, and so no trials to show", exported.name());
    }
    let files = EventFiles::new(&args.output, &exported.subject.name);
    let (what, folder) = (exported.name(), args.output.join(&exported.subject.name));
    send(exported, files).await?;
    print(&format!("exported {what} to {}\n", folder.display()))?;
    Ok(())
}

async fn optuna(args: OptunaExportArgs) -> anyhow::Result<()> {
    let path = &args.output;
    if path.symlink_metadata().is_ok() {
        bail!("{} exists; give the name of a new file", path.display());
    }
    let exported = Exported::open(&args.of).await?;
    let Some(study) = &exported.subject.study else {
        bail!("{} has no hyperparameters, and so no trials to write", exported.name());
    };
    let name = args.study_name.unwrap_or_else(|| exported.subject.name.clone());
    let mut journal = Vec::new();
    let summary = optuna_journal(&*exported.store, study, &name, &mut journal).await?;
    replace_file(path, |file| Ok(file.write_all(&journal)?))?;
    if summary.left_out > 0 {
        notice(&format!("warning: left out: {} reports without a finite value", summary.left_out));
    }
    print(&format!(
        "exported {} with {} trials to study {name:?} in {}\n",
        exported.name(),
        summary.trials,
        path.display()
    ))?;
    Ok(())
}

/// Sends everything to `destination`.
async fn send<D: Destination>(exported: Exported, destination: D) -> Result<Synchronization<D>, TrackingError> {
    let has_ended = exported.subject.outcome.is_some();
    let source = SubjectSource::Fixed(Box::new(exported.subject));
    let mut synchronization = Synchronization::new(exported.store, source, destination, recommend(), 0);
    for _ in 0..MAX_PASSES {
        if synchronization.pass().await?.is_complete || !has_ended {
            break;
        }
    }
    Ok(synchronization)
}
