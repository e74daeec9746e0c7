//! The limits on running trials across several servers.
//!
//! A grant of this server takes effect once it is counted among the running trials of all servers, in a transaction that
//! admits no trial beyond the limits. The trials of other servers, as they were read last, count for the reasons to wait.

use std::sync::Arc;
use std::time::Duration;

use tunesmith_store::{RunningTrial, RunningTrials, StoreError};
use tunesmith_telemetry::WaitKind;

use super::ResourcePool;

/// The pause before an admission is tried again that the store could not answer. A guess.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The running trials of all servers.
pub(super) struct Servers {
    running: Arc<dyn RunningTrials>,
    /// Held while the trials of this server are changed in the store, so that a renewal does not remove one that is being
    /// admitted.
    exclusive: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Servers")
    }
}

impl Servers {
    pub(super) fn new(running: Arc<dyn RunningTrials>) -> Self {
        Self { running, exclusive: tokio::sync::Mutex::default() }
    }
}

impl ResourcePool {
    /// Counts the grant `ticket` among the running trials of all servers. Returns whether the limits admit it. Waits while
    /// the store does not answer.
    pub(super) async fn admit(self: &Arc<Self>, ticket: u64) -> bool {
        let Some(servers) = &self.servers else { return true };
        loop {
            let guard = servers.exclusive.lock().await;
            let Some(trial) = self
                .state()
                .held
                .get(&ticket)
                .map(|held| RunningTrial { job: held.job.clone(), principal: held.principal.clone() })
            else {
                return false;
            };
            let (limits, own) = (self.settings.limits, trial.clone());
            let admits = move |running: &[RunningTrial]| {
                let running = running.iter().map(|other| (&other.job, other.principal.as_deref()));
                limits.reached(&own.job, own.principal.as_deref(), running, true).is_none()
            };
            match servers.running.admit(ticket, &trial, Arc::new(admits)).await {
                Ok(admission) => {
                    let mut state = self.state();
                    state.others = admission.others;
                    if let Some(held) = state.held.get_mut(&ticket) {
                        held.is_admitted = admission.is_admitted;
                    }
                    return admission.is_admitted;
                }
                Err(error) => {
                    drop(guard);
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "the running trials of all servers cannot be counted; it is tried again"
                    );
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Renews the running trials of this server among those of all servers, and reads those of the others. To be called
    /// several times in a lease, and first before a program is started.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn renew(self: &Arc<Self>) -> Result<(), StoreError> {
        let Some(servers) = &self.servers else { return Ok(()) };
        let _guard = servers.exclusive.lock().await;
        let held: Vec<(u64, RunningTrial)> = {
            let state = self.state();
            let admitted = state.held.iter().filter(|(_, held)| held.is_admitted);
            let trial = |(ticket, held): (&u64, &super::Held)| {
                (*ticket, RunningTrial { job: held.job.clone(), principal: held.principal.clone() })
            };
            admitted.map(trial).collect()
        };
        let others = servers.running.renew(&held).await?;
        let mut state = self.state();
        state.others = others;
        self.settle(state);
        Ok(())
    }

    /// As [`Self::renew`], if something waits for a limit.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn look_again(self: &Arc<Self>) -> Result<(), StoreError> {
        let waits = {
            let state = self.state();
            state.waiting.values().any(|waiter| matches!(waiter.reason, Some((WaitKind::Limit, _))))
        };
        if waits { self.renew().await } else { Ok(()) }
    }

    /// No longer counts the grant `ticket`, which has been dropped, among the running trials of all servers.
    pub(super) fn end_admission(self: &Arc<Self>, ticket: u64) {
        if self.servers.is_none() {
            return;
        }
        // Without a runtime the process ends, and its trials with their leases.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let pool = Arc::clone(self);
        runtime.spawn(async move {
            let Some(servers) = &pool.servers else { return };
            let _guard = servers.exclusive.lock().await;
            if let Err(error) = servers.running.release(ticket).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "an ended trial counts as running until the next renewal");
            }
        });
    }
}
