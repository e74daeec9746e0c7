//! Has the executor remove what is left of attempts that are over.

use std::convert::Infallible;
use std::time::Duration;

use super::Jobs;

/// Time between two sweeps. A guess: what is left costs places of a cluster.
const INTERVAL: Duration = Duration::from_secs(120);

impl Jobs {
    /// Sweeps immediately and then every two minutes.
    pub(super) async fn sweep_executor(&self) -> Infallible {
        let mut due = tokio::time::interval(INTERVAL);
        due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            due.tick().await;
            if let Err(error) = self.services.executor.sweep().await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "ended attempts could not be removed from their executor yet; retrying");
            }
        }
    }
}
