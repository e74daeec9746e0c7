//! Trials of jobs that their users stop or add.

use tunesmith_algorithms::problem::{ParameterValues, TrialId};

use super::{Jobs, JobsError};
use crate::TrialKey;
use crate::runner::JobServices;
use crate::studies::{TrialOfStudy, created_by, request_of_trial};
use tunesmith_domain::{Job, JobId, JobState, NewTrial, Study, TransitionError, TrialChange, TrialStart, TrialState};
use tunesmith_store::StoreError;

impl Jobs {
    /// Returns the study of the job `id`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`JobsError::NoStudy`].
    pub async fn study_of(&self, id: &JobId) -> Result<Study, JobsError> {
        let job = self.services.store.job(id).await?;
        let study = job.study.as_ref().ok_or_else(|| JobsError::NoStudy { id: id.clone() })?;
        Ok(self.services.store.study(study).await?)
    }

    /// Stops a trial: its program ends, and its last measurement becomes its result. Without one it has no result, which
    /// does not count as a failure. The job goes on with the next trial. No effect on a trial that has ended.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`JobsError::NoStudy`]; [`StoreError::Refused`] if the trial was added by a user and has not
    /// started.
    pub async fn stop_trial(&self, id: &JobId, trial: TrialId) -> Result<TrialOfStudy, JobsError> {
        let JobServices { store, live, claims, .. } = &*self.services;
        let study = self.study_of(id).await?;
        let trial = store.change_trial(&study.id, trial, TrialChange::Stop).await?;
        if trial.state == TrialState::Stopping {
            // The run of the job may be one of this server, or of another one.
            live.note_changed(&TrialKey { study: study.id.clone(), trial: trial.id });
            claims.announce_measurements(&study.id, trial.id).await;
        }
        Ok(TrialOfStudy { study, trial })
    }

    /// Adds a user-supplied trial to a job that has not ended. It runs next, before suggestions of the algorithm, and counts as
    /// one of the job's trials. If a request with the same `request_key` created one of the latest trials, that trial is
    /// returned.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`JobsError::NoStudy`], [`JobsError::ForeignPoint`], [`JobsError::NoTrialLeft`];
    /// [`StoreError::Refused`] if the job or its study has ended, the job is being cancelled, or the key was used for another
    /// request.
    pub async fn add_trial(
        &self,
        id: &JobId,
        parameters: ParameterValues,
        request_key: Option<String>,
    ) -> Result<TrialOfStudy, JobsError> {
        let _admission = self.admission.lock().await;
        let running = self.until_not_ending(id).await?;
        // The run does not end the job before it knows the trial.
        let _ending = match &running {
            Some(running) => Some(running.ending.lock().await),
            None => None,
        };
        let JobServices { store, clock, claims, .. } = &*self.services;
        let request_key = request_key.map(|key| request_of_trial(key, &parameters, None));
        loop {
            let study = self.study_of(id).await?;
            if let Some(key) = &request_key
                && let Some(trial) = created_by(&**store, &study, &key.key).await?
            {
                trial.has_recorded(key).map_err(StoreError::from)?;
                return Ok(TrialOfStudy { study, trial });
            }
            check_goes_on(&store.job(id).await?, &study)?;
            study.problem.search_space().check(&parameters).map_err(JobsError::ForeignPoint)?;
            let trial = NewTrial {
                id: study.next_trial_id,
                parameters: parameters.clone(),
                origin: None,
                fallback_reason: None,
                client_id: String::new(),
                start: TrialStart::Requested,
                create_time: clock.now(),
                request_key: request_key.clone(),
            };
            let trial = match store.create_trial(&study.id, trial).await {
                // The run of the job has created this one.
                Err(StoreError::TrialIdTaken { .. }) => continue,
                created => created?,
            };
            match &running {
                Some(running) => running.added.notify_one(),
                None => claims.announce().await,
            }
            return Ok(TrialOfStudy { study, trial });
        }
    }
}

/// Refuses a job with `study` that gets no further trials.
fn check_goes_on(job: &Job, study: &Study) -> Result<(), JobsError> {
    if job.state.is_final() || job.state == JobState::Cancelling {
        return Err(StoreError::Refused(TransitionError::WrongState {
            resource: format!("job {}", job.id),
            state: job.state.to_string(),
            change: "add a trial to",
        })
        .into());
    }
    let max_trials = job.plan()?.max_trials;
    if study.next_trial_id.0 > max_trials {
        return Err(JobsError::NoTrialLeft { id: job.id.clone(), max_trials });
    }
    Ok(())
}
