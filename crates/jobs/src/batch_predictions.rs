//! Batch predictions, as the runner uses them.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tunesmith_domain::{Code, Job, Refusal};
use tunesmith_store::{Store, StoreError};

/// Runs batch predictions. Thread-safe.
///
/// The runner calls [`Self::prepare`], then [`Self::run`]; dropping either future ends its workers. A later run of the
/// same job, also by another server, continues after the finished parts.
#[async_trait]
pub trait BatchPredictions: Send + Sync + 'static {
    /// Finds the model and the input files.
    async fn prepare(&self, run: &BatchRun) -> Result<(), BatchError>;

    /// Predicts all instances, and records the counts of finished parts in the job.
    async fn run(&self, run: &BatchRun) -> Result<(), BatchError>;

    /// Removes what an ended job has left on this server, except its results. Failures are logged.
    async fn end(&self, job: &Job);

    /// Forgets a job that is being deleted.
    async fn forget(&self, job: &Job) -> Result<(), StoreError>;
}

/// One run of a job.
pub struct BatchRun {
    pub job: Job,
    /// Refuses changes once another server runs the job.
    pub store: Arc<dyn Store>,
    /// Log of the run.
    pub output: PathBuf,
    /// Log of what the workers print.
    pub worker_output: PathBuf,
}

/// Why a run has ended early.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The job fails, with this text for its user.
    #[error("{0}")]
    Failed(String),
    /// The job stays unfinished, and is run again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of this server, or of the output, cannot be written. The job stays unfinished, and is run again.
    #[error("cannot {operation} {path}")]
    Files {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl From<Refusal> for BatchError {
    /// Failures of the store are temporary.
    fn from(refusal: Refusal) -> Self {
        match refusal.code {
            Code::Unavailable | Code::Internal | Code::Aborted => {
                Self::Store(StoreError::NotApplied { operation: "read a model", source: refusal.message.into() })
            }
            _ => Self::Failed(refusal.message),
        }
    }
}

/// Refuses batch predictions.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBatchPredictions;

#[async_trait]
impl BatchPredictions for NoBatchPredictions {
    async fn prepare(&self, _run: &BatchRun) -> Result<(), BatchError> {
        Err(BatchError::Failed("this process runs no batch predictions".to_owned()))
    }

    async fn run(&self, run: &BatchRun) -> Result<(), BatchError> {
        self.prepare(run).await
    }

    async fn end(&self, _job: &Job) {}

    async fn forget(&self, _job: &Job) -> Result<(), StoreError> {
        Ok(())
    }
}
