//! Notices between servers, by LISTEN and NOTIFY. They are hints: each server also looks by itself, at longer intervals.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::watch;

use super::Core;

/// The channel of all notices of a database.
pub(super) const CHANNEL: &str = "tunesmith_jobs";

/// The pause before a lost connection is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// Counts the notices of other servers, and the times that some may have been missed. Ends with the receivers.
pub(super) fn listen(core: &Arc<Core>) -> watch::Receiver<u64> {
    let (counts, received) = watch::channel(0_u64);
    let options = core.sessions.options();
    core.runtime.spawn(async move {
        // The listener takes its connection from a pool.
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
        while !counts.is_closed() {
            let listening = async {
                let mut listener = PgListener::connect_with(&pool).await?;
                listener.listen(CHANNEL).await?;
                counts.send_modify(|count| *count += 1);
                while listener.try_recv().await?.is_some() {
                    counts.send_modify(|count| *count += 1);
                }
                Ok::<_, sqlx::Error>(())
            };
            tokio::select! {
                _ = listening => tokio::time::sleep(PAUSE).await,
                () = counts.closed() => {}
            }
        }
    });
    received
}
