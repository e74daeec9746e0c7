//! Selects the study whose trials a command addresses.

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

use super::error::ClientError;
use super::folder::Purpose;
use super::job_name::find_job_id;
use super::request::{last_segment, list, text};
use super::service::Client;
use super::target::{LocationArgs, TargetArgs};
use tunesmith_domain::{JobId, StudyId};

/// The study of the trials.
#[derive(Debug, Args)]
pub(super) struct StudyArgs {
    /// Name of the study.
    #[arg(long, value_name = "STUDY", required_unless_present = "job", conflicts_with = "job")]
    study: Option<String>,
    /// Name of a job, or the start of it, in place of a study. The service runs its trials: they can be read, created and stopped.
    #[arg(long, value_name = "JOB")]
    job: Option<JobId>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    location: LocationArgs,
}

/// A client with the path of a study.
pub(super) struct Study {
    pub(super) client: Client,
    pub(super) path: String,
    /// The path of the job that the study belongs to.
    pub(super) job: Option<String>,
}

impl StudyArgs {
    /// Opens the study for `purpose`.
    pub(super) async fn open(&self, purpose: Purpose) -> anyhow::Result<Study> {
        let (client, location, study): (Client, &str, String) = match (&self.job, &self.study) {
            (Some(job), _) => {
                let client = self.target.client_in(self.target.project_of(job), purpose).await?;
                let id = find_job_id(&client, job).await?;
                (client, StudyId::JOBS_LOCATION, id)
            }
            (None, study) => {
                let client = self.target.client(purpose).await?;
                (client, self.location.region.as_str(), study.clone().unwrap_or_default())
            }
        };
        let path = client.path(&["locations", location, "studies", &study]);
        let job = self.job.is_some().then(|| client.path(&["jobs", &study]));
        Ok(Study { client, path, job })
    }
}

impl Study {
    /// Returns all trials.
    pub(super) async fn trials(&self) -> anyhow::Result<Value> {
        Ok(self.client.get(&format!("{}/trials", self.path), &[]).await?)
    }

    /// Returns the trial that a model of the results recommends, with its prediction; null if there are too few results, or
    /// if the server is older than this view.
    pub(super) async fn recommended(&self) -> anyhow::Result<Value> {
        match self.client.get(&format!("{}/views/recommended", self.path), &[]).await {
            Ok(mut answer) => Ok(answer["view"]["recommended"].take()),
            Err(ClientError::Refused(refusal)) if refusal.code == "FAILED_PRECONDITION" || refusal.status == 404 => {
                Ok(Value::Null)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the trial `number`. The trial of a job is taken from the list, because the single resource is only
    /// accessible to its program.
    pub(super) async fn trial(&self, of: &StudyArgs, number: &str) -> anyhow::Result<Value> {
        if of.job.is_none() {
            return Ok(self.client.get(&self.trial_path(number)?, &[]).await?);
        }
        let trials = self.trials().await?;
        let found = list(&trials, "trials").iter().find(|trial| last_segment(text(trial, "name")) == number);
        found.cloned().with_context(|| format!("the job has no trial {number}"))
    }

    /// Returns the path below which trials are created and stopped.
    pub(super) fn path_of_changes(&self) -> &str {
        self.job.as_deref().unwrap_or(&self.path)
    }

    /// Stops the trial `number`.
    pub(super) async fn stop(&self, number: &str) -> anyhow::Result<Value> {
        check_number(number)?;
        let path = format!("{}/trials/{number}:stop", self.path_of_changes());
        Ok(self.client.post(&path, &[], json!({})).await?)
    }

    /// Calls `method` of the trial `number`.
    pub(super) async fn method(&self, number: &str, method: &str, body: Value) -> anyhow::Result<Value> {
        Ok(self.client.post(&format!("{}:{method}", self.trial_path(number)?), &[], body).await?)
    }

    /// Returns the path of the trial `number`.
    pub(super) fn trial_path(&self, number: &str) -> anyhow::Result<String> {
        check_number(number)?;
        Ok(format!("{}/trials/{number}", self.path))
    }
}

fn check_number(number: &str) -> anyhow::Result<()> {
    if number.is_empty() || !number.chars().all(|digit| digit.is_ascii_digit() || digit == '~') {
        bail!("{number:?} is not the number of a trial");
    }
    Ok(())
}
