//! The workers that versions and batch predictions of a server share, and their time limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// Purpose of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Requests wait for it.
    Online,
    Batch,
}

/// Workers on this server. They start in the order of their requests.
#[derive(Debug)]
pub(crate) struct Nodes {
    free: Arc<Semaphore>,
    /// Workers that batch predictions may have together.
    free_for_batch: Arc<Semaphore>,
    pub(crate) limit: usize,
    waiting: AtomicUsize,
    waiting_online: AtomicUsize,
    /// Changes when a worker is waited for, which others may give up.
    wanted: watch::Sender<u64>,
}

/// Right to run a worker, until dropped.
#[derive(Debug)]
pub(crate) struct BatchNode {
    _node: OwnedSemaphorePermit,
    _of_batch: OwnedSemaphorePermit,
}

/// Counts a waiting request until dropped.
struct Count<'a>(&'a AtomicUsize);

impl<'a> Count<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Nodes {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(limit)),
            free_for_batch: Arc::new(Semaphore::new(Self::batch_limit_of(limit))),
            limit,
            waiting: AtomicUsize::new(0),
            waiting_online: AtomicUsize::new(0),
            wanted: watch::channel(0).0,
        }
    }

    /// Workers that all batch predictions may have. One is left to online predictions, unless there is only one.
    pub(crate) fn batch_limit(&self) -> usize {
        Self::batch_limit_of(self.limit)
    }

    fn batch_limit_of(limit: usize) -> usize {
        limit.saturating_sub(1).max(limit.min(1))
    }

    pub(crate) async fn acquire(&self, purpose: Use) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(permit);
        }
        let _waiting = Count::new(&self.waiting);
        let _online = (purpose == Use::Online).then(|| Count::new(&self.waiting_online));
        self.wanted.send_modify(|wanted| *wanted += 1);
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    pub(crate) async fn acquire_for_batch(&self) -> Option<BatchNode> {
        let of_batch = Arc::clone(&self.free_for_batch).acquire_owned().await.ok()?;
        let node = self.acquire(Use::Batch).await?;
        Some(BatchNode { _node: node, _of_batch: of_batch })
    }

    /// Changes when a worker is waited for.
    pub(crate) fn wanted(&self) -> watch::Receiver<u64> {
        self.wanted.subscribe()
    }

    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Whether requests of online prediction wait for a worker to end.
    pub(crate) fn has_waiting_online(&self) -> bool {
        self.waiting_online.load(Ordering::Acquire) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn batch_predictions_leave_one_node_and_are_told_who_waits() {
        assert_eq!([0, 1, 2, 16].map(Nodes::batch_limit_of), [0, 1, 1, 15]);
        let nodes = Nodes::new(2);
        let batch = nodes.acquire_for_batch().await.unwrap();
        let online = nodes.acquire(Use::Online).await.unwrap();
        let mut second = std::pin::pin!(nodes.acquire(Use::Online));
        assert!(futures::poll!(&mut second).is_pending());
        assert!(nodes.has_waiting_online() && nodes.has_waiting());
        drop(batch);
        assert!(second.await.is_some());
        assert!(!nodes.has_waiting());
        drop(online);
    }
}
