//! `tunesmith jobs update`: changes the labels of a job.

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

/// Maximum number of attempts at a change of labels that conflicts with changes by other clients.
const LABEL_ATTEMPTS: u32 = 5;

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
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Runs the command.
pub(super) async fn update(args: &UpdateArgs) -> anyhow::Result<ExitCode> {
    if args.update_labels.is_empty() && args.remove_labels.is_empty() && !args.clear_labels {
        bail!("no change is requested: give --update-labels, --remove-labels or --clear-labels");
    }
    let client = args.target.client_in(args.target.project_of(&args.job), Purpose::Change).await?;
    let id = &find_job_id(&client, &args.job).await?;
    let path = client.path(&["jobs", id]);
    let mut attempt = 1;
    let job = loop {
        let job = client.get(&path, &[]).await?;
        let mut labels: BTreeMap<String, Value> = BTreeMap::new();
        if !args.clear_labels {
            labels.extend(job["labels"].as_object().cloned().into_iter().flatten());
        }
        labels.retain(|key, _| !args.remove_labels.contains(key));
        labels.extend(args.update_labels.iter().map(|(key, value)| (key.clone(), json!(value))));
        let change = json!({"labels": labels, "etag": job["etag"]});
        match client.patch(&path, &[("updateMask", "labels,etag")], change).await {
            Err(error) if error.is_aborted() && attempt < LABEL_ATTEMPTS => attempt += 1,
            outcome => break outcome?,
        }
    };
    show(args.format, &job, || {
        let labels = job["labels"].as_object().into_iter().flatten();
        let labels: Vec<String> =
            labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
        format!("job {id} has {}\n", if labels.is_empty() { "no labels".to_owned() } else { labels.join(", ") })
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Parses `KEY=VALUE`.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}
