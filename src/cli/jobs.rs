//! `tunesmith jobs list|describe|stream-logs`: looks at a data folder, also while a job runs in it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use comfy_table::{Table, presets};

use super::output::{Followed, Writers, print, write_line};
use super::results::Results;
use crate::api::ai_platform::job::job_resource;
use crate::data_dir::DataDir;
use crate::domain::{Job, JobId};

/// How many jobs are read at once.
const PAGE: usize = 200;
/// How often logs that are followed are looked at.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, Subcommand)]
pub(super) enum JobsCommand {
    /// List the jobs.
    List(ListArgs),
    /// Print one job as AI Platform's resource.
    Describe(DescribeArgs),
    /// Print the output of a job's trials, and follow it until the job ends.
    StreamLogs(StreamLogsArgs),
}

#[derive(Debug, Args)]
struct Folder {
    /// Folder of jobs, trials and logs.
    #[arg(long, value_name = "DIR", default_value = super::run::DEFAULT_DATA_DIR)]
    data_dir: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    folder: Folder,
}

#[derive(Debug, Args)]
pub(super) struct DescribeArgs {
    /// The job.
    job: JobId,
    #[command(flatten)]
    folder: Folder,
    /// Form of the answer.
    #[arg(long, value_enum, default_value_t = Format::Yaml)]
    format: Format,
}

#[derive(Debug, Args)]
pub(super) struct StreamLogsArgs {
    /// The job.
    job: JobId,
    #[command(flatten)]
    folder: Folder,
    /// Only this trial's output.
    #[arg(long, value_name = "N")]
    trial: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
    Table,
}

/// Carries the command out.
pub(super) fn run(command: JobsCommand) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match command {
            JobsCommand::List(args) => list(&args).await,
            JobsCommand::Describe(args) => describe(&args).await,
            JobsCommand::StreamLogs(args) => stream_logs(&args).await,
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn list(args: &ListArgs) -> anyhow::Result<()> {
    let folder = DataDir::open_read_only(&args.folder.data_dir, "tunesmith jobs")?;
    let store = folder.store().await?;
    let mut jobs: Vec<Job> = Vec::new();
    loop {
        let page = store.jobs(jobs.last().map(|job| &job.id), PAGE).await?;
        let last_page = page.len() < PAGE;
        jobs.extend(page);
        if last_page {
            break;
        }
    }
    jobs.sort_by_key(|job| std::cmp::Reverse(job.create_time));
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["JOB_ID", "STATUS", "CREATED", "MESSAGE"]);
    for job in &jobs {
        let created = job.create_time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        table.add_row([job.id.to_string(), job.state.to_string(), created, job.error_message.clone()]);
    }
    Ok(print(&format!("{table}\n"))?)
}

async fn describe(args: &DescribeArgs) -> anyhow::Result<()> {
    let folder = DataDir::open_read_only(&args.folder.data_dir, "tunesmith jobs")?;
    let store = folder.store().await?;
    let job = store.job(&args.job).await?;
    let results = Results::read(&*store, job, folder.job(&args.job)).await?;
    let resource = job_resource(&results.job, results.study.as_ref(), &results.trials);
    let text = match args.format {
        Format::Yaml => yaml_serde::to_string(&resource)?,
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&resource)?),
        Format::Table => results.text(),
    };
    Ok(print(&text)?)
}

async fn stream_logs(args: &StreamLogsArgs) -> anyhow::Result<()> {
    let folder = DataDir::open_read_only(&args.folder.data_dir, "tunesmith jobs")?;
    let store = folder.store().await?;
    let root = folder.job(&args.job);
    let mut followed = Followed::default();
    loop {
        // Asked first: what a finished job wrote is then all there.
        let writers = if store.job(&args.job).await?.state.is_final() { Writers::Gone } else { Writers::Alive };
        for (path, label) in log_files(&root, args.trial)? {
            let each = |line: &[u8]| write_line(&mut std::io::stdout().lock(), &label, line);
            followed.new_lines(&path, writers, each).with_context(|| path.display().to_string())?;
        }
        if writers == Writers::Gone {
            return Ok(());
        }
        tokio::time::sleep(FOLLOW_INTERVAL).await;
    }
}

/// Every log of a job, or of one trial, with the label of its lines.
fn log_files(root: &Path, trial: Option<u64>) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    let mut attempts = subfolders(root)?;
    for folder in subfolders(&root.join("trials"))? {
        attempts.extend(subfolders(&folder)?);
    }
    for attempt in attempts {
        let number = attempt.parent().and_then(Path::file_name).and_then(|name| name.to_str()?.parse::<u64>().ok());
        if trial.is_some() && number != trial {
            continue;
        }
        let label = number.map_or_else(|| "[job]".to_owned(), |number| format!("[trial {number}]"));
        for entry in std::fs::read_dir(&attempt)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.ends_with("stdout.log") || name.ends_with("stderr.log") {
                found.push((path.clone(), label.clone()));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn subfolders(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| folder.display().to_string()),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}
