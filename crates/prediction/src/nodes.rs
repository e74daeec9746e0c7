//! The workers that all versions of a server share, and their time limits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Time limits of predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PredictionTimes {
    /// From the arrival of a request to its response; 60 s in AI Platform, from memory.
    pub request: Duration,
    /// Loading of a model. A guess.
    pub load: Duration,
    /// After which an idle worker above the minimum ends. A guess.
    pub idle: Duration,
    /// Interval and time limit of the health checks of containers; of AI Platform.
    pub health: Duration,
}

impl Default for PredictionTimes {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(60),
            load: Duration::from_secs(600),
            idle: Duration::from_secs(300),
            health: Duration::from_secs(10),
        }
    }
}

/// Workers of all versions on this server.
#[derive(Debug)]
pub(crate) struct Nodes {
    free: Arc<Semaphore>,
    pub(crate) limit: usize,
    /// Changes when a version waits for a worker that others may give up.
    pub(crate) wanted: watch::Sender<u64>,
}

impl Nodes {
    pub(crate) fn new(limit: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(limit)), limit, wanted: watch::channel(0).0 }
    }

    pub(crate) async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(permit);
        }
        self.wanted.send_modify(|wanted| *wanted += 1);
        Arc::clone(&self.free).acquire_owned().await.ok()
    }
}
