//! `tunesmith jobs`: the job commands of gcloud.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::folder::Purpose;
use super::format::{Format, show};
use super::job_list::{self, ListArgs};
use super::job_name::{find_job, find_job_id};
use super::job_reopen::{self, DeleteArgs, ExtendArgs, PruneArgs, RetryArgs};
use super::job_state::{conclude, mlflow_line, state_line, waiting_lines};
use super::job_update::{self, UpdateArgs};
use super::log_stream::{LogStream, SelectionArgs};
use super::results::job_results;
use super::submit::{self, SubmitCommand};
use super::submit_prediction;
#[cfg(feature = "vizier")]
use super::submit_vertex;
use super::target::TargetArgs;
use crate::cli::output::notice;
use crate::cli::table::TableArgs;
use tunesmith_api::ai_platform::job::JobResource;
use tunesmith_domain::{JobId, JobState, RESUME_PREVIOUS_JOB};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum JobsCommand {
    /// Submit a job.
    #[command(subcommand)]
    Submit(SubmitCommand),
    /// List the jobs of a project, newest first.
    List(ListArgs),
    /// Print a job as AI Platform's job resource.
    Describe(DescribeArgs),
    /// Cancel a job: immediately if it is waiting, otherwise as soon as its programs have ended.
    Cancel(CancelArgs),
    /// Rerun the failed and lost trials of a job, or its program if it has no hyperparameters.
    Retry(RetryArgs),
    /// Raise the number of trials of a job. An ended job continues, using its previous trials.
    Extend(ExtendArgs),
    /// Delete ended jobs with their trials and logs. Their job-dirs remain.
    Delete(DeleteArgs),
    /// Delete all jobs that ended long ago or are in given states.
    Prune(PruneArgs),
    /// Print the output of a job's programs until the job ends. Exit code 0 if it succeeded.
    StreamLogs(StreamLogsArgs),
    /// Change the labels of a job, or its total and concurrent number of trials, even while it runs.
    Update(UpdateArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DescribeArgs {
    /// Name of the job, or a unique prefix.
    job: JobId,
    #[command(flatten)]
    target: TargetArgs,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)". The table lists the trials,
    /// including failed ones.
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Yaml)]
    format: Format,
    /// Print the table, like --format=table.
    #[arg(long, conflicts_with = "format")]
    summarize: bool,
    #[command(flatten)]
    table: TableArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CancelArgs {
    /// Name of the job, or a unique prefix.
    job: JobId,
    #[command(flatten)]
    target: TargetArgs,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StreamLogsArgs {
    /// Name of the job, or a unique prefix.
    job: JobId,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    selection: SelectionArgs,
}

pub(super) async fn run(command: JobsCommand) -> anyhow::Result<ExitCode> {
    match command {
        JobsCommand::Submit(SubmitCommand::Training(args)) => submit::training(&args).await,
        JobsCommand::Submit(SubmitCommand::Prediction(args)) => submit_prediction::prediction(&args).await,
        #[cfg(feature = "vizier")]
        JobsCommand::Submit(SubmitCommand::Custom(args)) => submit_vertex::custom(&args).await,
        #[cfg(feature = "vizier")]
        JobsCommand::Submit(SubmitCommand::HpTuning(args)) => submit_vertex::tuning(&args).await,
        JobsCommand::List(args) => job_list::list_jobs(&args).await,
        JobsCommand::Describe(args) => describe(&args).await,
        JobsCommand::Cancel(args) => cancel(&args).await,
        JobsCommand::Retry(args) => job_reopen::retry(&args).await,
        JobsCommand::Extend(args) => job_reopen::extend(&args).await,
        JobsCommand::Delete(args) => job_reopen::delete(&args).await,
        JobsCommand::Prune(args) => job_reopen::prune(&args).await,
        JobsCommand::StreamLogs(args) => stream_logs(&args).await,
        JobsCommand::Update(args) => job_update::update(&args).await,
    }
}

async fn describe(args: &DescribeArgs) -> anyhow::Result<ExitCode> {
    let service = args.target.service_of(&args.job, Purpose::Look).await?;
    let job = find_job(&service, &args.job).await?;
    let format = if args.summarize { &Format::Table } else { &args.format };
    let table = match format {
        Format::Table => {
            let results = job_results(&service, &job).await?;
            let table = results.text(&args.table.layout())?;
            format!("{table}{}{}{}", sources_line(&job), mlflow_line(&job), waiting_lines(&job))
        }
        Format::Yaml | Format::Json | Format::Projection(_) => String::new(),
    };
    show(format, &job.json, || table)?;
    Ok(ExitCode::SUCCESS)
}

/// Line about the trials reused from an earlier job, if any.
fn sources_line(job: &JobResource) -> String {
    let field = format!("trainingInput.{RESUME_PREVIOUS_JOB}");
    let source = job.notices().iter().find(|notice| notice.field == field);
    source.map_or_else(String::new, |source| format!("{RESUME_PREVIOUS_JOB}: {}\n", source.description))
}

async fn cancel(args: &CancelArgs) -> anyhow::Result<ExitCode> {
    let service = args.target.service_of(&args.job, Purpose::Change).await?;
    let id = &find_job_id(&service, &args.job).await?;
    let answer = service.cancel_job(id).await?;
    let job = service.job(id).await?;
    show(&args.format, &answer, || state_line(&job))?;
    if let Some(folder) = service.folder()
        && job.state == JobState::Cancelling
    {
        notice(&format!("the job has running programs; `{}` stops them", folder.serve_command()));
    }
    Ok(ExitCode::SUCCESS)
}

async fn stream_logs(args: &StreamLogsArgs) -> anyhow::Result<ExitCode> {
    let service = args.target.service_of(&args.job, Purpose::Look).await?;
    let job = find_job(&service, &args.job).await?;
    let id = &job.job_id;
    if let Some(folder) = service.folder()
        && job.state == JobState::Queued
    {
        notice(&format!("job {id} is QUEUED; `{}` runs it", folder.serve_command()));
    }
    let state = LogStream::new(&service, id, &args.selection).follow(&mut std::io::stdout()).await?;
    conclude(&service, id, state).await
}
