//! Resource pool shared by all programs of this process, and limits on running trials.
//!
//! A run obtains a grant before requesting a trial's parameters, so that the search uses every result available by
//! then. Grants are first-come, first-served. A request waiting for a limit does not block others; one waiting for
//! resources blocks later requests for the same kinds, which prevents starvation.
//!
//! Resources are counted, not enforced: a program exceeding its request is not stopped. Executors with their own
//! accounting get immediate grants. Limits apply to all executors.

mod admission;
mod inventory;
mod limits;
mod load;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::admission::Servers;
use self::inventory::{Blocked, Demand, Usage};
pub use self::inventory::{Capacity, Device};
pub use self::limits::RunningLimits;
pub use self::load::{DeviceLoad, ExecutorLoad, PoolLoad};
use tunesmith_domain::{JobId, Resources, TrialId, WaitKind, Waiting};
use tunesmith_executor::ExecutorJobId;
use tunesmith_store::{RunningTrial, RunningTrials};
use tunesmith_telemetry::telemetry;

/// Pool settings; the default neither counts nor limits anything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PoolSettings {
    pub capacity: Capacity,
    /// Executors that schedule resources themselves; `None` is the default executor.
    pub scheduled: BTreeSet<Option<String>>,
    /// Limits that [`ResourcePool::set_limits`] replaces.
    pub limits: PoolLimits,
    /// Per-executor limits on this server's trials.
    pub executor_limits: BTreeMap<String, NonZeroU32>,
    /// Executor of jobs without a named one.
    pub default_executor: String,
}

/// Limits on running and waiting trials.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolLimits {
    pub running: RunningLimits,
    /// Maximum wait of a job in the queue or a trial for a grant; `None` for unlimited.
    pub queue_deadline: Option<Duration>,
}

/// Resource request for one trial, or for a job without hyperparameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub job: JobId,
    /// `None` if the trial does not exist yet.
    pub trial: Option<TrialId>,
    pub principal: Option<String>,
    /// Executor of the job; `None` for the server's default.
    pub executor: Option<String>,
    /// Resources of each replica, the master first.
    pub replicas: Vec<Resources>,
    /// Number of trials waiting with this claim, at least 1; each gets its own grant in turn.
    pub trials: u64,
    /// Time of the request.
    pub since: Timestamp,
}

#[derive(Debug, Default)]
pub struct ResourcePool {
    /// Its limits are those of the start.
    settings: PoolSettings,
    state: Mutex<State>,
    /// Counter across servers; `None` for a single server or without limits.
    servers: Option<Servers>,
}

#[derive(Debug, Default)]
struct State {
    limits: PoolLimits,
    next_ticket: u64,
    waiting: BTreeMap<u64, Waiter>,
    in_use: HashMap<u64, GrantInUse>,
    /// Grants of programs started by an earlier process, not yet taken over by a run.
    reserved: HashMap<ExecutorJobId, Grant>,
    /// Running trials of other servers, as last read.
    others: Vec<RunningTrial>,
}

#[derive(Debug)]
struct Waiter {
    claim: Claim,
    sender: oneshot::Sender<Grant>,
    /// Reason for waiting; `None` before the first check.
    reason: Option<(WaitKind, String)>,
}

#[derive(Debug)]
struct GrantInUse {
    job: JobId,
    principal: Option<String>,
    executor: String,
    demand: Demand,
    devices: Vec<String>,
    /// Whether all servers count it.
    is_admitted: bool,
}

/// Allocated resources, freed on drop.
#[derive(Debug)]
pub struct Grant {
    pool: Arc<ResourcePool>,
    ticket: u64,
    /// Accelerators of each replica; `None` if not counted.
    devices: Option<Vec<Vec<String>>>,
    /// Program using the resources; they stay reserved for it if the grant is dropped.
    program: Option<ExecutorJobId>,
}

