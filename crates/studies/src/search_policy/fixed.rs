//! Points with fixed parameters.

use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;

use futures::TryStreamExt;
use tunesmith_algorithms::designer::{DesignerError, History, SuggestRequest};
use tunesmith_algorithms::designers::suggest_with_fixed;
use tunesmith_algorithms::interruption::Interruption;
use tunesmith_algorithms::problem::{CompletedTrial, FixedParameters, PendingTrial, TrialSuggestion};

use super::{SearchPolicy, SearchPolicyError, bounded, error_text, outcome};
use tunesmith_domain::{Algorithm, Study, TrialState};
use tunesmith_store::pages;
use tunesmith_telemetry::{SuggestionSource, telemetry};

/// A point with fixed parameters.
pub(crate) struct FixedSuggestion {
    pub(crate) point: TrialSuggestion,
    /// Failure of the study's algorithm, if random search supplied the point.
    pub(crate) failure: Option<String>,
}

impl SearchPolicy {
    /// Point with the values of `fixed` for the next trial of `study`; `None` if every one was tried. Reads the trials of
    /// the study; those of continued studies are not used. The computation ends when the future is dropped.
    pub(crate) async fn suggest_with_fixed(
        &self,
        study: &Study,
        fixed: &FixedParameters,
    ) -> Result<Option<FixedSuggestion>, SearchPolicyError> {
        let mut trials = Trials::default();
        let mut pages = pin!(pages::trials_by_page(&*self.store, study));
        while let Some(page) = pages.try_next().await? {
            for trial in page.iter().filter(|trial| trial.state != TrialState::Deleted) {
                let (id, parameters) = (trial.id, trial.parameters.clone());
                if trial.state.is_final() {
                    let outcome = outcome(trial, &study.problem);
                    trials.completed.push(CompletedTrial { id, parameters, outcome });
                } else {
                    trials.pending.push(PendingTrial { id, parameters });
                }
            }
            tokio::task::yield_now().await;
        }
        let processor = Arc::clone(&self.processors).acquire_owned().await;
        let processor = processor.expect("the semaphore is never closed");
        let (own, values) = (study.clone(), fixed.clone());
        let interruption = Interruption::default();
        let request = interruption.clone();
        let computing = tokio::task::spawn_blocking(move || {
            let _processor = processor;
            let suggest = |algorithm: &Algorithm| {
                let next = SuggestRequest::one(own.next_trial_id);
                let problem = (&*own.problem, own.seed);
                suggest_with_fixed(algorithm, problem, &values, trials.as_history(), next, &request)
            };
            match suggest(&own.algorithm) {
                Err(DesignerError::Interrupted) => Err(DesignerError::Interrupted),
                Err(error) => suggest(&Algorithm::RandomSearch).map(|points| (points, Some(error_text(&error)))),
                Ok(points) => Ok((points, None)),
            }
        });
        let (computed, is_late) = bounded::bounded(computing, &interruption, Some(self.max_time)).await;
        let computed = computed.map_err(|source| SearchPolicyError::Interrupted { study: study.id.clone(), source })?;
        let (points, failure) = computed.map_err(|source| match source {
            DesignerError::Interrupted if is_late => {
                SearchPolicyError::TooLong { study: study.id.clone(), count: NonZeroUsize::MIN, limit: self.max_time }
            }
            DesignerError::Interrupted => SearchPolicyError::Cancelled(study.id.clone()),
            source => SearchPolicyError::Designer { study: study.id.clone(), source },
        })?;
        let source = if failure.is_some() { SuggestionSource::Fallback } else { SuggestionSource::Computed };
        telemetry().suggested(study.algorithm.as_str(), source, points.len());
        if let Some(failure) = &failure {
            tracing::error!(study.name = %study.id, error = failure, "a search algorithm failed");
        }
        Ok(points.into_iter().next().map(|point| FixedSuggestion { point, failure }))
    }
}

#[derive(Default)]
struct Trials {
    completed: Vec<CompletedTrial>,
    pending: Vec<PendingTrial>,
}

impl Trials {
    fn as_history(&self) -> History<'_> {
        History { completed: &self.completed, pending: &self.pending }
    }
}
