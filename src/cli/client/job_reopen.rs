//! `tunesmith jobs retry`, `extend`, `delete` and `prune`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use jiff::Timestamp;

use super::folder::Purpose;
use super::format::show;
use super::job_name::{find_job, find_job_id};
use super::job_state::state_line;
use super::submit::FollowArgs;
use super::target::{Service, TargetArgs};
use crate::cli::output::{notice, print};
use crate::cli::trial_count::TrialCount;
use tunesmith_api::ai_platform::job::{JobRequest, JobResource};
use tunesmith_api::ai_platform::{HyperparameterSpec, TrainingInput, proto_json};
use tunesmith_client::Resource;
use tunesmith_domain::{JobId, JobState};

const MAX_TRIALS: &str = "trainingInput.hyperparameters.maxTrials";

#[derive(Debug, Args)]
pub(in crate::cli) struct RetryArgs {
    /// Name of the job, or a unique prefix.
    job: JobId,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    follow: FollowArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExtendArgs {
    /// Name of the job, or a unique prefix.
    job: JobId,
    #[command(flatten)]
    target: TargetArgs,
    /// Number of trials: 20 for twenty in total, +10 for ten more.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    trials: TrialCount,
    #[command(flatten)]
    follow: FollowArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DeleteArgs {
    /// Names of the jobs, or unique prefixes.
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
    /// Delete only jobs that satisfy all terms, such as "jobId:census* AND labels.owner:me".
    #[arg(long, value_name = "EXPRESSION", group = "selection")]
    filter: Option<String>,
    /// List the jobs without deleting them.
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn retry(args: &RetryArgs) -> anyhow::Result<ExitCode> {
    let service = open(&args.target, &args.job, &args.follow).await?;
    let id = find_job_id(&service, &args.job).await?;
    let job = service.retry_job(&id).await?;
    finish(&service, &args.target, &job, &args.follow).await
}

pub(super) async fn extend(args: &ExtendArgs) -> anyhow::Result<ExitCode> {
    let service = open(&args.target, &args.job, &args.follow).await?;
    let job = find_job(&service, &args.job).await?.message;
    let id = job.job_id;
    let input: TrainingInput = proto_json::known(job.training_input)?;
    let Some(hyperparameters) = input.hyperparameters else {
        bail!("job {id} has no hyperparameters, so it has no trials to add");
    };
    // The published default is 1.
    let now = hyperparameters.max_trials.and_then(|count| u64::try_from(count).ok()).unwrap_or(1);
    let total = args.trials.total(now);
    let hyperparameters = HyperparameterSpec { max_trials: i32::try_from(total).ok(), ..HyperparameterSpec::default() };
    let mut change = JobRequest::default();
    change.training_input = Some(TrainingInput { hyperparameters: Some(hyperparameters), ..TrainingInput::default() });
    change.etag = job.etag.unwrap_or_default();
    let job = service.update_job(&id, &format!("{MAX_TRIALS},etag"), &change).await?;
    notice(&format!("job {id}: extended from {now} to {total} trials"));
    finish(&service, &args.target, &job, &args.follow).await
}

async fn open(target: &TargetArgs, job: &JobId, follow: &FollowArgs) -> anyhow::Result<Service> {
    target.service_of(job, follow.purpose(Purpose::Change)).await
}

async fn finish(
    service: &Service,
    target: &TargetArgs,
    job: &Resource<JobResource>,
    follow: &FollowArgs,
) -> anyhow::Result<ExitCode> {
    show(&follow.format, &job.json, || state_line(job))?;
    follow.conclude(target, service, &job.job_id).await
}

pub(super) async fn delete(args: &DeleteArgs) -> anyhow::Result<ExitCode> {
    let service = args.target.service(Purpose::Change).await?;
    for job in &args.jobs {
        let client = service.of_project(args.target.project_of(job));
        let id = find_job_id(&client, job).await?;
        client.delete_job(&id).await?;
        print(&format!("job {id} is deleted\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn prune(args: &PruneArgs) -> anyhow::Result<ExitCode> {
    let purpose = if args.dry_run { Purpose::Look } else { Purpose::Change };
    let service = args.target.service(purpose).await?;
    let jobs = service.jobs(args.filter.as_deref().unwrap_or_default(), 100).await?;
    let now = Timestamp::now();
    let mut kept = 0;
    for job in jobs.iter().filter(|job| is_selected(args, job, now)) {
        let ended = job.end_time.map(|time| time.to_string()).unwrap_or_default();
        let what = format!("job {}, {} since {ended}", job.job_id, job.state);
        if args.dry_run {
            print(&format!("{what}, would be deleted\n"))?;
            continue;
        }
        match service.delete_job(&job.job_id).await {
            Ok(_) => print(&format!("{what}, is deleted\n"))?,
            Err(error) => {
                notice(&format!("error: {error}"));
                kept += 1;
            }
        }
    }
    Ok(if kept == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_selected(args: &PruneArgs, job: &JobResource, now: Timestamp) -> bool {
    if !job.state.is_final() || (!args.state.is_empty() && !args.state.contains(&job.state)) {
        return false;
    }
    let Some(minimum) = args.older_than else { return true };
    let age = job.end_time.map(|ended| Duration::try_from(now.duration_since(ended)));
    age.is_some_and(|age| age.is_ok_and(|age| age > minimum))
}

fn final_state(text: &str) -> Result<JobState, String> {
    match text.to_uppercase().parse::<JobState>() {
        Ok(state) if state.is_final() => Ok(state),
        _ => Err("expected SUCCEEDED, FAILED or CANCELLED".to_owned()),
    }
}

/// Parses a duration with the unit s, m, h, d or w.
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
