//! Submission of attempts, including those their engine has accepted but not started.

use super::outage::Reach;
use super::{Context, RunError, attempt_directory, not_started};
use crate::JobEvent;
use crate::live_trials::LiveTrial;
use crate::resource_pool::Grant;
use crate::secret::attempt_token;
use crate::trainer::Launch;
use tunesmith_domain::{Trial, TrialId};
use tunesmith_executor::{Executor, ExecutorError, ExecutorJobId, ExecutorJobState};

impl Reach<'_> {
    /// Submits the attempt. Returns the state of a program that could not be started.
    pub(super) async fn submit(
        &self,
        trial: Option<&Trial>,
        id: &ExecutorJobId,
        grant: &Grant,
    ) -> Result<Option<ExecutorJobState>, RunError> {
        let Context { runner, job, plan, python, packages, .. } = self.context;
        let folder = match self.context.use_job_folder(id.trial).await {
            Ok(folder) => folder,
            Err(reason) => return Ok(Some(not_started(reason))),
        };
        let directory = match trial {
            Some(trial) => attempt_directory(&runner.directory, trial),
            None => runner.directory.join(format!("attempt-{}", id.attempt)),
        };
        let tracking = &runner.services.tracking;
        let variables = tracking.variables(&job.id, trial.map(|trial| trial.id)).await;
        let launch = Launch {
            folder: &folder,
            job,
            plan,
            trial,
            id: id.clone(),
            directory,
            python: python.as_deref(),
            packages: packages.as_ref(),
            endpoint: &runner.settings.endpoint,
            token: attempt_token(&runner.secret, id),
            grant,
        };
        let mut spec = launch.spec();
        spec.environment.extend(variables);
        let services = &runner.services;
        for replica in &mut spec.replicas {
            // The list may have changed since the submission of the job.
            replica.volumes.retain(|_, folder| services.allowed_folders.allows(job.id.parts().0, folder));
        }
        match self.call(|| runner.services.executor.submit(&spec)).await {
            Ok(()) => Ok(None),
            Err(ExecutorError::Rejected { reason, .. }) => Ok(Some(not_started(reason))),
            Err(error) => Err(error.into()),
        }
    }
}

/// State right after submission: waiting, or counted as running until [`Executor::changed`] reports otherwise.
pub(super) async fn after_submission(executor: &dyn Executor, id: &ExecutorJobId) -> ExecutorJobState {
    match executor.state(id).await {
        Ok(waiting @ ExecutorJobState::Waiting { .. }) => waiting,
        Ok(_) => ExecutorJobState::Running,
        Err(error) => {
            // The following wait fails too, unless the engine is back.
            tracing::debug!(executor.job = %id, error = &error as &dyn std::error::Error, "no state after a submission");
            ExecutorJobState::Running
        }
    }
}

/// Records and emits why the attempt waits; `None` if it does not.
pub(super) fn show_waiting(context: &Context, trial: TrialId, live: &LiveTrial, reason: Option<String>) {
    if live.set_waiting(reason.clone())
        && let Some(reason) = reason
    {
        context.emit(JobEvent::TrialWaiting { id: trial, reason });
    }
}

/// Why an attempt in `state` waits; `None` if it does not.
pub(super) fn waiting_reason(state: &ExecutorJobState) -> Option<String> {
    match state {
        ExecutorJobState::Waiting { reason } => Some(reason.clone()),
        _ => None,
    }
}
