//! `tunesmith jobs list`.

use std::cmp::Ordering;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::folder::Purpose;
use super::format::{Format, columns, show_table};
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
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    table: TableArgs,
}

/// Runs the command.
pub(super) async fn list_jobs(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let client = args.target.client(Purpose::Look).await?;
    let mut jobs = all_jobs(&client, &args.filter, args.page_size).await?;
    jobs.sort_by_key(|job| std::cmp::Reverse(text(job, "createTime").parse::<Timestamp>().ok()));
    // The last field first: sorting is stable.
    for key in args.sort_by.iter().rev() {
        sort(&mut jobs, key)?;
    }
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
    show_table(args.format, &json!({ "jobs": jobs }), || {
        let header = ["JOB_ID", "STATUS", "CREATED", "MESSAGE"];
        columns(&header, jobs.iter().map(row), &args.table.layout())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Sorts `jobs` by the field `key`, in descending order if it starts with `~`. Jobs without the field are last.
fn sort(jobs: &mut [Value], key: &str) -> anyhow::Result<()> {
    let (field, is_descending) = key.strip_prefix('~').map_or((key, false), |field| (field, true));
    let pointer = format!("/{}", field.replace('.', "/"));
    if !jobs.is_empty() && jobs.iter().all(|job| job.pointer(&pointer).is_none()) {
        bail!("--sort-by: no job has a field {field:?}");
    }
    jobs.sort_by(|one, other| match (one.pointer(&pointer), other.pointer(&pointer)) {
        (Some(one), Some(other)) if is_descending => compare(other, one),
        (Some(one), Some(other)) => compare(one, other),
        (one, other) => one.is_none().cmp(&other.is_none()),
    });
    Ok(())
}

/// Compares numbers, also those in texts, as numbers, and other values as text.
fn compare(one: &Value, other: &Value) -> Ordering {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (one, other) = (text(one), text(other));
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one.total_cmp(&other),
        _ => one.cmp(&other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_sorted_by_nested_fields_numbers_and_in_descending_order() {
        let job = |id: &str, count: &str| json!({"jobId": id, "trainingOutput": {"completedTrialCount": count}});
        let mut jobs = vec![job("b", "9"), json!({"jobId": "c"}), job("a", "10")];
        let ids = |jobs: &[Value]| jobs.iter().map(|job| text(job, "jobId").to_owned()).collect::<String>();
        sort(&mut jobs, "trainingOutput.completedTrialCount").unwrap();
        assert_eq!(ids(&jobs), "bac");
        sort(&mut jobs, "~trainingOutput.completedTrialCount").unwrap();
        assert_eq!(ids(&jobs), "abc");
        sort(&mut jobs, "~jobId").unwrap();
        assert_eq!(ids(&jobs), "cba");
        assert_eq!(sort(&mut jobs, "jobID").unwrap_err().to_string(), "--sort-by: no job has a field \"jobID\"");
    }
}
