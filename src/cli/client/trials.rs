//! `tunesmith trials`: trials of studies and jobs.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::folder::Purpose;
use super::format::{Format, ListOutputArgs, show};
use super::measurement::MeasurementArgs;
use super::study_target::{StudyArgs, checked};
use super::trial_create::{self, CreateArgs};
use super::trials_text::{csv, describe, parquet, sort, table};
use crate::cli::output::print;
use tunesmith_api::ai_platform::optimizer::{
    CompleteTrialRequest, OperationResponse, SuggestTrialsRequest, TrialMessage,
};
use tunesmith_client::Resource;
use tunesmith_domain::StudyState;
use tunesmith_files::create_for_user;

/// Polling interval of an operation.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TrialsCommand {
    /// List the trials of a study or a job.
    List(ListArgs),
    /// Print a trial.
    Describe(OneArgs),
    /// Request trials. A client's unfinished trials are returned first.
    Suggest(SuggestArgs),
    /// Add a user-supplied trial. In a job, it runs next.
    Create(CreateArgs),
    /// Report a measurement of a running trial.
    AddMeasurement(AddMeasurementArgs),
    /// Report the result of a trial.
    Complete(CompleteArgs),
    /// Stop a trial: its client is asked to stop, or the job's program ends. The result is taken from its measurements
    /// so far.
    Stop(OneArgs),
    /// Delete a trial. Later suggestions ignore it.
    Delete(OneArgs),
    /// Export all trials of a study or a job.
    Export(ExportArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    #[command(flatten)]
    of: StudyArgs,
    /// List only the best trial; with several metrics, the Pareto-optimal trials, sorted by the first metric.
    #[arg(long)]
    optimal: bool,
    /// List only trials that match this filter, such as "state = SUCCEEDED AND parameters.learning_rate < 0.01".
    #[arg(long, value_name = "EXPRESSION", conflicts_with = "optimal")]
    filter: Option<String>,
    /// Fields to sort by, such as metric.loss, ~parameters.learning_rate or state; ~ sorts in descending order. By
    /// number by default.
    #[arg(long, value_name = "[~]FIELD", value_delimiter = ',')]
    sort_by: Vec<String>,
    #[command(flatten)]
    output: ListOutputArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct OneArgs {
    /// Number of the trial, as listed.
    trial: String,
    #[command(flatten)]
    of: StudyArgs,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Yaml)]
    format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SuggestArgs {
    #[command(flatten)]
    of: StudyArgs,
    /// ID of the client.
    #[arg(long, value_name = "ID")]
    client_id: String,
    /// Number of trials.
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u32,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct AddMeasurementArgs {
    /// Number of the trial, as listed.
    trial: String,
    #[command(flatten)]
    of: StudyArgs,
    #[command(flatten)]
    measurement: MeasurementArgs,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CompleteArgs {
    /// Number of the trial, as listed.
    trial: String,
    #[command(flatten)]
    of: StudyArgs,
    /// Without a metric, the study selects the result from the reported measurements.
    #[command(flatten)]
    measurement: MeasurementArgs,
    /// Mark the trial as infeasible: it has no result, and its values are not tried again.
    #[arg(long, conflicts_with = "metrics")]
    infeasible: bool,
    /// Reason for the infeasibility.
    #[arg(long, value_name = "TEXT", requires = "infeasible")]
    reason: Option<String>,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    #[command(flatten)]
    of: StudyArgs,
    /// File format. `tunesmith bench --replay` reads CSV.
    #[arg(long, value_enum, default_value_t = ExportFormat::Csv)]
    format: ExportFormat,
    /// Output file. By default, standard output.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    Csv,
    Json,
    /// Columns with types, for pandas, Polars, DuckDB and Spark. Needs --output.
    Parquet,
}

pub(super) async fn run(command: TrialsCommand) -> anyhow::Result<ExitCode> {
    match command {
        TrialsCommand::List(args) => list_trials(&args).await?,
        TrialsCommand::Describe(args) => {
            show_trial(&args.format, &args.of.open(Purpose::Look).await?.trial(&args.trial).await?)?;
        }
        TrialsCommand::Suggest(args) => suggest(&args).await?,
        TrialsCommand::Create(args) => trial_create::create(&args).await?,
        TrialsCommand::AddMeasurement(args) => {
            let study = args.of.open(Purpose::Change).await?;
            let measurement = args.measurement.message();
            show_trial(&args.format, &study.client.add_measurement(checked(&args.trial)?, measurement).await?)?;
        }
        TrialsCommand::Complete(args) => complete(&args).await?,
        TrialsCommand::Stop(args) => {
            show_trial(&args.format, &args.of.open(Purpose::Change).await?.stop(&args.trial).await?)?;
        }
        TrialsCommand::Delete(args) => {
            let study = args.of.open(Purpose::Change).await?;
            let answer = study.client.delete_trial(checked(&args.trial)?).await?;
            show(&args.format, &answer, || format!("trial {} is deleted\n", args.trial))?;
        }
        TrialsCommand::Export(args) => export(&args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn show_trial(format: &Format, trial: &Resource<TrialMessage>) -> anyhow::Result<()> {
    show(format, &trial.json, || describe(trial))
}

async fn list_trials(args: &ListArgs) -> anyhow::Result<()> {
    let study = args.of.open(Purpose::Look).await?;
    let list = match args.optimal {
        true => study.client.optimal_trials().await?,
        false => study.client.trials(args.filter.as_deref().unwrap_or_default()).await?,
    };
    let trials = sort(list.message.trials, &args.sort_by)?;
    let trials = args.output.first(trials);
    let config = match args.output.format {
        Format::Table => study.client.get().await?.study_config.known().unwrap_or_default(),
        Format::Yaml | Format::Json | Format::Projection(_) => Default::default(),
    };
    args.output.show(&trials, |layout| table(&trials, &config, layout))
}

async fn suggest(args: &SuggestArgs) -> anyhow::Result<()> {
    let study = args.of.open(Purpose::Change).await?;
    let request = SuggestTrialsRequest {
        client_id: args.client_id.clone(),
        suggestion_count: i32::try_from(args.count).unwrap_or(i32::MAX),
        ..SuggestTrialsRequest::default()
    };
    let mut operation = match study.client.suggest(&request).await {
        Err(error) if error.is_study_completed() => {
            return show(&args.format, &json!({"studyState": "COMPLETED"}), || none_left(StudyState::Completed));
        }
        answer => answer?,
    };
    while !operation.done {
        tokio::time::sleep(POLL_INTERVAL).await;
        operation = study.client.operation(&operation.name).await?;
    }
    if let Some(error) = &operation.error {
        bail!("no suggestion was made: {}", error.message);
    }
    let Some(OperationResponse::Suggest(answer)) = &operation.response else {
        bail!("no suggestion was made: operation {} has another response", operation.name);
    };
    show(&args.format, &operation.json["response"], || match answer.trials.as_deref().unwrap_or_default() {
        [] => none_left(answer.study_state.into()),
        trials => trials.iter().map(describe).collect(),
    })
}

fn none_left(state: StudyState) -> String {
    format!("no trials are left: the study is {state}\n")
}

async fn complete(args: &CompleteArgs) -> anyhow::Result<()> {
    let outcome = CompleteTrialRequest {
        final_measurement: args.measurement.message_if_given(),
        trial_infeasible: args.infeasible,
        infeasible_reason: args.reason.clone().unwrap_or_default(),
    };
    let study = args.of.open(Purpose::Change).await?;
    show_trial(&args.format, &study.client.complete(checked(&args.trial)?, &outcome).await?)
}

async fn export(args: &ExportArgs) -> anyhow::Result<()> {
    if args.format == ExportFormat::Parquet && args.output.is_none() {
        bail!("--format parquet: give the file with --output");
    }
    let study = args.of.open(Purpose::Look).await?;
    let mut list = study.client.trials("").await?;
    let recommended = study.client.recommended().await?;
    let text = match args.format {
        ExportFormat::Csv => csv(&list.trials, recommended.and_then(|found| found.trial))?.into_bytes(),
        ExportFormat::Parquet => parquet(&list.trials, recommended.and_then(|found| found.trial))?,
        ExportFormat::Json => {
            if let Some(recommended) = recommended {
                list.json["recommended"] = recommended.json;
            }
            format!("{}\n", serde_json::to_string_pretty(&list.json)?).into_bytes()
        }
    };
    match &args.output {
        Some(path) => create_for_user(path)
            .and_then(|mut file| file.write_all(&text))
            .with_context(|| format!("{} cannot be written", path.display())),
        None => Ok(print(std::str::from_utf8(&text)?)?),
    }
}
