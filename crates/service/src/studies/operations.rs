//! Suggestions as long-running operations: a request that takes longer than its client waits continues in the background.
//!
//! An operation is identified by its content, so it survives a restart of the server: an operation that this process does
//! not know is started again, and returns the trials that the client owns already.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use super::{Studies, StudiesError, Suggested, SuggestionRequest};
use tunesmith_domain::StudyId;

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
    fn lock(&self) -> MutexGuard<'_, HashMap<SuggestionOperation, watch::Receiver<SuggestionProgress>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Studies {
    /// Starts a suggestion, and waits for it up to 100 ms; after that it continues in the background.
    ///
    /// # Errors
    /// [`StudiesError`] if the suggestion failed within that time.
    pub async fn start_suggestion(
        self: &Arc<Self>,
        operation: &SuggestionOperation,
    ) -> Result<SuggestionProgress, StudiesError> {
        let mut work = Box::pin({
            let (studies, operation) = (Arc::clone(self), operation.clone());
            async move { studies.suggest(&operation.study, &operation.request).await }
        });
        if let Ok(outcome) = tokio::time::timeout(INLINE_LIMIT, &mut work).await {
            return outcome.map(|suggested| SuggestionProgress::Done {
                suggested: Box::new(suggested),
                end_time: self.clock.now(),
            });
        }
        self.continue_in_background(operation, work);
        Ok(SuggestionProgress::Running)
    }

    /// The progress of an operation. An operation that this process does not know is started again.
    ///
    /// # Errors
    /// [`tunesmith_store::StoreError::NotFound`] if an operation is started whose study does not exist.
    pub async fn suggestion_progress(
        self: &Arc<Self>,
        operation: &SuggestionOperation,
    ) -> Result<SuggestionProgress, StudiesError> {
        let known = self.operations.lock().get(operation).map(|progress| progress.borrow().clone());
        if let Some(progress) = known {
            return Ok(progress);
        }
        self.store.study(&operation.study).await?;
        let work = {
            let (studies, operation) = (Arc::clone(self), operation.clone());
            async move { studies.suggest(&operation.study, &operation.request).await }
        };
        Ok(self.continue_in_background(operation, work))
    }

    fn continue_in_background(
        self: &Arc<Self>,
        operation: &SuggestionOperation,
        work: impl Future<Output = Result<Suggested, StudiesError>> + Send + 'static,
    ) -> SuggestionProgress {
        let (sender, receiver) = watch::channel(SuggestionProgress::Running);
        self.operations.lock().insert(operation.clone(), receiver);
        let (studies, operation) = (Arc::clone(self), operation.clone());
        tokio::spawn(async move {
            let progress = match work.await {
                Ok(suggested) => {
                    SuggestionProgress::Done { suggested: Box::new(suggested), end_time: studies.clock.now() }
                }
                Err(error) => SuggestionProgress::Failed(Arc::new(error)),
            };
            sender.send_replace(progress);
            tokio::time::sleep(RESULT_RETENTION).await;
            studies.operations.lock().remove(&operation);
        });
        SuggestionProgress::Running
    }
}
