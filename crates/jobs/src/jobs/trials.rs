//! User control of trials: stopping and adding.

use tunesmith_algorithms::problem::{ParameterValues, TrialId};

use super::{Jobs, JobsError, wrong_state};
use crate::TrialKey;
use crate::runner::JobServices;
use tunesmith_domain::{Job, JobId, JobState, Study, TrialChange, TrialStart, TrialState};
use tunesmith_studies::{TrialOfStudy, UserTrial, add_trial, request_of_trial};

impl Jobs {
    /// Study of the job.
    ///
    /// # Errors
    /// [`StoreError::NotFound`](tunesmith_store::StoreError::NotFound), [`JobsError::NoStudy`].
    pub async fn study_of(&self, id: &JobId) -> Result<Study, JobsError> {
        let job = self.services.store.job(id).await?;
        let study = job.study.as_ref().ok_or_else(|| JobsError::NoStudy(id.clone()))?;
        Ok(self.services.store.study(study).await?)
    }

    /// Stops a trial: its program ends, and the last measurement becomes the result. Without a measurement there is no
    /// result, but no failure either. The job continues with the next trial. No effect on an ended trial.
    ///
    /// # Errors
    /// [`StoreError::NotFound`](tunesmith_store::StoreError::NotFound), [`JobsError::NoStudy`];
    /// [`StoreError::Refused`](tunesmith_store::StoreError::Refused) for a user-added trial that has not started.
    pub async fn stop_trial(&self, id: &JobId, trial: TrialId) -> Result<TrialOfStudy, JobsError> {
        let JobServices { store, live, claims, .. } = &*self.services;
        let study = self.study_of(id).await?;
        let trial = store.change_trial(&study.id, trial, TrialChange::Stop { predicted_final: None }).await?;
        if trial.state == TrialState::Stopping {
            // The job may run on this server or another.
            live.note_changed(&TrialKey { study: study.id.clone(), trial: trial.id });
            claims.announce_measurements(&study.id, trial.id).await;
        }
        Ok(TrialOfStudy { study, trial })
    }

    /// Adds a user-supplied trial to an unfinished job. It runs before further suggestions and counts towards the job's
    /// trials. Idempotent: a repeated `request_key` returns the trial it created, if among the latest.
    ///
    /// # Errors
    /// [`StoreError::NotFound`](tunesmith_store::StoreError::NotFound), [`JobsError::NoStudy`],
    /// [`JobsError::ForeignPoint`], [`JobsError::NoTrialLeft`];
    /// [`StoreError::Refused`](tunesmith_store::StoreError::Refused) if the job or its study has ended, the job is
    /// being cancelled, or the key belongs to a different request.
    pub async fn add_trial(
        &self,
        id: &JobId,
        parameters: ParameterValues,
        request_key: Option<String>,
    ) -> Result<TrialOfStudy, JobsError> {
        let _admission = self.admission.lock().await;
        let running = self.until_not_ending(id).await?;
        // Keeps the run from ending the job before it learns of the trial.
        let _ending = match &running {
            Some(running) => Some(running.ending.lock().await),
            None => None,
        };
        let JobServices { store, clock, claims, .. } = &*self.services;
        let job = store.job(id).await?;
        let study = job.study.as_ref().ok_or_else(|| JobsError::NoStudy(id.clone()))?;
        let request_key = request_key.map(|key| request_of_trial(key, &parameters, None));
        let start = |study: &Study| {
            check_goes_on(&job, study)?;
            study.problem.search_space().check(&parameters).map_err(JobsError::ForeignPoint)?;
            Ok::<_, JobsError>(TrialStart::Requested)
        };
        let trial = UserTrial { parameters: parameters.clone(), client_id: String::new(), request_key };
        let added = add_trial(&**store, study, trial, clock.now(), start).await?;
        match &running {
            Some(running) => running.added.notify_one(),
            None => claims.announce().await,
        }
        Ok(added)
    }
}

/// Refuses a job whose study accepts no more trials.
fn check_goes_on(job: &Job, study: &Study) -> Result<(), JobsError> {
    if job.state.is_final() || job.state == JobState::Cancelling {
        return Err(wrong_state(job, "add a trial to"));
    }
    let max_trials = job.plan()?.max_trials;
    if study.next_trial_id.0 > max_trials {
        return Err(JobsError::NoTrialLeft { id: job.id.clone(), max_trials });
    }
    Ok(())
}