/// A waiting request, withdrawn on drop.
#[derive(Debug)]
pub struct PendingGrant {
    pool: Arc<ResourcePool>,
    ticket: u64,
    receiver: oneshot::Receiver<Grant>,
    /// Copy of the request, for resubmission if other servers use the granted capacity first.
    claim: Claim,
    requested: Instant,
    /// Local grant awaiting admission under the limits across servers.
    granted: Option<Grant>,
}

impl ResourcePool {
    pub fn new(settings: PoolSettings) -> Arc<Self> {
        Self::with_servers(settings, None)
    }

    fn with_servers(settings: PoolSettings, servers: Option<Servers>) -> Arc<Self> {
        let state = State { limits: settings.limits, ..State::default() };
        Arc::new(Self { settings, state: Mutex::new(state), servers })
    }

    /// A pool with limits across all servers counted by `running`.
    pub fn of_servers(settings: PoolSettings, running: Arc<dyn RunningTrials>) -> Arc<Self> {
        let servers = (settings.limits.running != RunningLimits::default()).then(|| Servers::new(running));
        Self::with_servers(settings, servers)
    }

    /// Replaces the limits, and grants the requests that the new ones admit. A deadline applies to jobs that are queued
    /// from now on. A pool of several servers that began without limits on running trials does not count those of the
    /// others.
    pub fn set_limits(self: &Arc<Self>, limits: PoolLimits) {
        let mut state = self.state();
        state.limits = limits;
        self.settle(state);
    }

    /// Maximum wait of a job in the queue or a trial for a grant; `None` for unlimited.
    pub fn queue_deadline(&self) -> Option<Duration> {
        self.state().limits.queue_deadline
    }

    /// Whether every request is granted immediately.
    pub fn is_unlimited(&self) -> bool {
        self.settings.capacity == Capacity::default()
            && self.state().limits.running == RunningLimits::default()
            && self.settings.executor_limits.is_empty()
    }

    /// Whether this pool counts resources on `executor`.
    fn counts(&self, executor: Option<&str>) -> bool {
        !self.settings.scheduled.contains(&executor.map(str::to_owned))
    }

    /// Why `replicas` can never be granted together on `executor`, with advice; `None` if they can.
    pub fn impossible(&self, executor: Option<&str>, replicas: &[Resources]) -> Option<String> {
        if !self.counts(executor) {
            return None;
        }
        let reason = self.settings.capacity.impossible(&Demand::of(replicas))?;
        Some(format!(
            "{reason}: ask for less, or change what the machine type, scale tier or accelerator stands for in the \
             server configuration"
        ))
    }

    pub fn request(self: &Arc<Self>, claim: Claim) -> PendingGrant {
        let (ticket, receiver) = self.enter(claim.clone());
        PendingGrant { pool: Arc::clone(self), ticket, receiver, claim, requested: Instant::now(), granted: None }
    }

    fn enter(self: &Arc<Self>, claim: Claim) -> (u64, oneshot::Receiver<Grant>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        let ticket = state.ticket();
        state.waiting.insert(ticket, Waiter { claim, sender, reason: None });
        self.settle(state);
        (ticket, receiver)
    }

    /// Reserves the resources of a running program of an earlier process, until adopted or released.
    pub fn reserve(self: &Arc<Self>, id: ExecutorJobId, claim: Claim, devices: Option<Vec<Vec<String>>>) {
        let mut state = self.state();
        let grant = self.use_resources(&mut state, claim, devices, true);
        let former = state.reserved.insert(id, grant);
        drop(state);
        // Dropping it takes the lock.
        drop(former);
    }

    /// Frees the reservation for `id`, unless a run has adopted it.
    pub fn release_reserved(&self, id: &ExecutorJobId) {
        let grant = self.state().reserved.remove(id);
        drop(grant);
    }

