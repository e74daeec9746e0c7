//! Resource utilization of this process.

use std::time::Duration;

use super::{Capacity, Device, ResourcePool, RunningLimits};
use tunesmith_domain::JobId;

#[derive(Debug, Clone, PartialEq)]
pub struct PoolLoad {
    pub capacity: Capacity,
    pub limits: RunningLimits,
    /// Maximum wait of a job in the queue or a trial for a grant; `None` for unlimited.
    pub queue_deadline: Option<Duration>,
    /// Executors with their own limit.
    pub executors: Vec<ExecutorLoad>,
    /// Grants in use: running trials, and jobs without hyperparameters.
    pub running: usize,
    pub waiting: u64,
    /// Requested by running programs, in thousandths of a processor, even if not counted.
    pub milli_cpus: u64,
    /// Memory requested by running programs, even if not counted.
    pub memory_bytes: u64,
    /// Accelerators; empty if not counted.
    pub devices: Vec<DeviceLoad>,
}

/// Trials on an executor with a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorLoad {
    pub name: String,
    pub running: usize,
    pub limit: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceLoad {
    pub device: Device,
    /// Job using it.
    pub job: Option<JobId>,
}

impl ResourcePool {
    pub fn load(&self) -> PoolLoad {
        let state = self.state();
        let (mut milli_cpus, mut memory_bytes) = (0_u64, 0_u64);
        for grant in state.in_use.values() {
            let (cpus, memory) = grant.demand.amounts();
            milli_cpus = milli_cpus.saturating_add(cpus);
            memory_bytes = memory_bytes.saturating_add(memory);
        }
        let user =
            |id: &String| state.in_use.values().find(|grant| grant.devices.contains(id)).map(|grant| grant.job.clone());
        let executors = self.settings.executor_limits.iter().map(|(name, limit)| ExecutorLoad {
            name: name.clone(),
            running: state.in_use.values().filter(|grant| grant.executor == *name).count(),
            limit: limit.get(),
        });
        let devices = self.settings.capacity.devices.iter().flatten();
        PoolLoad {
            capacity: self.settings.capacity.clone(),
            limits: state.limits.running,
            queue_deadline: state.limits.queue_deadline,
            executors: executors.collect(),
            running: state.in_use.len(),
            waiting: state.waiting.values().map(|waiter| waiter.claim.trials).sum(),
            milli_cpus,
            memory_bytes,
            devices: devices.map(|device| DeviceLoad { device: device.clone(), job: user(&device.id) }).collect(),
        }
    }
}
