//! The resources that the programs of all jobs of this process share, and the limits on running trials.
//!
//! A run takes a grant before it asks for the parameters of a trial, so that the search knows every result up to then.
//! Grants are given in the order of the requests. A request that waits for a limit does not hold up others; one that waits
//! for resources holds up later requests of the same kinds of resources, so that it gets its turn.
//!
//! Resources are counted, not enforced: a program that uses more than it requested is not stopped. Those of an executor
//! that counts them itself are granted at once; limits hold for the trials of all executors.

mod admission;
mod inventory;
mod limits;
mod load;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;

use self::admission::Servers;
use self::inventory::{Blocked, Demand, Usage};
pub use self::inventory::{Capacity, Device};
pub use self::limits::RunningLimits;
pub use self::load::{DeviceLoad, ExecutorLoad, PoolLoad};
use tunesmith_domain::{JobId, Resources, TrialId};
use tunesmith_executor::ExecutorJobId;
use tunesmith_store::{RunningTrial, RunningTrials};
use tunesmith_telemetry::{WaitKind, telemetry};

/// The settings of a [`ResourcePool`]. The default counts and limits nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PoolSettings {
    /// The resources that are counted.
    pub capacity: Capacity,
    /// The executors that count resources themselves, by name; `None` is the executor of jobs that name none.
    pub scheduled: BTreeSet<Option<String>>,
    /// The limits on running trials.
    pub limits: RunningLimits,
    /// The limits on the trials of this server that run on one executor, by its name.
    pub executor_limits: BTreeMap<String, NonZeroU32>,
    /// The name of the executor of jobs that name none.
    pub default_executor: String,
    /// The longest time that a job waits in the queue or a trial for a grant; `None` for any.
    pub queue_deadline: Option<Duration>,
}

/// A request for the resources of one trial, or of a job without hyperparameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The job.
    pub job: JobId,
    /// The trial; `None` if it does not exist yet.
    pub trial: Option<TrialId>,
    /// Who submitted the job.
    pub principal: Option<String>,
    /// Name of the executor of the job; `None` for that of the server.
    pub executor: Option<String>,
    /// The resources of every replica, the master first.
    pub replicas: Vec<Resources>,
    /// Number of trials that wait with this claim, at least 1. They take grants one after another.
    pub trials: u64,
    /// The current time.
    pub since: Timestamp,
}

/// Why trials wait, or a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// The kind of the reason.
    pub kind: WaitKind,
    /// The reason, for people.
    pub reason: String,
    /// The trial that waits; `None` for trials that do not exist yet, and for a job.
    pub trial: Option<TrialId>,
    /// Number of trials that wait; 0 for a job.
    pub trials: u64,
    /// Since when.
    pub since: Timestamp,
}

/// The resources and limits of one process.
#[derive(Debug, Default)]
pub struct ResourcePool {
    settings: PoolSettings,
    state: Mutex<State>,
    /// Counts the trials of all servers; `None` if there is one server, or no limit.
    servers: Option<Servers>,
}

#[derive(Debug, Default)]
struct State {
    next_ticket: u64,
    waiting: BTreeMap<u64, Waiter>,
    held: HashMap<u64, Held>,
    /// Grants of programs that an earlier process started and no run has taken over yet.
    reserved: HashMap<ExecutorJobId, Grant>,
    /// The running trials of other servers, as they were read last.
    others: Vec<RunningTrial>,
}

#[derive(Debug)]
struct Waiter {
    claim: Claim,
    sender: oneshot::Sender<Grant>,
    /// Why it waits; `None` before its first check.
    reason: Option<(WaitKind, String)>,
}

/// A grant that is in use.
#[derive(Debug)]
struct Held {
    job: JobId,
    principal: Option<String>,
    /// Name of the executor.
    executor: String,
    demand: Demand,
    devices: Vec<String>,
    /// Whether it is counted among the trials of all servers.
    is_admitted: bool,
}

/// Resources in use, until it is dropped.
#[derive(Debug)]
pub struct Grant {
    pool: Arc<ResourcePool>,
    ticket: u64,
    /// The accelerators of every replica; `None` if they are not counted.
    devices: Option<Vec<Vec<String>>>,
    /// The program that uses the resources, for which they stay reserved if the grant is dropped.
    program: Option<ExecutorJobId>,
}

