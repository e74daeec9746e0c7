//! `tunesmith jobs list`.

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::folder::Purpose;
use super::format::{Format, columns, show_list, sort_by};
use super::job_name::all_jobs;
use super::request::text;
use super::service::Transport;
use super::target::TargetArgs;
use crate::cli::output::print;
use crate::cli::table::TableArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// List only jobs that satisfy every term, such as "state:FAILED AND jobId:census* AND labels.owner:me".
    #[arg(long, value_name = "EXPRESSION", default_value = "")]
    filter: String,
    /// Maximum number of jobs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Fields to sort by, such as createTime or ~trainingOutput.completedTrialCount, where ~ sorts in descending order.
    /// Newest first by default.
    #[arg(long, value_name = "[~]FIELD", value_delimiter = ',', allow_hyphen_values = true)]
    sort_by: Vec<String>,
    /// Print the address of each job instead.
    #[arg(long, conflicts_with = "format")]
    uri: bool,
    /// Number of jobs per request, 1 to 100.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100), default_value_t = 100)]
    page_size: u8,
    /// Output format: table, yaml, json, or a format of gcloud such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    table: TableArgs,
}

/// Runs the command.
pub(super) async fn list_jobs(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let client = args.target.client(Purpose::Look).await?;
    let mut jobs = all_jobs(&client, &args.filter, args.page_size).await?;
    jobs.sort_by_key(|job| std::cmp::Reverse(text(job, "createTime").parse::<Timestamp>().ok()));
    sort_by(&mut jobs, &args.sort_by, "job")?;
    jobs.truncate(args.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX));
    if args.uri {
        let base = match &*client.transport {
            Transport::Server(_) => client.address(),
            Transport::Folder(_) => String::new(),
        };
        let uris = jobs.iter().map(|job| format!("{base}{}\n", client.path(&["jobs", text(job, "jobId")])));
        print(&uris.collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |job: &Value| {
        let created = text(job, "createTime").parse::<Timestamp>();
        let created = created.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default();
        vec![
            text(job, "jobId").to_owned(),
            text(job, "state").to_owned(),
            created,
            text(job, "errorMessage").to_owned(),
        ]
    };
    show_list(&args.format, &json!({ "jobs": jobs }), "jobs", || {
        let header = ["JOB_ID", "STATE", "CREATED", "MESSAGE"];
        columns(&header, jobs.iter().map(row), &args.table.layout())
    })?;
    Ok(ExitCode::SUCCESS)
}
