//! Selection of the study that a trial command addresses.

use anyhow::{Context, bail};
use clap::Args;

use super::folder::Purpose;
use super::job_name::find_job_id;
use super::target::{LocationArgs, Service, TargetArgs};
use tunesmith_api::ai_platform::optimizer::{TrialMessage, TrialRequest};
use tunesmith_client::{Resource, StudyClient};
use tunesmith_domain::{JobId, StudyId};

/// Study with the trials.
#[derive(Debug, Args)]
pub(super) struct StudyArgs {
    /// Name of the study.
    #[arg(long, value_name = "STUDY", required_unless_present = "job", conflicts_with = "job")]
    study: Option<String>,
    /// Name of a job, or a unique prefix, instead of a study. The service runs its trials; they can be read, created
    /// and stopped.
    #[arg(long, value_name = "JOB")]
    job: Option<JobId>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    location: LocationArgs,
}

pub(super) struct Study {
    pub(super) service: Service,
    pub(super) client: StudyClient,
    pub(super) job: Option<String>,
}

impl StudyArgs {
    pub(super) fn job(&self) -> Option<&JobId> {
        self.job.as_ref()
    }

    /// Name of the study; empty if a job is given.
    pub(super) fn study(&self) -> &str {
        self.study.as_deref().unwrap_or_default()
    }

    pub(super) fn target(&self) -> &TargetArgs {
        &self.target
    }

    pub(super) fn region(&self) -> &str {
        &self.location.region
    }

    pub(super) async fn open(&self, purpose: Purpose) -> anyhow::Result<Study> {
        let Some(job) = &self.job else {
            let service = self.target.service(purpose).await?;
            let client = service.study(&self.location.region, self.study.as_deref().unwrap_or_default());
            return Ok(Study { service, client, job: None });
        };
        let service = self.target.service_of(job, purpose).await?;
        let id = find_job_id(&service, job).await?;
        let client = service.study(StudyId::JOBS_LOCATION, &id);
        Ok(Study { service, client, job: Some(id) })
    }
}

impl Study {
    /// Returns trial `number`. Trials of a job are read from the list: only the job's program may read a single one.
    pub(super) async fn trial(&self, number: &str) -> anyhow::Result<Resource<TrialMessage>> {
        if self.job.is_none() {
            return Ok(self.client.trial(checked(number)?).await?);
        }
        let trials = self.client.trials("").await?.message.trials;
        let is_named = |trial: &Resource<TrialMessage>| trial.name.rsplit('/').next() == Some(number);
        trials.into_iter().find(is_named).with_context(|| format!("the job has no trial {number}"))
    }

    pub(super) async fn create(&self, trial: &TrialRequest) -> anyhow::Result<Resource<TrialMessage>> {
        Ok(match &self.job {
            Some(job) => self.service.create_job_trial(job, trial).await?,
            None => self.client.create_trial(trial).await?,
        })
    }

    pub(super) async fn stop(&self, number: &str) -> anyhow::Result<Resource<TrialMessage>> {
        let number = checked(number)?;
        Ok(match &self.job {
            Some(job) => self.service.stop_job_trial(job, number).await?,
            None => self.client.stop(number).await?,
        })
    }
}

/// Validates the syntax of a trial number.
pub(super) fn checked(number: &str) -> anyhow::Result<&str> {
    if number.is_empty() || !number.chars().all(|digit| digit.is_ascii_digit() || digit == '~') {
        bail!("{number:?} is not the number of a trial");
    }
    Ok(number)
}
