//! Concurrency limits on long work, such as parsing a large request or rendering a long response.
//!
//! Half of the processors stay free for short requests, which would otherwise queue behind a step of every long one
//! each time they wait for the store.

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use tokio::sync::{Semaphore, SemaphorePermit};
use tunesmith_domain::{Code, Refusal};

static PERMITS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(permits()));

pub(crate) fn permits() -> usize {
    (std::thread::available_parallelism().map_or(1, NonZeroUsize::get) / 2).max(1)
}

/// Acquires a permit for some milliseconds of work, released on drop.
pub async fn permit() -> SemaphorePermit<'static> {
    PERMITS.acquire().await.expect("the semaphore is never closed")
}

/// Runs `work` on a blocking thread, without acquiring a [`permit`].
///
/// # Errors
/// [`Code::Internal`] if `work` panics.
pub async fn off_the_runtime<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "work on a blocking thread was not completed");
        Refusal::new(Code::Internal, "internal error; see the server's log")
    })
}
