//! Suggestions in contexts: trials with parameters that the client fixes.

use std::cmp::Reverse;
use std::num::NonZeroUsize;

use super::Suggested;
use crate::search_policy::StudyEnd;
use crate::{Studies, StudiesError, SuggestionRequest, refuse_study_of_job};
use tunesmith_domain::{
    FixedParameters, Lease, NewTrial, Study, StudyId, StudyState, Trial, TrialChange, TrialStart, TrialState,
};
use tunesmith_store::StoreError;

impl Studies {
    /// Returns one unfinished trial of the client for each of `contexts`, in their order: a trial with the fixed values
    /// that the client owns, then a queued one, then a new one. There are fewer if the study ends. The contexts with
    /// the most fixed values choose first.
    ///
    /// # Errors
    /// [`StudiesError`], [`StudiesError::NoPointLeft`] for a context without untried points; trials assigned before the
    /// error remain the client's.
    pub async fn suggest_in_contexts(
        &self,
        id: &StudyId,
        request: &SuggestionRequest,
        contexts: &[FixedParameters],
    ) -> Result<Suggested, StudiesError> {
        refuse_study_of_job(id)?;
        let key = (id.clone(), request.client_id.clone());
        let _client = self.client_queues.enter(&key).await;
        let (mut study, own, queued) = {
            let _entered = self.study_queues.enter(id).await;
            self.open_trials(id, &request.client_id).await?
        };
        let mut open: Vec<Trial> = own.into_iter().chain(queued).collect();
        let mut trials: Vec<Option<Trial>> = vec![None; contexts.len()];
        let mut order: Vec<usize> = (0..contexts.len()).collect();
        order.sort_by_key(|&index| Reverse(contexts[index].values().len()));
        for index in order {
            let is_match = |trial: &Trial| contexts[index].agrees_with(&trial.parameters);
            while let Some(place) = open.iter().position(is_match) {
                trials[index] = self.claim(&study, open.remove(place), request).await?;
                if trials[index].is_some() {
                    break;
                }
            }
        }
        for (index, context) in contexts.iter().enumerate() {
            if trials[index].is_none() {
                (study, trials[index]) = self.new_in_context(id, request, (index, context)).await?;
            }
        }
        Ok(Suggested { study, trials: trials.into_iter().flatten().collect() })
    }

    /// Assigns the open `trial` to the client, or renews its lease; `None` if the trial has changed.
    async fn claim(
        &self,
        study: &Study,
        trial: Trial,
        request: &SuggestionRequest,
    ) -> Result<Option<Trial>, StudiesError> {
        let (at, steady) = (self.clock.now(), self.clock.steady());
        let change = if trial.state == TrialState::Requested {
            let lease = request.lease.or(study.trial_lease).map(|duration| Lease::starting(duration, steady));
            TrialChange::Assign { client_id: request.client_id.clone(), lease, at }
        } else if trial.lease.is_some() {
            TrialChange::Renew { attempt: trial.attempt, at: steady }
        } else {
            return Ok(Some(trial));
        };
        match self.store.change_trial(&study.id, trial.id, change).await {
            Ok(trial) => Ok(Some(trial)),
            Err(StoreError::Refused(_) | StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a trial in `context`, with its index; none if the study has ended.
    async fn new_in_context(
        &self,
        id: &StudyId,
        request: &SuggestionRequest,
        (index, context): (usize, &FixedParameters),
    ) -> Result<(Study, Option<Trial>), StudiesError> {
        loop {
            let entered = self.study_queues.enter(id).await;
            let study = self.store.study(id).await?;
            if study.state != StudyState::Active {
                return Ok((study, None));
            }
            let is_full = study.max_trials.is_some_and(|most| study.next_trial_id.0 > most);
            let end = if is_full { Some(StudyEnd::MaxTrials.as_str().to_owned()) } else { self.end_of(&study).await? };
            if let Some(reason) = end {
                return Ok((self.finish(&study, &reason).await?, None));
            }
            let lease = request.lease.or(study.trial_lease);
            if context.values().is_empty() {
                let suggestions = self.policy.suggest(&study, NonZeroUsize::MIN).await?;
                let (mut new, study) = self.new_trials(entered, study, suggestions, &request.client_id, lease).await?;
                match new.pop() {
                    Some(trial) => return Ok((study, Some(trial))),
                    None => continue,
                }
            }
            let found = self.policy.suggest_with_fixed(&study, context).await?;
            let Some(found) = found else {
                return Err(StudiesError::NoPointLeft { context: index, fixed: context.values().clone() });
            };
            let trial = NewTrial {
                id: study.next_trial_id,
                parameters: found.point.parameters,
                origin: Some(found.point.origin),
                fallback_reason: found.failure,
                fixed_parameters: context.values().keys().cloned().collect(),
                client_id: request.client_id.clone(),
                start: TrialStart::Started {
                    lease: lease.map(|duration| Lease::starting(duration, self.clock.steady())),
                },
                create_time: self.clock.now(),
                request_key: None,
            };
            match self.store.create_trials(id, vec![trial]).await {
                Ok(mut created) => return Ok((self.store.study(id).await?, created.pop())),
                // Another creation took the number.
                Err(StoreError::TrialIdTaken { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
