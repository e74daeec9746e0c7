//! `tunesmith studies`: studies whose trials are run by clients.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::folder::Purpose;
use super::format::{Format, columns, show, show_list, sort_by};
use super::request::{last_segment, list, text};
use super::target::{LocationArgs, TargetArgs};
use crate::cli::table::TableArgs;
use crate::cli::trial_count::TrialCount;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum StudiesCommand {
    /// Create a study.
    Create(CreateArgs),
    /// List the studies of a project.
    List(ListArgs),
    /// Print a study.
    Describe(OneArgs),
    /// Raise the maximum number of trials of a study. A completed study goes on, with the knowledge of its trials.
    Extend(ExtendArgs),
    /// Delete a study with all its trials.
    Delete(OneArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CreateArgs {
    /// Name of the study.
    study: String,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    location: LocationArgs,
    /// File with the studyConfig, in YAML or JSON; the key studyConfig may be left out.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,
    /// Output format: table, yaml, json, or a format of gcloud such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Location of the studies, as in their names; - for all.
    #[arg(long, alias = "location", value_name = "REGION", default_value = "-")]
    region: String,
    /// Fields to sort by, such as ~createTime, where ~ sorts in descending order. By name by default.
    #[arg(long, value_name = "[~]FIELD", value_delimiter = ',')]
    sort_by: Vec<String>,
    /// Maximum number of studies.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// List only studies that this filter accepts, such as "state = ACTIVE AND studyId:census*".
    #[arg(long, value_name = "EXPRESSION", default_value = "")]
    filter: String,
    /// Output format: table, yaml, json, or a format of gcloud such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    table: TableArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct OneArgs {
    /// Name of the study.
    study: String,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    location: LocationArgs,
    /// Output format: table, yaml, json, or a format of gcloud such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Yaml)]
    format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExtendArgs {
    /// Name of the study.
    study: String,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    location: LocationArgs,
    /// Number of trials: 20 for twenty in all, +10 for ten more.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    trials: TrialCount,
    /// Output format: table, yaml, json, or a format of gcloud such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

/// Runs the command.
pub(super) async fn run(command: StudiesCommand) -> anyhow::Result<ExitCode> {
    match command {
        StudiesCommand::Create(args) => create(&args).await?,
        StudiesCommand::List(args) => list_studies(&args).await?,
        StudiesCommand::Describe(args) => describe(&args).await?,
        StudiesCommand::Extend(args) => extend(&args).await?,
        StudiesCommand::Delete(args) => delete(&args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn create(args: &CreateArgs) -> anyhow::Result<()> {
    let name = args.config.display();
    let config = std::fs::read_to_string(&args.config).with_context(|| format!("{name} cannot be read"))?;
    let config: Value = yaml_serde::from_str(&config).with_context(|| format!("{name} is neither YAML nor JSON"))?;
    let body = if config.get("studyConfig").is_some() { config } else { json!({ "studyConfig": config }) };
    let client = args.target.client(Purpose::Add).await?;
    let path = client.path(&["locations", &args.location.region, "studies"]);
    let study = client.post(&path, &[("studyId", &args.study)], body).await?;
    show(&args.format, &study, || format!("study {} is {}\n", args.study, text(&study, "state")))
}

async fn list_studies(args: &ListArgs) -> anyhow::Result<()> {
    let client = args.target.client(Purpose::Look).await?;
    let path = client.path(&["locations", &args.region, "studies"]);
    let mut answer = client.get(&path, &[("filter", &args.filter)]).await?;
    let mut studies = list(&answer, "studies").to_vec();
    sort_by(&mut studies, &args.sort_by, "study")?;
    studies.truncate(args.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX));
    answer["studies"] = Value::Array(studies);
    show_list(&args.format, &answer, "studies", || {
        let row = |study: &Value| {
            let metrics = list(&study["studyConfig"], "metrics").iter();
            let metrics: Vec<String> =
                metrics.map(|metric| format!("{} {}", text(metric, "goal"), text(metric, "metric"))).collect();
            vec![
                last_segment(text(study, "name")).to_owned(),
                text(study, "name").split('/').nth(3).unwrap_or_default().to_owned(),
                text(study, "state").to_owned(),
                text(study, "createTime").to_owned(),
                metrics.join(", "),
            ]
        };
        let header = ["STUDY_ID", "LOCATION", "STATE", "CREATED", "METRICS"];
        columns(&header, list(&answer, "studies").iter().map(row), &args.table.layout())
    })
}

async fn describe(args: &OneArgs) -> anyhow::Result<()> {
    let client = args.target.client(Purpose::Look).await?;
    let study = client.get(&client.path(&["locations", &args.location.region, "studies", &args.study]), &[]).await?;
    show(&args.format, &study, || format!("study {} is {}\n", args.study, text(&study, "state")))
}

async fn extend(args: &ExtendArgs) -> anyhow::Result<()> {
    let client = args.target.client(Purpose::Change).await?;
    let path = client.path(&["locations", &args.location.region, "studies", &args.study]);
    let study = client.get(&path, &[]).await?;
    let count = &study["studyConfig"]["tunesmith"]["maxTrials"];
    let now = count.as_u64().or_else(|| count.as_str()?.parse().ok());
    let Some(now) = now else { bail!("study {} has no maximum number of trials to raise", args.study) };
    let total = args.trials.total(now);
    let change = json!({"studyConfig": {"tunesmith": {"maxTrials": total.to_string()}}});
    let study = client.patch(&path, &[("updateMask", "studyConfig.tunesmith.maxTrials")], change).await?;
    show(&args.format, &study, || {
        format!("study {} is {}, with up to {total} trials\n", args.study, text(&study, "state"))
    })
}

async fn delete(args: &OneArgs) -> anyhow::Result<()> {
    let client = args.target.client(Purpose::Change).await?;
    let path = client.path(&["locations", &args.location.region, "studies", &args.study]);
    let answer = client.delete(&path).await?;
    show(&args.format, &answer, || format!("study {} is deleted\n", args.study))
}
