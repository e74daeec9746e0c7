//! `tunesmith trials`: the trials of studies and of jobs.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use super::folder::Purpose;
use super::format::{Format, show, show_list};
use super::measurement::MeasurementArgs;
use super::request::{list, text};
use super::study_target::StudyArgs;
use super::trial_create::{self, CreateArgs};
use super::trial_view;
use crate::cli::output::print;
use crate::cli::table::TableArgs;
use tunesmith_files::create_for_user;

/// Interval between two reads of an operation.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TrialsCommand {
    /// List the trials of a study or a job.
    List(ListArgs),
    /// Print a trial.
    Describe(OneArgs),
    /// Request trials. A client gets its unfinished trials again.
    Suggest(SuggestArgs),
    /// Add a user-supplied trial. That of a job runs next.
    Create(CreateArgs),
    /// Report a measurement of a running trial.
    AddMeasurement(AddMeasurementArgs),
    /// Report the result of a trial.
    Complete(CompleteArgs),
    /// Stop a trial: its client is asked to stop, or the program of a job ends. Its measurements so far give the result.
    Stop(OneArgs),
    /// Delete a trial. Later suggestions do not take it into account.
    Delete(OneArgs),
    /// Export all trials of a study or a job.
    Export(ExportArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    #[command(flatten)]
    of: StudyArgs,
    /// List only the best trial; with several metrics, the Pareto-optimal trials, best first by the first metric.
    #[arg(long)]
    optimal: bool,
    /// List only trials that this filter accepts, such as "state = SUCCEEDED AND parameters.learning_rate < 0.01".
    #[arg(long, value_name = "EXPRESSION", conflicts_with = "optimal")]
    filter: Option<String>,
    /// Fields to sort by, such as metric.loss, ~parameters.learning_rate or state, where ~ sorts in descending order. By
    /// number by default.
    #[arg(long, value_name = "[~]FIELD", value_delimiter = ',')]
    sort_by: Vec<String>,
    /// Maximum number of trials.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Output format: table, yaml, json, or a format of gcloud such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    table: TableArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct OneArgs {
    /// Number of the trial, as listed.
    trial: String,
    #[command(flatten)]
    of: StudyArgs,
    /// Output format: table, yaml, json, or a format of gcloud such as "value(state)".
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
    /// Output format: table, yaml, json, or a format of gcloud such as "value(state)".
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
    /// Output format: table, yaml, json, or a format of gcloud such as "value(state)".
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
    /// Reason why it is infeasible.
    #[arg(long, value_name = "TEXT", requires = "infeasible")]
    reason: Option<String>,
    /// Output format: table, yaml, json, or a format of gcloud such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    #[command(flatten)]
    of: StudyArgs,
    /// Format of the file. `tunesmith bench --replay` reads CSV.
    #[arg(long, value_enum, default_value_t = ExportFormat::Csv)]
    format: ExportFormat,
    /// Output file. Standard output by default.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    Csv,
    Json,
}

/// Runs the command.
pub(super) async fn run(command: TrialsCommand) -> anyhow::Result<ExitCode> {
    match command {
        TrialsCommand::List(args) => list_trials(&args).await?,
        TrialsCommand::Describe(args) => {
            let trial = args.of.open(Purpose::Look).await?.trial(&args.of, &args.trial).await?;
            show(&args.format, &trial, || trial_view::describe(&trial))?;
        }
        TrialsCommand::Suggest(args) => suggest(&args).await?,
        TrialsCommand::Create(args) => trial_create::create(&args).await?,
        TrialsCommand::AddMeasurement(args) => {
            let body = json!({ "measurement": args.measurement.message() });
            let trial = args.of.open(Purpose::Change).await?.method(&args.trial, "addMeasurement", body).await?;
            show(&args.format, &trial, || trial_view::describe(&trial))?;
        }
        TrialsCommand::Complete(args) => complete(&args).await?,
        TrialsCommand::Stop(args) => {
            let trial = args.of.open(Purpose::Change).await?.stop(&args.trial).await?;
            show(&args.format, &trial, || trial_view::describe(&trial))?;
        }
        TrialsCommand::Delete(args) => {
            let study = args.of.open(Purpose::Change).await?;
            let answer = study.client.delete(&study.trial_path(&args.trial)?).await?;
            show(&args.format, &answer, || format!("trial {} is deleted\n", args.trial))?;
        }
        TrialsCommand::Export(args) => export(&args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list_trials(args: &ListArgs) -> anyhow::Result<()> {
    let study = args.of.open(Purpose::Look).await?;
    let mut answer = if args.optimal {
        study.client.post(&format!("{}/trials:listOptimalTrials", study.path), &[], json!({})).await?
    } else {
        let filter = args.filter.as_deref().unwrap_or_default();
        study.client.get(&format!("{}/trials", study.path), &[("filter", filter)]).await?
    };
    let mut trials = list(&answer, "trials").to_vec();
    trial_view::sort(&mut trials, &args.sort_by)?;
    trials.truncate(args.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX));
    answer["trials"] = Value::Array(trials);
    let of = match args.format {
        Format::Table => study.client.get(&study.path, &[]).await?,
        Format::Yaml | Format::Json | Format::Projection(_) => Value::Null,
    };
    show_list(&args.format, &answer, "trials", || trial_view::table(list(&answer, "trials"), &of, &args.table.layout()))
}

async fn suggest(args: &SuggestArgs) -> anyhow::Result<()> {
    let study = args.of.open(Purpose::Change).await?;
    let request = json!({"clientId": args.client_id, "suggestionCount": args.count});
    let mut operation = match study.client.post(&format!("{}/trials:suggest", study.path), &[], request).await {
        Err(error) if error.is_study_completed() => json!({"done": true, "response": {"studyState": "COMPLETED"}}),
        answer => answer?,
    };
    while operation["done"] != true {
        tokio::time::sleep(POLL_INTERVAL).await;
        operation = study.client.get(&format!("/v1/{}", text(&operation, "name")), &[]).await?;
    }
    if let Some(error) = operation.get("error") {
        bail!("no suggestion was made: {}", text(error, "message"));
    }
    let answer = &operation["response"];
    show(&args.format, answer, || match list(answer, "trials") {
        [] => format!("no trials are left: the study is {}\n", text(answer, "studyState")),
        trials => trials.iter().map(trial_view::describe).collect(),
    })
}

async fn complete(args: &CompleteArgs) -> anyhow::Result<()> {
    let mut body = Map::new();
    if args.infeasible {
        body.insert("trialInfeasible".to_owned(), json!(true));
        body.extend(args.reason.iter().map(|reason| ("infeasibleReason".to_owned(), json!(reason))));
    } else if let Some(measurement) = args.measurement.message_if_given() {
        body.insert("finalMeasurement".to_owned(), measurement);
    }
    let study = args.of.open(Purpose::Change).await?;
    let trial = study.method(&args.trial, "complete", Value::Object(body)).await?;
    show(&args.format, &trial, || trial_view::describe(&trial))
}

async fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let study = args.of.open(Purpose::Look).await?;
    let mut answer = study.trials().await?;
    let recommended = study.recommended().await?;
    let text = match args.format {
        ExportFormat::Csv => trial_view::csv(list(&answer, "trials"), recommended["trial"].as_u64())?,
        ExportFormat::Json => {
            if !recommended.is_null() {
                answer["recommended"] = recommended;
            }
            format!("{}\n", serde_json::to_string_pretty(&answer)?)
        }
    };
    match &args.output {
        Some(path) => create_for_user(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("{} cannot be written", path.display())),
        None => Ok(print(&text)?),
    }
}
