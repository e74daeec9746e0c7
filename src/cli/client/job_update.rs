//! `tunesmith jobs update`: changes labels and trial counts.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::folder::Purpose;
use super::format::{Format, show};
use super::job_name::find_job_id;
use super::target::TargetArgs;
use tunesmith_api::ai_platform::job::JobRequest;
use tunesmith_api::ai_platform::{HyperparameterSpec, TrainingInput};
use tunesmith_domain::JobId;

/// Maximum attempts at an update that conflicts with other clients.
const ATTEMPTS: u32 = 5;

#[derive(Debug, Args)]
pub(in crate::cli) struct UpdateArgs {
    /// Name of the job, or a unique prefix.
    job: JobId,
    #[command(flatten)]
    target: TargetArgs,
    /// Labels to set. Other labels do not change.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    update_labels: Vec<(String, String)>,
    /// Labels to remove.
    #[arg(long, value_name = "KEY", value_delimiter = ',', conflicts_with = "clear_labels")]
    remove_labels: Vec<String>,
    /// Remove all labels before applying --update-labels.
    #[arg(long)]
    clear_labels: bool,
    /// Number of concurrent trials. Takes effect immediately in a running job: a higher number starts trials, a lower
    /// one lets running ones finish.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    max_parallel_trials: Option<i32>,
    /// Total number of trials. For an ended job, it can only be raised, and the job continues.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    max_trials: Option<i32>,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

pub(super) async fn update(args: &UpdateArgs) -> anyhow::Result<ExitCode> {
    let has_labels = !args.update_labels.is_empty() || !args.remove_labels.is_empty() || args.clear_labels;
    let counts = [("maxParallelTrials", args.max_parallel_trials), ("maxTrials", args.max_trials)];
    let counts: Vec<(&str, i32)> = counts.into_iter().filter_map(|(name, count)| Some((name, count?))).collect();
    if !has_labels && counts.is_empty() {
        bail!(
            "no change is requested: give --max-parallel-trials, --max-trials, --update-labels, --remove-labels or \
             --clear-labels"
        );
    }
    let mut mask = vec!["etag".to_owned()];
    mask.extend(has_labels.then(|| "labels".to_owned()));
    mask.extend(counts.iter().map(|(name, _)| format!("trainingInput.hyperparameters.{name}")));
    let mask = mask.join(",");
    let hyperparameters = HyperparameterSpec {
        max_trials: args.max_trials,
        max_parallel_trials: args.max_parallel_trials,
        ..HyperparameterSpec::default()
    };
    let mut change = JobRequest::default();
    change.training_input = Some(TrainingInput { hyperparameters: Some(hyperparameters), ..TrainingInput::default() });
    let service = args.target.service_of(&args.job, Purpose::Change).await?;
    let id = &find_job_id(&service, &args.job).await?;
    let mut attempt = 1;
    let job = loop {
        let job = service.job(id).await?;
        change.labels = labels(args, &job.labels);
        change.etag = job.message.etag.unwrap_or_default();
        match service.update_job(id, &mask, &change).await {
            Err(error) if error.has_code("ABORTED") && attempt < ATTEMPTS => attempt += 1,
            outcome => break outcome?,
        }
    };
    show(&args.format, &job.json, || {
        let mut text = String::new();
        for (name, count) in &counts {
            text.push_str(&format!("job {id} has {name} {count}\n"));
        }
        if has_labels {
            let labels: Vec<String> = job.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let labels = if labels.is_empty() { "no labels".to_owned() } else { labels.join(", ") };
            text.push_str(&format!("job {id} has {labels}\n"));
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

fn labels(args: &UpdateArgs, now: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut labels = if args.clear_labels { BTreeMap::new() } else { now.clone() };
    labels.retain(|key, _| !args.remove_labels.contains(key));
    labels.extend(args.update_labels.iter().cloned());
    labels
}

/// Parses `KEY=VALUE`.
pub(in crate::cli) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}
