//! Inter-process lock with a cancellable wait.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::thread;

use tokio::sync::oneshot;

/// Locks the file at `path`, created if absent, until the returned file and all copies of its descriptor are closed.
/// Calls `on_wait` if another process holds the lock.
pub(super) async fn exclusive_after(path: &Path, on_wait: impl FnOnce()) -> io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    on_wait();
    tracing::info!(lock.path = %path.display(), "waiting for another process that installs the same packages");
    let (sender, receiver) = oneshot::channel();
    // A separate thread, because a runtime thread would delay the exit of the program until the lock is free. If the
    // receiver is gone, the file is dropped, which releases the lock.
    thread::Builder::new().name("environment-lock".to_owned()).spawn(move || {
        let answer = file.lock().map(|()| file);
        drop(sender.send(answer));
    })?;
    receiver.await.unwrap_or_else(|_| Err(io::Error::other("the waiting thread ended")))
}

#[cfg(test)]
pub(super) async fn exclusive(path: &Path) -> io::Result<File> {
    exclusive_after(path, || {}).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::poll;

    #[tokio::test]
    async fn second_caller_waits_for_the_first_and_can_cancel() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = exclusive(&path).await.unwrap();

        let mut given_up = Box::pin(exclusive(&path));
        assert!(poll!(&mut given_up).is_pending());
        let mut second = Box::pin(exclusive(&path));
        assert!(poll!(&mut second).is_pending());
        drop(given_up);

        drop(first);
        let second = second.await.unwrap();
        assert!(poll!(Box::pin(exclusive(&path))).is_pending());
        drop(second);
        exclusive(&path).await.unwrap();
    }
}