    /// Programs of `job` with reservations.
    pub fn reserved(&self, job: &JobId) -> Vec<ExecutorJobId> {
        self.state().reserved.keys().filter(|id| id.job == *job).cloned().collect()
    }

    /// Grant of a running program, regardless of limits: its reservation, or a new one with `devices`.
    pub fn adopt(self: &Arc<Self>, id: &ExecutorJobId, claim: Claim, devices: Option<Vec<Vec<String>>>) -> Grant {
        let mut state = self.state();
        match state.reserved.remove(id) {
            Some(grant) => grant,
            None => self.use_resources(&mut state, claim, devices, true),
        }
    }

    /// Waiting requests of `job`, oldest first.
    pub fn waiting(&self, job: &JobId) -> Vec<Waiting> {
        let state = self.state();
        let waiters = state.waiting.values().filter(|waiter| waiter.claim.job == *job);
        waiters.filter_map(Waiter::waiting).collect()
    }

    fn use_resources(
        self: &Arc<Self>,
        state: &mut State,
        claim: Claim,
        devices: Option<Vec<Vec<String>>>,
        is_admitted: bool,
    ) -> Grant {
        let ticket = state.ticket();
        let is_counted = self.counts(claim.executor.as_deref());
        let held = GrantInUse {
            executor: self.executor_of(&claim).to_owned(),
            demand: if is_counted { Demand::of(&claim.replicas) } else { Demand::default() },
            devices: devices.iter().flatten().flatten().cloned().collect(),
            job: claim.job,
            principal: claim.principal,
            is_admitted,
        };
        state.in_use.insert(ticket, held);
        Grant { pool: Arc::clone(self), ticket, devices, program: None }
    }

    /// Grants all satisfiable requests, and updates the reasons of the others.
    fn settle(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let mut granted = Vec::new();
        let mut blocked = Blocked::default();
        let tickets: Vec<u64> = state.waiting.keys().copied().collect();
        for ticket in tickets {
            let Some(waiter) = state.waiting.get(&ticket) else { continue };
            let reason = match self.try_grant(&state, &waiter.claim, &mut blocked) {
                Ok(devices) => {
                    if let Some(Waiter { claim, sender, .. }) = state.waiting.remove(&ticket) {
                        let is_admitted = self.servers.is_none();
                        granted.push((sender, self.use_resources(&mut state, claim, devices, is_admitted)));
                    }
                    continue;
                }
                Err(reason) => reason,
            };
            if let Some(waiter) = state.waiting.get_mut(&ticket) {
                waiter.reason = Some(reason);
            }
        }
        state.record_waiting();
        drop(state);
        for (sender, grant) in granted {
            // A grant for a withdrawn request returns through its drop, which takes the lock.
            drop(sender.send(grant));
        }
    }

    /// Allocates accelerators for `claim`, or explains why it waits.
    fn try_grant(
        &self,
        state: &State,
        claim: &Claim,
        blocked: &mut Blocked,
    ) -> Result<Option<Vec<Vec<String>>>, (WaitKind, String)> {
        let own = state.in_use.values().map(|held| (&held.job, held.principal.as_deref()));
        let running = own.chain(state.others.iter().map(|trial| (&trial.job, trial.principal.as_deref())));
        let limits = &state.limits.running;
        if let Some(reason) = limits.reached(&claim.job, claim.principal.as_deref(), running, self.servers.is_some()) {
            return Err((WaitKind::Limit, reason));
        }
        if let Some(reason) = self.executor_limit_reached(state, claim) {
            return Err((WaitKind::ExecutorLimit, reason));
        }
        if !self.counts(claim.executor.as_deref()) {
            return Ok(None);
        }
        let usage = Usage::of(state.in_use.values().map(|held| (&held.demand, held.devices.as_slice())));
        let demand = Demand::of(&claim.replicas);
        let granted = self.settings.capacity.grant(&demand, &usage, blocked);
        granted.map_err(|reason| (WaitKind::Resources, reason))
    }

