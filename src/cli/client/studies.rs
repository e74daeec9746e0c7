//! `tunesmith studies`: studies with client-run trials.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::folder::Purpose;
use super::format::{Format, ListOutputArgs, show, sort_by};
use super::target::{LocationArgs, TargetArgs};
use crate::cli::trial_count::TrialCount;
use tunesmith_api::ai_platform::optimizer::{StudyConfig, StudyMessage, StudyRequest};
use tunesmith_api::ai_platform::{GoalType, Int64};
use tunesmith_client::Resource;
use tunesmith_domain::StudyState;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum StudiesCommand {
    /// Create a study.
    Create(CreateArgs),
    /// List the studies of a project.
    List(ListArgs),
    /// Print a study.
    Describe(OneArgs),
    /// Raise the maximum number of trials of a study. A completed study continues, using its previous trials.
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
    /// File with the studyConfig, in YAML or JSON; the top-level key studyConfig is optional.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Location in the names of the studies; - for all.
    #[arg(long, alias = "location", value_name = "REGION", default_value = "-")]
    region: String,
    /// Fields to sort by, such as ~createTime; ~ sorts in descending order. By name by default.
    #[arg(long, value_name = "[~]FIELD", value_delimiter = ',')]
    sort_by: Vec<String>,
    /// List only studies that match this filter, such as "state = ACTIVE AND studyId:census*".
    #[arg(long, value_name = "EXPRESSION", default_value = "")]
    filter: String,
    #[command(flatten)]
    output: ListOutputArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct OneArgs {
    /// Name of the study.
    study: String,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    location: LocationArgs,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)".
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
    /// Number of trials: 20 for twenty in total, +10 for ten more.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    trials: TrialCount,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

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
    let service = args.target.service(Purpose::Add).await?;
    let study = service.create_study(&args.location.region, &args.study, &body).await?;
    show(&args.format, &study.json, || state_line(&args.study, &study))
}

async fn list_studies(args: &ListArgs) -> anyhow::Result<()> {
    let service = args.target.service(Purpose::Look).await?;
    let mut studies = service.studies(&args.region, &args.filter).await?;
    sort_by(&mut studies, &args.sort_by, "study", |study| &study.json)?;
    let row = |study: &Resource<StudyMessage>| {
        let metrics = study.study_config.known().unwrap_or_default().metrics;
        let metrics: Vec<String> =
            metrics.iter().map(|metric| format!("{} {}", goal_name(metric.goal), metric.metric)).collect();
        let segments: Vec<&str> = study.name.split('/').collect();
        let segment = |at: usize| segments.get(at).copied().unwrap_or_default().to_owned();
        let created = study.create_time.to_string();
        vec![segment(5), segment(3), StudyState::from(study.state).to_string(), created, metrics.join(", ")]
    };
    args.output.show_rows(studies, &["STUDY_ID", "LOCATION", "STATE", "CREATED", "METRICS"], row)
}

fn goal_name(goal: GoalType) -> &'static str {
    match goal {
        GoalType::Maximize => "MAXIMIZE",
        GoalType::Minimize => "MINIMIZE",
        GoalType::GoalTypeUnspecified => "",
    }
}

fn state_line(name: &str, study: &StudyMessage) -> String {
    format!("study {name} is {}\n", StudyState::from(study.state))
}

async fn describe(args: &OneArgs) -> anyhow::Result<()> {
    let service = args.target.service(Purpose::Look).await?;
    let study = service.study(&args.location.region, &args.study).get().await?;
    show(&args.format, &study.json, || state_line(&args.study, &study))
}

async fn extend(args: &ExtendArgs) -> anyhow::Result<()> {
    let service = args.target.service(Purpose::Change).await?;
    let client = service.study(&args.location.region, &args.study);
    let count = client.get().await?.study_config.known()?.tunesmith.max_trials;
    let Some(now) = count.and_then(|count| u64::try_from(count.0).ok()) else {
        bail!("study {} has no maximum number of trials to raise", args.study);
    };
    let total = args.trials.total(now);
    let mut config = StudyConfig::default();
    config.tunesmith.max_trials = Some(Int64(total.cast_signed()));
    let mut change = StudyRequest::default();
    change.study_config = Some(config);
    let study = client.update("studyConfig.tunesmith.maxTrials", &change).await?;
    show(&args.format, &study.json, || {
        format!("study {} is {}, with up to {total} trials\n", args.study, StudyState::from(study.state))
    })
}

async fn delete(args: &OneArgs) -> anyhow::Result<()> {
    let service = args.target.service(Purpose::Change).await?;
    let answer = service.study(&args.location.region, &args.study).delete().await?;
    show(&args.format, &answer, || format!("study {} is deleted\n", args.study))
}
