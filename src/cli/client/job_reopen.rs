//! `tunesmith jobs retry`, `extend`, `delete` and `prune`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::folder::Purpose;
use super::format::{Format, show};
use super::job_name::{all_jobs, find_job, find_job_id};
use super::job_state::state_line;
use super::log_stream::SelectionArgs;
use super::request::text;
use super::service::Client;
use super::submit::follow_to_end;
use super::target::TargetArgs;
use crate::cli::output::{notice, print};
use crate::cli::trial_count::TrialCount;
use tunesmith_domain::{JobId, JobState};

/// The field that an extension changes.
const MAX_TRIALS: &str = "trainingInput.hyperparameters.maxTrials";

#[derive(Debug, Args)]
pub(in crate::cli) struct RetryArgs {
    /// Name of the job, or the start of it.
    job: JobId,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    follow: FollowArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExtendArgs {
    /// Name of the job, or the start of it.
    job: JobId,
    #[command(flatten)]
    target: TargetArgs,
    /// Number of trials: 20 for twenty in all, +10 for ten more.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    trials: TrialCount,
    #[command(flatten)]
    follow: FollowArgs,
}

/// What happens after the job was queued.
#[derive(Debug, Args)]
struct FollowArgs {
    /// Print the output of the job until it ends; exit code 0 if it succeeded. In a data folder, also run the job.
    #[arg(long)]
    stream_logs: bool,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Output format: table, yaml, json, or a format of gcloud such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DeleteArgs {
    /// Names of the jobs.
    #[arg(required = true)]
    jobs: Vec<JobId>,
    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("selection").required(true).multiple(true))]
pub(in crate::cli) struct PruneArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Delete jobs that ended longer ago than this, such as 90m, 12h, 30d or 8w.
    #[arg(long, value_name = "DURATION", value_parser = age, group = "selection")]
    older_than: Option<Duration>,
    /// Delete jobs in these states: SUCCEEDED, FAILED, CANCELLED.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = final_state, group = "selection")]
    state: Vec<JobState>,
    /// Delete only jobs that satisfy every term, such as "jobId:census* AND labels.owner:me".
    #[arg(long, value_name = "EXPRESSION", group = "selection")]
    filter: Option<String>,
    /// List the jobs without deleting them.
    #[arg(long)]
    dry_run: bool,
}

/// Runs `tunesmith jobs retry`.
pub(super) async fn retry(args: &RetryArgs) -> anyhow::Result<ExitCode> {
    let client = open(&args.target, &args.job, &args.follow).await?;
    let id = find_job_id(&client, &args.job).await?;
    let job = client.post(&format!("{}:retry", client.path(&["jobs", &id])), &[], json!({})).await?;
    finish(&client, &args.target, &id, &job, &args.follow).await
}

/// Runs `tunesmith jobs extend`.
pub(super) async fn extend(args: &ExtendArgs) -> anyhow::Result<ExitCode> {
    let client = open(&args.target, &args.job, &args.follow).await?;
    let job = find_job(&client, &args.job).await?;
    let id = text(&job, "jobId").to_owned();
    let hyperparameters = &job["trainingInput"]["hyperparameters"];
    if hyperparameters.is_null() {
        anyhow::bail!("job {id} has no hyperparameters, so it has no trials to add");
    }
    // As published, the default is 1.
    let now = hyperparameters["maxTrials"].as_u64().unwrap_or(1);
    let total = args.trials.total(now);
    let change = json!({"trainingInput": {"hyperparameters": {"maxTrials": total}}, "etag": job["etag"]});
    let query = [("updateMask", format!("{MAX_TRIALS},etag"))];
    let query: Vec<(&str, &str)> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let job = client.patch(&client.path(&["jobs", &id]), &query, change).await?;
    notice(&format!("job {id}: extended from {now} to {total} trials"));
    finish(&client, &args.target, &id, &job, &args.follow).await
}

