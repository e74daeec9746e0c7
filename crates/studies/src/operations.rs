//! Suggestions as long-running operations, which continue in the background after the client's wait.
//!
//! Background operations are first stored as pending, so that the next process can resume them. Reads have no side
//! effects: an operation's name encodes its content, so any reader could invent one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};

use super::pending::{self, RemoteState};
use super::{Studies, StudiesError, Suggested, SuggestionOperation, refuse_study_of_job};
use tunesmith_domain::StudyState;

/// Time to wait for a suggestion before it moves to the background (a guess: above the duration of most suggestions,
/// below what a client notices).
const INLINE_LIMIT: Duration = Duration::from_millis(100);

/// Time to cache the result of an ended operation.
const RESULT_RETENTION: Duration = Duration::from_secs(600);

#[derive(Debug, Clone)]
pub enum SuggestionProgress {
    Running,
    Failed(Arc<StudiesError>),
    Done { suggested: Box<Suggested>, end_time: Timestamp },
}

/// This process's operations that exceeded [`INLINE_LIMIT`].
#[derive(Default)]
pub(super) struct SuggestionOperations(Mutex<HashMap<SuggestionOperation, watch::Receiver<SuggestionProgress>>>);

impl SuggestionOperations {
    /// Progress of `operation`, if known to this process.
    pub(super) fn of(&self, operation: &SuggestionOperation) -> Option<watch::Receiver<SuggestionProgress>> {
        self.lock().get(operation).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SuggestionOperation, watch::Receiver<SuggestionProgress>>> {
        self.0.lock()
    }
}

impl Studies {
    /// Starts a suggestion and waits up to 100 ms before moving it to the background. Drops `held` at the end of the
    /// suggestion.
    ///
    /// # Errors
    /// If the suggestion failed within that time, or could not be stored as pending.
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

    /// Resumes suggestions accepted but not completed by an earlier process; returns their number.
    pub async fn resume_suggestions(self: &Arc<Self>) -> Result<usize, StudiesError> {
        let operations = self.pending.all().await.map_err(StudiesError::Pending)?;
        operations.iter().for_each(|operation| self.resume(operation));
        Ok(operations.len())
    }

    /// Starts the suggestion of `operation`, which ends on [`Self::cancel_suggestion`] or when dropped.
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

    /// Cancels a suggestion computed by this process; no effect on others. Trials already assigned remain the client's.
    pub fn cancel_suggestion(&self, operation: &SuggestionOperation) {
        self.cancellations.cancel(operation);
    }

    /// Resumes a stored operation, unless it is running in this process.
    fn resume(self: &Arc<Self>, operation: &SuggestionOperation) {
        let work = Arc::clone(self).cancellable(operation);
        let (_, is_stored) = oneshot::channel();
        self.continue_in_background(operation, work, is_stored);
    }

    /// Progress of an operation, without side effects. For an unknown operation, the result is the client's unfinished
    /// trials; `None` if there are none.
    ///
    /// # Errors
    /// [`tunesmith_store::StoreError::NotFound`] for a missing study, [`StudiesError::OfJob`].
    pub async fn suggestion_progress(
        self: &Arc<Self>,
        operation: &SuggestionOperation,
    ) -> Result<Option<SuggestionProgress>, StudiesError> {
        let known = self.operations.of(operation).map(|progress| progress.borrow().clone());
        if known.is_some() {
            return Ok(known);
        }
        refuse_study_of_job(&operation.study)?;
        match self.pending.remote_state(operation).await.map_err(StudiesError::Pending)? {
            Some(RemoteState::Running) => return Ok(Some(SuggestionProgress::Running)),
            Some(RemoteState::Abandoned) => {
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

    /// Publishes the progress of `work`. After its end and the closing of `is_stored`, it is no longer pending.
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
