//! `tunesmith jobs update`: changes the labels of a job, and its numbers of trials.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use super::folder::Purpose;
use super::format::{Format, show};
use super::job_name::find_job_id;
use super::target::TargetArgs;
use tunesmith_domain::JobId;

/// Maximum number of attempts at a change that conflicts with changes by other clients.
const ATTEMPTS: u32 = 5;

#[derive(Debug, Args)]
pub(in crate::cli) struct UpdateArgs {
    /// Name of the job, or the start of it.
    job: JobId,
    #[command(flatten)]
    target: TargetArgs,
    /// Labels to set. Other labels are kept.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    update_labels: Vec<(String, String)>,
    /// Labels to remove.
    #[arg(long, value_name = "KEY", value_delimiter = ',', conflicts_with = "clear_labels")]
    remove_labels: Vec<String>,
    /// Remove all labels before those of --update-labels are set.
    #[arg(long)]
    clear_labels: bool,
    /// Number of trials at once. A running job takes it over at once: a higher number starts trials, a lower one lets the
    /// running ones end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_parallel_trials: Option<u32>,
    /// Number of trials in all. That of a job that has ended can only be raised; the job then goes on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_trials: Option<u32>,
    /// Output format: table, yaml, json, or a format of gcloud such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

/// Runs the command.
pub(super) async fn update(args: &UpdateArgs) -> anyhow::Result<ExitCode> {
    let has_labels = !args.update_labels.is_empty() || !args.remove_labels.is_empty() || args.clear_labels;
    let counts = [("maxParallelTrials", args.max_parallel_trials), ("maxTrials", args.max_trials)];
    let counts: Vec<(&str, u32)> = counts.into_iter().filter_map(|(name, count)| Some((name, count?))).collect();
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
    let client = args.target.client_in(args.target.project_of(&args.job), Purpose::Change).await?;
    let id = &find_job_id(&client, &args.job).await?;
    let path = client.path(&["jobs", id]);
    let mut attempt = 1;
    let job = loop {
        let job = client.get(&path, &[]).await?;
        let mut change = json!({"etag": job["etag"]});
        if has_labels {
            change["labels"] = json!(labels(args, &job));
        }
        for (name, count) in &counts {
            change["trainingInput"]["hyperparameters"][name] = json!(count);
        }
        match client.patch(&path, &[("updateMask", &mask)], change).await {
            Err(error) if error.is_aborted() && attempt < ATTEMPTS => attempt += 1,
            outcome => break outcome?,
        }
    };
    show(&args.format, &job, || {
        let mut text = String::new();
        for (name, count) in &counts {
            text.push_str(&format!("job {id} has {name} {count}\n"));
        }
        if has_labels {
            let labels = job["labels"].as_object().into_iter().flatten();
            let labels: Vec<String> =
                labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
            let labels = if labels.is_empty() { "no labels".to_owned() } else { labels.join(", ") };
            text.push_str(&format!("job {id} has {labels}\n"));
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The labels of `job` after the change.
fn labels(args: &UpdateArgs, job: &Value) -> BTreeMap<String, Value> {
    let mut labels: BTreeMap<String, Value> = BTreeMap::new();
    if !args.clear_labels {
        labels.extend(job["labels"].as_object().cloned().into_iter().flatten());
    }
    labels.retain(|key, _| !args.remove_labels.contains(key));
    labels.extend(args.update_labels.iter().map(|(key, value)| (key.clone(), json!(value))));
    labels
}

/// Parses `KEY=VALUE`.
pub(in crate::cli) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}