async fn open(target: &TargetArgs, job: &JobId, follow: &FollowArgs) -> anyhow::Result<Client> {
    let purpose = if follow.stream_logs { Purpose::RunJob } else { Purpose::Change };
    target.client_in(target.project_of(job), purpose).await
}

async fn finish(
    client: &Client,
    target: &TargetArgs,
    id: &str,
    job: &Value,
    follow: &FollowArgs,
) -> anyhow::Result<ExitCode> {
    show(&follow.format, job, || state_line(id, job))?;
    if follow.stream_logs {
        return follow_to_end(client, id, &follow.selection).await;
    }
    super::submit::print_next_commands(target, client, &JobId::new(&client.project, id)?, client.folder());
    Ok(ExitCode::SUCCESS)
}

/// Runs `tunesmith jobs delete`.
pub(super) async fn delete(args: &DeleteArgs) -> anyhow::Result<ExitCode> {
    let client = args.target.client(Purpose::Change).await?;
    for job in &args.jobs {
        let client = client.of_project(args.target.project_of(job));
        let id = find_job_id(&client, job).await?;
        client.delete(&client.path(&["jobs", &id])).await?;
        print(&format!("job {id} is deleted\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `tunesmith jobs prune`.
pub(super) async fn prune(args: &PruneArgs) -> anyhow::Result<ExitCode> {
    let purpose = if args.dry_run { Purpose::Look } else { Purpose::Change };
    let client = args.target.client(purpose).await?;
    let jobs = all_jobs(&client, args.filter.as_deref().unwrap_or_default(), 100).await?;
    let now = Timestamp::now();
    let mut kept = 0;
    for job in jobs.iter().filter(|job| is_selected(args, job, now)) {
        let id = text(job, "jobId");
        let what = format!("job {id}, {} since {}", text(job, "state"), text(job, "endTime"));
        if args.dry_run {
            print(&format!("{what}, would be deleted\n"))?;
            continue;
        }
        match client.delete(&client.path(&["jobs", id])).await {
            Ok(_) => print(&format!("{what}, is deleted\n"))?,
            Err(error) => {
                notice(&format!("error: {error}"));
                kept += 1;
            }
        }
    }
    Ok(if kept == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_selected(args: &PruneArgs, job: &Value, now: Timestamp) -> bool {
    let Ok(state) = text(job, "state").parse::<JobState>() else { return false };
    if !state.is_final() || (!args.state.is_empty() && !args.state.contains(&state)) {
        return false;
    }
    let Some(minimum) = args.older_than else { return true };
    let ended = text(job, "endTime").parse::<Timestamp>();
    ended.is_ok_and(|ended| Duration::try_from(now.duration_since(ended)).is_ok_and(|age| age > minimum))
}

fn final_state(text: &str) -> Result<JobState, String> {
    match text.to_uppercase().parse::<JobState>() {
        Ok(state) if state.is_final() => Ok(state),
        _ => Err("expected SUCCEEDED, FAILED or CANCELLED".to_owned()),
    }
}

/// Parses a number with a unit: s, m, h, d or w.
fn age(text: &str) -> Result<Duration, String> {
    let expected = || "expected a duration such as 90m, 12h, 30d or 8w".to_owned();
    let unit = text.chars().last().ok_or_else(expected)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return Err(expected()),
    };
    let number = text[..text.len() - 1].parse::<u32>().map_err(|_| expected())?;
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_a_number_with_a_unit() {
        assert_eq!(age("90m"), Ok(Duration::from_secs(5400)));
        assert_eq!(age("8w"), Ok(Duration::from_secs(8 * 604_800)));
        assert_eq!(age("0s"), Ok(Duration::ZERO));
        for bad in ["", "d", "3", "-3d", "3 d", "3y", "3µ"] {
            assert!(age(bad).is_err(), "{bad}");
        }
        assert_eq!(final_state("failed"), Ok(JobState::Failed));
        assert!(final_state("RUNNING").is_err());
    }
}
