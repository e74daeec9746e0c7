//! Submission by `tunesmith run`, which retries or extends an existing job.

use anyhow::{Context, bail};
use clap::Args;
use rand::Rng;

use super::output::notice;
use super::trial_count::TrialCount;
use tunesmith_api::ai_platform::plan::with_trial_counts;
use tunesmith_config::HptuningConfig;
use tunesmith_domain::Job;
use tunesmith_jobs::{Extension, Jobs};
use tunesmith_jobs::{Submission, Submitted};

#[derive(Debug, Args)]
pub(super) struct AgainArgs {
    /// Rerun the failed and lost trials of a job. Without --job-id, the newest job with the same content.
    #[arg(long)]
    retry: bool,
    /// Total number of trials; overrides maxTrials. With the name of an existing job, extends it: 20 for twenty trials
    /// in total, +10 for ten more.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    trials: Option<TrialCount>,
}

impl AgainArgs {
    /// The given total number of trials.
    #[cfg(feature = "vizier")]
    pub(super) fn total(&self) -> anyhow::Result<Option<i32>> {
        match self.trials {
            Some(TrialCount::Total(count)) => Ok(Some(i32::try_from(count).context("--trials")?)),
            _ => Ok(None),
        }
    }

    /// Overrides the number of trials in `config`.
    pub(super) fn apply(&self, config: &mut HptuningConfig) -> anyhow::Result<()> {
        let Some(trials) = self.trials else { return Ok(()) };
        let Some(hyperparameters) = &mut config.training_input.hyperparameters else {
            bail!("--trials: the configuration has no hyperparameters");
        };
        if let TrialCount::Total(count) = trials {
            hyperparameters.max_trials = Some(i32::try_from(count).context("--trials")?);
        }
        Ok(())
    }

    /// Submits the job. An existing job is retried or extended, as requested.
    pub(super) async fn submit(&self, jobs: &Jobs, mut submission: Submission) -> anyhow::Result<Submitted> {
        let needs_job = self.retry || matches!(self.trials, Some(TrialCount::More(_)));
        if needs_job && submission.id.is_none() {
            let found = jobs.newest_like(&submission).await?;
            let Some(job) = found else {
                bail!("there is no job of this configuration and command to retry or extend; name one with --job-id");
            };
            submission.id = Some(job.id.clone());
        }
        if let (Some(id), true) = (&submission.id, needs_job) {
            let now = jobs.job(id).await?.plan()?.max_trials;
            let total = self.trials.map_or(now.max(submission.plan.max_trials), |trials| trials.total(now));
            submission.plan.max_trials = total;
            submission.training_input = with_trial_counts(&submission.training_input, Some(total), None);
        }
        let wanted = submission.plan.max_trials;
        let submitted = jobs.submit(submission, rand::rng().next_u64()).await?;
        let (mut job, is_finished) = match submitted {
            Submitted::Created(_) => return Ok(submitted),
            Submitted::Resumed(job) => (job, false),
            Submitted::Finished(job) => (job, true),
        };
        let mut is_changed = false;
        let now = job.plan()?.max_trials;
        if self.retry && (is_finished || job.study.is_some()) {
            job = jobs.retry(&job.id).await?;
            notice(&format!("job {}: its failed trials run again", job.id));
            is_changed = true;
        }
        if wanted > now {
            job = extended(jobs, &job, wanted).await?;
            notice(&format!("job {}: extended from {now} to {wanted} trials", job.id));
            is_changed = true;
        } else if wanted < now {
            notice(&format!("job {}: it keeps its {now} trials, because the number can only be raised", job.id));
        }
        Ok(if is_finished && !is_changed { Submitted::Finished(job) } else { Submitted::Resumed(job) })
    }
}

async fn extended(jobs: &Jobs, job: &Job, max_trials: u64) -> anyhow::Result<Job> {
    let training_input = with_trial_counts(&job.training_input, Some(max_trials), None);
    let extension =
        Extension { max_trials: Some(max_trials), max_parallel_trials: None, training_input, revision: None };
    Ok(jobs.extend(&job.id, extension).await?)
}
