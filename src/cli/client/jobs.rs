//! `tunesmith jobs`: the job commands of gcloud.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::folder::Purpose;
use super::format::{Format, columns, show, show_table};
use super::job_labels::{self, UpdateArgs};
use super::job_state::{conclude, state_line};
use super::log_stream::{LogStream, SelectionArgs};
use super::request::{last_segment, list, text};
use super::submit::{self, SubmitCommand};
use super::target::TargetArgs;
use super::trial_view;
use crate::cli::output::{notice, print};
use crate::cli::results::Results;
use crate::cli::table::TableArgs;
use crate::data_dir::DataDir;
use tunesmith_domain::JobId;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum JobsCommand {
    /// Submit a job.
    #[command(subcommand)]
    Submit(SubmitCommand),
    /// List the jobs of a project, newest first.
    List(ListArgs),
    /// Print a job as AI Platform's job resource.
    Describe(DescribeArgs),
    /// Cancel a job: at once if it waits, otherwise as soon as its programs have ended.
    Cancel(CancelArgs),
    /// Print the output of a job's programs until the job ends. Exit code 0 if it succeeded.
    StreamLogs(StreamLogsArgs),
    /// Change the labels of a job.
    Update(UpdateArgs),
}

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
    /// Number of jobs per request, 1 to 100.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100), default_value_t = 100)]
    page_size: u8,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    table: TableArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DescribeArgs {
    /// Name of the job.
    job: JobId,
    #[command(flatten)]
    target: TargetArgs,
    /// Output format. The table lists the trials, including failed ones.
    #[arg(long, value_enum, default_value_t = Format::Yaml)]
    format: Format,
    #[command(flatten)]
    table: TableArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CancelArgs {
    /// Name of the job.
    job: JobId,
    #[command(flatten)]
    target: TargetArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StreamLogsArgs {
    /// Name of the job.
    job: JobId,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    selection: SelectionArgs,
}

/// Runs the command.
pub(super) async fn run(command: JobsCommand) -> anyhow::Result<ExitCode> {
    match command {
        JobsCommand::Submit(SubmitCommand::Training(args)) => submit::training(&args).await,
        JobsCommand::List(args) => list_jobs(&args).await,
        JobsCommand::Describe(args) => describe(&args).await,
        JobsCommand::Cancel(args) => cancel(&args).await,
        JobsCommand::StreamLogs(args) => stream_logs(&args).await,
        JobsCommand::Update(args) => job_labels::update(&args).await,
    }
}

async fn list_jobs(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let client = args.target.client(Purpose::Look).await?;
    let page_size = args.page_size.to_string();
    let (mut jobs, mut page_token): (Vec<Value>, String) = (Vec::new(), String::new());
    loop {
        let query = [("filter", args.filter.as_str()), ("pageSize", &page_size), ("pageToken", &page_token)];
        let page = client.get(&client.path(&["jobs"]), &query).await?;
        jobs.extend_from_slice(list(&page, "jobs"));
        page_token = text(&page, "nextPageToken").to_owned();
        if page_token.is_empty() {
            break;
        }
    }
    jobs.sort_by_key(|job| std::cmp::Reverse(text(job, "createTime").parse::<Timestamp>().ok()));
    jobs.truncate(args.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX));
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

async fn describe(args: &DescribeArgs) -> anyhow::Result<ExitCode> {
    if let Some(folder) = args.target.folder() {
        return describe_in_folder(args, &folder).await;
    }
    let client = args.target.client_in(args.target.project_of(&args.job), Purpose::Look).await?;
    let id = args.job.parts().1;
    let job = client.get(&client.path(&["jobs", id]), &[]).await?;
    let mut table = String::new();
    if args.format == Format::Table {
        if job["trainingOutput"]["isHyperparameterTuningJob"] == true {
            let study = client.path(&["locations", "jobs", "studies", id, "trials"]);
            let mut trials = list(&client.get(&study, &[]).await?, "trials").to_vec();
            // Successful trials in the order of the resource, best first.
            let best_first = list(&job["trainingOutput"], "trials");
            trials.sort_by_key(|trial| {
                let number = last_segment(text(trial, "name"));
                best_first.iter().position(|best| text(best, "trialId") == number).unwrap_or(usize::MAX)
            });
            let study = client.get(&client.path(&["locations", "jobs", "studies", id]), &[]).await?;
            table = trial_view::table(&trials, &study, &args.table.layout())?;
        }
        table.push_str(&state_line(id, &job));
    }
    show(args.format, &job, || table)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a job as `tunesmith run` does, with the paths of its logs and models.
async fn describe_in_folder(args: &DescribeArgs, folder: &std::path::Path) -> anyhow::Result<ExitCode> {
    let id = JobId::new(&args.target.project_of(&args.job), args.job.parts().1)?;
    let folder = DataDir::open_read_only(folder, "tunesmith jobs").map_err(super::error::ClientError::folder)?;
    let store = folder.store().await?;
    let results = Results::read(&*store, store.job(&id).await?, folder.job(&id)).await?;
    let resource = tunesmith_api::ai_platform::job::job_resource(&results.job, results.study.as_ref(), &results.trials);
    let text = match args.format {
        Format::Yaml => yaml_serde::to_string(&resource)?,
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&resource)?),
        Format::Table => results.text(&args.table.layout())?,
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn cancel(args: &CancelArgs) -> anyhow::Result<ExitCode> {
    let client = args.target.client_in(args.target.project_of(&args.job), Purpose::Change).await?;
    let id = args.job.parts().1;
    let path = client.path(&["jobs", id]);
    let answer = client.post(&format!("{path}:cancel"), &[], json!({})).await?;
    let job = client.get(&path, &[]).await?;
    show(args.format, &answer, || state_line(id, &job))?;
    if let Some(folder) = client.folder()
        && text(&job, "state") == "CANCELLING"
    {
        notice(&format!("the job has running programs; `{}` stops them", folder.serve_command()));
    }
    Ok(ExitCode::SUCCESS)
}

async fn stream_logs(args: &StreamLogsArgs) -> anyhow::Result<ExitCode> {
    let client = args.target.client_in(args.target.project_of(&args.job), Purpose::Look).await?;
    let id = args.job.parts().1;
    if let Some(folder) = client.folder()
        && text(&client.get(&client.path(&["jobs", id]), &[]).await?, "state") == "QUEUED"
    {
        notice(&format!("job {id} is QUEUED; `{}` runs it", folder.serve_command()));
    }
    let state = LogStream::new(&client, id, args.selection.selection()).follow(&mut std::io::stdout()).await?;
    conclude(&client, id, state).await
}