/// A request that waits. It is withdrawn when it is dropped.
#[derive(Debug)]
pub struct PendingGrant {
    pool: Arc<ResourcePool>,
    ticket: u64,
    receiver: oneshot::Receiver<Grant>,
    /// The request, to make it again if other servers use what this one has granted.
    claim: Claim,
    /// The grant of this server, until it is admitted by the limits of all servers.
    granted: Option<Grant>,
}

impl ResourcePool {
    /// An unused pool.
    pub fn new(settings: PoolSettings) -> Arc<Self> {
        Arc::new(Self { settings, state: Mutex::default(), servers: None })
    }

    /// An unused pool, whose limits hold for all servers that `running` counts the trials of.
    pub fn of_servers(settings: PoolSettings, running: Arc<dyn RunningTrials>) -> Arc<Self> {
        let servers = (settings.limits != RunningLimits::default()).then(|| Servers::new(running));
        Arc::new(Self { settings, state: Mutex::default(), servers })
    }

    /// The longest time that a job waits in the queue or a trial for a grant; `None` for any.
    pub fn queue_deadline(&self) -> Option<Duration> {
        self.settings.queue_deadline
    }

    /// Whether every request is granted at once.
    pub fn is_unlimited(&self) -> bool {
        self.settings.capacity == Capacity::default()
            && self.settings.limits == RunningLimits::default()
            && self.settings.executor_limits.is_empty()
    }

    /// Whether the resources of a job on `executor` are counted here.
    fn counts(&self, executor: Option<&str>) -> bool {
        !self.settings.scheduled.contains(&executor.map(str::to_owned))
    }

    /// Returns why the pool can never grant `replicas` together to a job on `executor`, and what to do; `None` if it can.
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

    /// Requests a grant for `claim`.
    pub fn request(self: &Arc<Self>, claim: Claim) -> PendingGrant {
        let (ticket, receiver) = self.enter(claim.clone());
        PendingGrant { pool: Arc::clone(self), ticket, receiver, claim, granted: None }
    }

    fn enter(self: &Arc<Self>, claim: Claim) -> (u64, oneshot::Receiver<Grant>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        let ticket = state.ticket();
        state.waiting.insert(ticket, Waiter { claim, sender, reason: None });
        self.settle(state);
        (ticket, receiver)
    }

    /// Records that the program `id` of an earlier process uses the resources of `claim` and `devices`, until it is
    /// adopted or released.
    pub fn reserve(self: &Arc<Self>, id: ExecutorJobId, claim: Claim, devices: Option<Vec<Vec<String>>>) {
        let mut state = self.state();
        let grant = self.hold(&mut state, claim, devices, true);
        let former = state.reserved.insert(id, grant);
        drop(state);
        // Its drop takes the lock.
        drop(former);
    }

    /// Frees what was reserved for `id`, unless a run has adopted it.
    pub fn release_reserved(&self, id: &ExecutorJobId) {
        let grant = self.state().reserved.remove(id);
        drop(grant);
    }

    /// The programs of `job` for which resources are reserved.
    pub fn reserved(&self, job: &JobId) -> Vec<ExecutorJobId> {
        self.state().reserved.keys().filter(|id| id.job == *job).cloned().collect()
    }

    /// Returns the grant of the running program `id`, which is given without regard to limits: the reserved one, or a new
    /// one with `devices`.
    pub fn adopt(self: &Arc<Self>, id: &ExecutorJobId, claim: Claim, devices: Option<Vec<Vec<String>>>) -> Grant {
        let mut state = self.state();
        match state.reserved.remove(id) {
            Some(grant) => grant,
            None => self.hold(&mut state, claim, devices, true),
        }
    }

    /// Returns what waits of `job`, the oldest request first.
    pub fn waiting(&self, job: &JobId) -> Vec<Waiting> {
        let state = self.state();
        let waiters = state.waiting.values().filter(|waiter| waiter.claim.job == *job);
        waiters.filter_map(Waiter::waiting).collect()
    }

    fn hold(
        self: &Arc<Self>,
        state: &mut State,
        claim: Claim,
        devices: Option<Vec<Vec<String>>>,
        is_admitted: bool,
    ) -> Grant {
        let ticket = state.ticket();
        let is_counted = self.counts(claim.executor.as_deref());
        let held = Held {
            executor: self.executor_of(&claim).to_owned(),
            demand: if is_counted { Demand::of(&claim.replicas) } else { Demand::default() },
            devices: devices.iter().flatten().flatten().cloned().collect(),
            job: claim.job,
            principal: claim.principal,
            is_admitted,
        };
        state.held.insert(ticket, held);
        Grant { pool: Arc::clone(self), ticket, devices, program: None }
    }

