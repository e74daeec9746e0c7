//! What the programs of this process use, for people who look at it.

use std::time::Duration;

use super::{Capacity, Device, ResourcePool, RunningLimits};
use tunesmith_domain::JobId;

/// What a pool counts, and what of it is in use.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolLoad {
    /// The resources that are counted.
    pub capacity: Capacity,
    /// The limits on running trials.
    pub limits: RunningLimits,
    /// The longest time that a job waits in the queue or a trial for a grant; `None` for any.
    pub queue_deadline: Option<Duration>,
    /// The executors with a limit of their own.
    pub executors: Vec<ExecutorLoad>,
    /// Number of grants in use: running trials, and jobs without hyperparameters.
    pub running: usize,
    /// Number of trials that wait for a grant.
    pub waiting: u64,
    /// Requested processor time of the running ones in thousandths of a processor, also if it is not counted.
    pub milli_cpus: u64,
    /// Requested main memory of the running ones in bytes, also if it is not counted.
    pub memory_bytes: u64,
    /// The accelerators; empty if they are not counted.
    pub devices: Vec<DeviceLoad>,
}

/// The trials that run on an executor with a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorLoad {
    /// Name of the executor.
    pub name: String,
    /// Number of trials that run on it.
    pub running: usize,
    /// Their maximum number.
    pub limit: u32,
}

/// An accelerator and its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceLoad {
    /// The accelerator.
    pub device: Device,
    /// The job that uses it.
    pub job: Option<JobId>,
}

impl ResourcePool {
    /// Returns what is in use.
    pub fn load(&self) -> PoolLoad {
        let state = self.state();
        let (mut milli_cpus, mut memory_bytes) = (0_u64, 0_u64);
        for held in state.held.values() {
            let (cpus, memory) = held.demand.amounts();
            milli_cpus = milli_cpus.saturating_add(cpus);
            memory_bytes = memory_bytes.saturating_add(memory);
        }
        let user =
            |id: &String| state.held.values().find(|held| held.devices.contains(id)).map(|held| held.job.clone());
        let executors = self.settings.executor_limits.iter().map(|(name, limit)| ExecutorLoad {
            name: name.clone(),
            running: state.held.values().filter(|held| held.executor == *name).count(),
            limit: limit.get(),
        });
        let devices = self.settings.capacity.devices.iter().flatten();
        PoolLoad {
            capacity: self.settings.capacity.clone(),
            limits: self.settings.limits,
            queue_deadline: self.settings.queue_deadline,
            executors: executors.collect(),
            running: state.held.len(),
            waiting: state.waiting.values().map(|waiter| waiter.claim.trials).sum(),
            milli_cpus,
            memory_bytes,
            devices: devices.map(|device| DeviceLoad { device: device.clone(), job: user(&device.id) }).collect(),
        }
    }
}