    fn executor_of<'a>(&'a self, claim: &'a Claim) -> &'a str {
        claim.executor.as_deref().unwrap_or(&self.settings.default_executor)
    }

    /// Executor limit that prevents another trial, if reached.
    fn executor_limit_reached(&self, state: &State, claim: &Claim) -> Option<String> {
        let name = self.executor_of(claim);
        let limit = self.settings.executor_limits.get(name)?.get();
        let running = state.in_use.values().filter(|held| held.executor == name).count();
        (running >= limit as usize)
            .then(|| format!("the limit on running trials of the executor {name} is reached: {running} of {limit} run"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    fn record_waiting(&self) {
        for kind in [WaitKind::Limit, WaitKind::ExecutorLimit, WaitKind::Resources] {
            let of_kind =
                self.waiting.values().filter(|waiter| waiter.reason.as_ref().is_some_and(|(of, _)| *of == kind));
            telemetry().trials_waiting(kind.as_str(), of_kind.map(|waiter| waiter.claim.trials).sum());
        }
    }
}

impl Waiter {
    fn waiting(&self) -> Option<Waiting> {
        let (kind, reason) = self.reason.clone()?;
        let Claim { trial, trials, since, .. } = self.claim;
        Some(Waiting { kind, reason, trial, trials, since })
    }
}

impl PendingGrant {
    /// Waits for the grant. Cancel safe; never completes again after the grant.
    pub async fn granted(&mut self) -> Grant {
        loop {
            let grant = match self.granted.take() {
                Some(grant) => grant,
                None => match (&mut self.receiver).await {
                    Ok(grant) => grant,
                    // The pool drops senders only after sending the grant.
                    Err(_) => std::future::pending().await,
                },
            };
            // Stored during admission, so that another call can continue.
            let ticket = self.granted.insert(grant).ticket;
            let is_admitted = self.pool.admit(ticket).await;
            let Some(grant) = self.granted.take() else { continue };
            if is_admitted {
                return grant;
            }
            drop(grant);
            (self.ticket, self.receiver) = self.pool.enter(self.claim.clone());
        }
    }

    pub fn requested(&self) -> Instant {
        self.requested
    }

    pub fn reason(&self) -> Option<Waiting> {
        self.pool.state().waiting.get(&self.ticket).and_then(Waiter::waiting)
    }

    /// Sets the number of trials waiting with the request.
    pub fn set_trials(&mut self, trials: u64) {
        self.claim.trials = trials;
        let mut state = self.pool.state();
        if let Some(waiter) = state.waiting.get_mut(&self.ticket) {
            waiter.claim.trials = trials;
            state.record_waiting();
        }
    }
}

impl Drop for PendingGrant {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        if state.waiting.remove(&self.ticket).is_some() {
            // It may have blocked later requests.
            self.pool.settle(state);
        }
    }
}

impl Grant {
    /// Accelerators of replica `index`; `None` if not counted.
    pub fn devices(&self, index: usize) -> Option<Vec<String>> {
        let devices = self.devices.as_ref()?;
        Some(devices.get(index).cloned().unwrap_or_default())
    }

    /// Marks the resources as used by `program`. Dropping the grant before [`Self::end_use`] keeps them reserved for
    /// it.
    pub fn begin_use(&mut self, program: &ExecutorJobId) {
        self.program = Some(program.clone());
    }

    /// Marks the resources as unused.
    pub fn end_use(&mut self) {
        self.program = None;
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        if let Some(program) = self.program.take() {
            // The run failed, but its program may still run.
            let (pool, devices) = (Arc::clone(&self.pool), self.devices.take());
            let former = state.reserved.insert(program, Self { pool, ticket: self.ticket, devices, program: None });
            drop(state);
            return drop(former);
        }
        state.in_use.remove(&self.ticket);
        self.pool.settle(state);
        self.pool.end_admission(self.ticket);
    }
}