    /// Grants what can be granted, and determines the reasons of the rest.
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
                        granted.push((sender, self.hold(&mut state, claim, devices, is_admitted)));
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
            // A grant whose request was withdrawn is returned by its drop, which takes the lock.
            drop(sender.send(grant));
        }
    }

    /// Returns the accelerators for `claim`, or why it waits.
    fn try_grant(
        &self,
        state: &State,
        claim: &Claim,
        blocked: &mut Blocked,
    ) -> Result<Option<Vec<Vec<String>>>, (WaitKind, String)> {
        let own = state.held.values().map(|held| (&held.job, held.principal.as_deref()));
        let running = own.chain(state.others.iter().map(|trial| (&trial.job, trial.principal.as_deref())));
        let limits = &self.settings.limits;
        if let Some(reason) = limits.reached(&claim.job, claim.principal.as_deref(), running, self.servers.is_some()) {
            return Err((WaitKind::Limit, reason));
        }
        if let Some(reason) = self.executor_limit_reached(state, claim) {
            return Err((WaitKind::ExecutorLimit, reason));
        }
        if !self.counts(claim.executor.as_deref()) {
            return Ok(None);
        }
        let usage = Usage::of(state.held.values().map(|held| (&held.demand, held.devices.as_slice())));
        let demand = Demand::of(&claim.replicas);
        let granted = self.settings.capacity.grant(&demand, &usage, blocked);
        granted.map_err(|reason| (WaitKind::Resources, reason))
    }

    /// The name of the executor of `claim`.
    fn executor_of<'a>(&'a self, claim: &'a Claim) -> &'a str {
        claim.executor.as_deref().unwrap_or(&self.settings.default_executor)
    }

    /// Returns the limit of the executor of `claim` if it keeps a further trial from running there.
    fn executor_limit_reached(&self, state: &State, claim: &Claim) -> Option<String> {
        let name = self.executor_of(claim);
        let limit = self.settings.executor_limits.get(name)?.get();
        let running = state.held.values().filter(|held| held.executor == name).count();
        (running >= limit as usize)
            .then(|| format!("the limit on running trials of the executor {name} is reached: {running} of {limit} run"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
            telemetry().trials_waiting(kind, of_kind.map(|waiter| waiter.claim.trials).sum());
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
    /// Waits for the grant. May be called again if the future was dropped; after the grant it never completes.
    pub async fn granted(&mut self) -> Grant {
        loop {
            let grant = match self.granted.take() {
                Some(grant) => grant,
                None => match (&mut self.receiver).await {
                    Ok(grant) => grant,
                    // The pool drops a sender only when it has sent the grant.
                    Err(_) => std::future::pending().await,
                },
            };
            // Kept while its admission is waited for, so that another call continues.
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

    /// Why the request waits; `None` if it is granted.
    pub fn reason(&self) -> Option<Waiting> {
        self.pool.state().waiting.get(&self.ticket).and_then(Waiter::waiting)
    }

    /// Sets the number of trials that wait with the request.
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
            // It may have held up later ones.
            self.pool.settle(state);
        }
    }
}

impl Grant {
    /// The accelerators of the replica `index`; `None` if they are not counted.
    pub fn devices(&self, index: usize) -> Option<Vec<String>> {
        let devices = self.devices.as_ref()?;
        Some(devices.get(index).cloned().unwrap_or_default())
    }

    /// States that `program` uses the resources from now on. They stay reserved for it if the grant is dropped before
    /// [`Self::end_use`].
    pub fn begin_use(&mut self, program: &ExecutorJobId) {
        self.program = Some(program.clone());
    }

    /// States that no program uses the resources.
    pub fn end_use(&mut self) {
        self.program = None;
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        if let Some(program) = self.program.take() {
            // The run of the job failed; its program may run on.
            let (pool, devices) = (Arc::clone(&self.pool), self.devices.take());
            let former = state.reserved.insert(program, Self { pool, ticket: self.ticket, devices, program: None });
            drop(state);
            return drop(former);
        }
        state.held.remove(&self.ticket);
        self.pool.settle(state);
        self.pool.end_admission(self.ticket);
    }
}
