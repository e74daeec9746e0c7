//! Running-trial limits across servers.
//!
//! A local grant takes effect once a transaction counts it among the running trials of all servers without exceeding a
//! limit. The reasons for waiting use the other servers' trials as last read.

use std::sync::Arc;
use std::time::Duration;

use tunesmith_domain::WaitKind;
use tunesmith_store::{RunningTrial, RunningTrials, StoreError};

use super::ResourcePool;

/// Retry interval while the store does not respond. A guess.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Running trials of all servers.
pub(super) struct Servers {
    running: Arc<dyn RunningTrials>,
    /// Serializes changes to this server's stored trials, so that a renewal cannot remove one being admitted.
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
    /// Counts the grant globally; returns whether the limits admit it. Waits while the store does not respond.
    pub(super) async fn admit(self: &Arc<Self>, ticket: u64) -> bool {
        let Some(servers) = &self.servers else { return true };
        loop {
            let guard = servers.exclusive.lock().await;
            let Some(trial) = self
                .state()
                .in_use
                .get(&ticket)
                .map(|held| RunningTrial { job: held.job.clone(), principal: held.principal.clone() })
            else {
                return false;
            };
            let (limits, own) = (self.state().limits.running, trial.clone());
            let admits = move |running: &[RunningTrial]| {
                let running = running.iter().map(|other| (&other.job, other.principal.as_deref()));
                limits.reached(&own.job, own.principal.as_deref(), running, true).is_none()
            };
            match servers.running.admit(ticket, &trial, Arc::new(admits)).await {
                Ok(admission) => {
                    let mut state = self.state();
                    state.others = admission.others;
                    if let Some(held) = state.in_use.get_mut(&ticket) {
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

    /// Renews this server's leases on running trials and reads the other servers' trials. Call it before starting any
    /// program, and several times per lease period.
    pub async fn renew(self: &Arc<Self>) -> Result<(), StoreError> {
        let Some(servers) = &self.servers else { return Ok(()) };
        let _guard = servers.exclusive.lock().await;
        let held: Vec<(u64, RunningTrial)> = {
            let state = self.state();
            let admitted = state.in_use.iter().filter(|(_, held)| held.is_admitted);
            let trial = |(ticket, held): (&u64, &super::GrantInUse)| {
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

    /// As [`Self::renew`], but only if something waits for a limit.
    pub async fn renew_if_limited(self: &Arc<Self>) -> Result<(), StoreError> {
        let waits = {
            let state = self.state();
            state.waiting.values().any(|waiter| matches!(waiter.reason, Some((WaitKind::Limit, _))))
        };
        if waits { self.renew().await } else { Ok(()) }
    }

    /// Removes a dropped grant from the global count.
    pub(super) fn end_admission(self: &Arc<Self>, ticket: u64) {
        if self.servers.is_none() {
            return;
        }
        // No runtime: the process is exiting, and its trials disappear with their leases.
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
