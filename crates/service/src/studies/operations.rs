//! Suggestions as long-running operations: a request that takes longer than its client waits continues in the background.
//!
//! An operation that continues in the background is first stored as pending, so that the next process continues it.
//! Reading an operation changes nothing: its name contains its content, and anyone who may read can make up names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{oneshot, watch};

use super::pending::{self, Elsewhere};
use super::{Studies, StudiesError, Suggested, SuggestionRequest, refuse_study_of_job};
use tunesmith_domain::{StudyId, StudyState};

/// A suggestion that is ready within this time is returned at once (a guess: above the time of most suggestions, below
/// what a client notices).
const INLINE_LIMIT: Duration = Duration::from_millis(100);

/// Time for which the result of an operation is kept in memory after it ended.
const RESULT_RETENTION: Duration = Duration::from_secs(600);

/// The identity of a suggestion operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SuggestionOperation {
    /// The study.
    pub study: StudyId,
    /// The request.
    pub request: SuggestionRequest,
    /// Time of the request.
    pub start_time: Timestamp,
}

/// The progress of a suggestion operation.
#[derive(Debug, Clone)]
pub enum SuggestionProgress {
    /// The suggestion is being computed.
    Running,
    /// The suggestion failed.
    Failed(Arc<StudiesError>),
    /// The suggestion is complete.
    Done {
        /// The result.
        suggested: Box<Suggested>,
        /// Time at which it was complete.
        end_time: Timestamp,
    },
}

/// The operations of this process that did not end within [`INLINE_LIMIT`].
#[derive(Default)]
pub(super) struct SuggestionOperations(Mutex<HashMap<SuggestionOperation, watch::Receiver<SuggestionProgress>>>);

impl SuggestionOperations {
    /// The progress of `operation`, if this process knows it.
    pub(super) fn of(&self, operation: &SuggestionOperation) -> Option<watch::Receiver<SuggestionProgress>> {
        self.lock().get(operation).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SuggestionOperation, watch::Receiver<SuggestionProgress>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Studies {
    /// Starts a suggestion, and waits for it up to 100 ms; after that it continues in the background. `held` is dropped
    /// when the suggestion has ended.
    ///
    /// # Errors
    /// [`StudiesError`] if the suggestion failed within that time, or could not be stored as pending.
    pub async fn start_suggestion(
        self: &Arc<Self>,
        operation: &SuggestionOperation,
        held: impl Send + 'static,
    ) -> Result<SuggestionProgress, StudiesError> {
        let mut work = Box::pin(Arc::clone(self).cancellable(operation));
        if let Ok(outcome) = tokio::time::timeout(INLINE_LIMIT, &mut work).await {
            return outcome.map(|suggested| SuggestionProgress::Done {
                suggested: Box::new(suggested),
                end_time: self.clock.now(),
            });
        }
        let (storing, is_stored) = oneshot::channel();
        let work = async move {
            let outcome = work.await;
            drop(held);
            outcome
        };
        self.continue_in_background(operation, work, is_stored);
        let stored = self.pending.put(operation).await;
        drop(storing);
        stored.map_err(StudiesError::Pending)?;
        Ok(SuggestionProgress::Running)
    }

    /// Continues the suggestions that an earlier process has accepted and not completed. Returns their number.
    ///
    /// # Errors
    /// [`StudiesError::Pending`] if they cannot be read.
    pub async fn resume_suggestions(self: &Arc<Self>) -> Result<usize, StudiesError> {
        let operations = self.pending.all().await.map_err(StudiesError::Pending)?;
        operations.iter().for_each(|operation| self.resume(operation));
        Ok(operations.len())
    }

    /// The suggestion of `operation`, which [`Self::cancel_suggestion`] can end from now on. It also ends if it is dropped.
    fn cancellable(
        self: Arc<Self>,
        operation: &SuggestionOperation,
    ) -> impl Future<Output = Result<Suggested, StudiesError>> + Send + use<> {
        let (registered, operation) = (self.cancellations.register(operation), operation.clone());
        async move {
            let SuggestionOperation { study, request, .. } = &operation;
            self.suggest_unless_cancelled(study, request, &registered.cancellation).await
        }
    }

    /// Requests the end of a suggestion that this process computes; has no effect on others. Trials that were assigned already
    /// stay the client's.
    pub fn cancel_suggestion(&self, operation: &SuggestionOperation) {
        self.cancellations.cancel(operation);
    }

    /// Continues a stored operation, unless this process does so already.
    fn resume(self: &Arc<Self>, operation: &SuggestionOperation) {
        let work = Arc::clone(self).cancellable(operation);
        let (_, is_stored) = oneshot::channel();
        self.continue_in_background(operation, work, is_stored);
    }

    /// The progress of an operation, as it is known: changes no trial. The result of an operation that this process does
    /// not know is the client's unfinished trials; `None` if there are none.
    ///
    /// # Errors
    /// [`tunesmith_store::StoreError::NotFound`] if the study does not exist, [`StudiesError::OfJob`].
    pub async fn suggestion_progress(
        self: &Arc<Self>,
        operation: &SuggestionOperation,
    ) -> Result<Option<SuggestionProgress>, StudiesError> {
        let known = self.operations.of(operation).map(|progress| progress.borrow().clone());
        if known.is_some() {
            return Ok(known);
        }
        refuse_study_of_job(&operation.study)?;
        match self.pending.elsewhere(operation).await.map_err(StudiesError::Pending)? {
            Some(Elsewhere::Running) => return Ok(Some(SuggestionProgress::Running)),
            Some(Elsewhere::Abandoned) => {
                self.resume(operation);
                return Ok(Some(SuggestionProgress::Running));
            }
            None => {}
        }
        let (study, mut trials, _) = self.open_trials(&operation.study, &operation.request.client_id).await?;
        trials.truncate(operation.request.count.get());
        if trials.is_empty() && study.state == StudyState::Active {
            return Ok(None);
        }
        let end_time = trials.iter().map(|trial| trial.create_time).max().unwrap_or(operation.start_time);
        Ok(Some(SuggestionProgress::Done { suggested: Box::new(Suggested { study, trials }), end_time }))
    }

    /// Publishes the progress of `work`. Once it has ended and `is_stored` is closed, it is no longer pending.
    fn continue_in_background(
        self: &Arc<Self>,
        operation: &SuggestionOperation,
        work: impl Future<Output = Result<Suggested, StudiesError>> + Send + 'static,
        is_stored: oneshot::Receiver<()>,
    ) {
        let (sender, receiver) = watch::channel(SuggestionProgress::Running);
        self.operations.lock().insert(operation.clone(), receiver);
        let (studies, operation) = (Arc::clone(self), operation.clone());
        tokio::spawn(async move {
            let mut work = std::pin::pin!(work);
            let outcome = loop {
                match tokio::time::timeout(pending::RENEWAL, &mut work).await {
                    Ok(outcome) => break outcome,
                    Err(_) => studies.pending.renew(&operation).await,
                }
            };
            let progress = match outcome {
                Ok(suggested) => {
                    SuggestionProgress::Done { suggested: Box::new(suggested), end_time: studies.clock.now() }
                }
                Err(error) => SuggestionProgress::Failed(Arc::new(error)),
            };
            let _ = is_stored.await;
            studies.pending.remove(&operation).await;
            sender.send_replace(progress);
            tokio::time::sleep(RESULT_RETENTION).await;
            studies.operations.lock().remove(&operation);
        });
    }
}
