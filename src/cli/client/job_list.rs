//! `tunesmith jobs list`.

use std::process::ExitCode;

use clap::Args;

use super::folder::Purpose;
use super::format::{ListOutputArgs, sort_by};
use super::target::TargetArgs;
use crate::cli::output::print;
use tunesmith_api::ai_platform::job::JobResource;
use tunesmith_client::Resource;

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// List only jobs that satisfy all terms, such as "state:FAILED AND jobId:census* AND labels.owner:me".
    #[arg(long, value_name = "EXPRESSION", default_value = "")]
    filter: String,
    /// Fields to sort by, such as createTime or ~trainingOutput.completedTrialCount; ~ sorts in descending order.
    /// Newest first by default.
    #[arg(long, value_name = "[~]FIELD", value_delimiter = ',', allow_hyphen_values = true)]
    sort_by: Vec<String>,
    /// Print only the address of each job.
    #[arg(long, conflicts_with = "format")]
    uri: bool,
    /// Number of jobs per request, 1 to 100.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100), default_value_t = 100)]
    page_size: u8,
    #[command(flatten)]
    output: ListOutputArgs,
}

pub(super) async fn list_jobs(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let service = args.target.service(Purpose::Look).await?;
    let mut jobs = service.jobs(&args.filter, args.page_size).await?;
    jobs.sort_by_key(|job| std::cmp::Reverse(job.create_time));
    sort_by(&mut jobs, &args.sort_by, "job", |job| &job.json)?;
    if args.uri {
        let base = if service.folder().is_some() { String::new() } else { service.address() };
        let uris = args.output.first(jobs).into_iter().map(|job| format!("{base}{}\n", service.job_path(&job.job_id)));
        print(&uris.collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |job: &Resource<JobResource>| {
        let created = job.create_time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        vec![job.job_id.clone(), job.state.to_string(), created, job.error_message.clone()]
    };
    args.output.show_rows(jobs, &["JOB_ID", "STATE", "CREATED", "MESSAGE"], row)?;
    Ok(ExitCode::SUCCESS)
}
