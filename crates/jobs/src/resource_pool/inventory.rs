//! Allocation of counted resources: free amounts, and the accelerators of each request.

use std::collections::BTreeSet;

use tunesmith_domain::Resources;

/// Counted resources; `None` means not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capacity {
    /// In thousandths of a processor.
    pub milli_cpus: Option<u64>,
    pub memory_bytes: Option<u64>,
    /// Accelerators, each with a unique ID.
    pub devices: Option<Vec<Device>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Index or UUID, as in `CUDA_VISIBLE_DEVICES`.
    pub id: String,
    /// Type; `None` serves requests of every type.
    pub kind: Option<String>,
}

/// Total requirements of all replicas of a program. Accelerators are listed per replica, as a type (`None` for any) and
/// number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Demand {
    milli_cpus: u64,
    memory_bytes: u64,
    accelerators: Vec<Option<(Option<String>, u32)>>,
}

#[derive(Debug, Default)]
pub(super) struct Usage<'a> {
    milli_cpus: u64,
    memory_bytes: u64,
    devices: BTreeSet<&'a str>,
}

/// Kinds of resources reserved for earlier waiting requests.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    cpus: bool,
    memory: bool,
    devices: bool,
}

impl Demand {
    pub(super) fn of(replicas: &[Resources]) -> Self {
        let accelerators = |one: &Resources| one.accelerators.as_ref().map(|given| (given.kind.clone(), given.count));
        Self {
            milli_cpus: replicas.iter().filter_map(|one| one.milli_cpus).map(u64::from).sum(),
            memory_bytes: replicas.iter().filter_map(|one| one.memory_bytes).fold(0, u64::saturating_add),
            accelerators: replicas.iter().map(accelerators).collect(),
        }
    }

    /// Thousandths of a processor, and memory in bytes.
    pub(super) fn amounts(&self) -> (u64, u64) {
        (self.milli_cpus, self.memory_bytes)
    }

    fn device_count(&self) -> u64 {
        self.accelerators.iter().flatten().map(|(_, count)| u64::from(*count)).sum()
    }

    fn cpus(&self) -> Resources {
        Resources { milli_cpus: Some(u32::try_from(self.milli_cpus).unwrap_or(u32::MAX)), ..Resources::default() }
    }

    fn memory(&self) -> Resources {
        Resources { memory_bytes: Some(self.memory_bytes), ..Resources::default() }
    }

    /// Human-readable accelerator request, such as `2 GPUs of type v100`.
    fn devices(&self) -> String {
        let mut kinds: Vec<(Option<&str>, u64)> = Vec::new();
        for (kind, count) in self.accelerators.iter().flatten() {
            match kinds.iter_mut().find(|(known, _)| *known == kind.as_deref()) {
                Some((_, sum)) => *sum += u64::from(*count),
                None => kinds.push((kind.as_deref(), u64::from(*count))),
            }
        }
        let texts = kinds.into_iter().map(|(kind, count)| {
            let kind = kind.map(|kind| format!(" of type {kind}")).unwrap_or_default();
            format!("{count} {}{kind}", if count == 1 { "GPU" } else { "GPUs" })
        });
        texts.collect::<Vec<_>>().join(" and ")
    }
}

impl<'a> Usage<'a> {
    pub(super) fn of(held: impl Iterator<Item = (&'a Demand, &'a [String])>) -> Self {
        let mut usage = Self::default();
        for (demand, devices) in held {
            usage.milli_cpus += demand.milli_cpus;
            usage.memory_bytes = usage.memory_bytes.saturating_add(demand.memory_bytes);
            usage.devices.extend(devices.iter().map(String::as_str));
        }
        usage
    }
}

impl Capacity {
    /// Why `demand` exceeds the total capacity; `None` if it fits.
    pub(super) fn impossible(&self, demand: &Demand) -> Option<String> {
        if let Some(all) = self.milli_cpus.filter(|all| demand.milli_cpus > *all) {
            return Some(format!("needs {}, and this server has {}", demand.cpus(), cpus(all)));
        }
        if let Some(all) = self.memory_bytes.filter(|all| demand.memory_bytes > *all) {
            let has = Resources { memory_bytes: Some(all), ..Resources::default() };
            return Some(format!("needs {}, and this server has {has}", demand.memory()));
        }
        let devices = self.devices.as_ref()?;
        let fits = allot(devices, &BTreeSet::new(), demand).is_some();
        (!fits).then(|| format!("needs {}, and this server has {}", demand.devices(), listed(devices)))
    }

    /// Allocates accelerators for each replica of `demand` in addition to `usage`; `None` if accelerators are not
    /// counted. Requests for `blocked` resource kinds wait; a request that does not fit blocks its own kinds.
    ///
    /// # Errors
    /// The reason for waiting.
    pub(super) fn grant(
        &self,
        demand: &Demand,
        usage: &Usage<'_>,
        blocked: &mut Blocked,
    ) -> Result<Option<Vec<Vec<String>>>, String> {
        let wants_cpus = demand.milli_cpus > 0 && self.milli_cpus.is_some();
        let wants_memory = demand.memory_bytes > 0 && self.memory_bytes.is_some();
        let wants_devices = demand.device_count() > 0 && self.devices.is_some();
        let waits_behind =
            (wants_cpus && blocked.cpus) || (wants_memory && blocked.memory) || (wants_devices && blocked.devices);
        let mut reasons = Vec::new();
        if let Some(all) = self.milli_cpus.filter(|_| wants_cpus) {
            let free = all.saturating_sub(usage.milli_cpus);
            if demand.milli_cpus > free {
                reasons.push(format!("needs {}; {} of {} are free", demand.cpus(), number(free), cpus(all)));
            }
        }
        if let Some(all) = self.memory_bytes.filter(|_| wants_memory) {
            let free = all.saturating_sub(usage.memory_bytes);
            if demand.memory_bytes > free {
                let size = |bytes| Resources { memory_bytes: Some(bytes), ..Resources::default() };
                reasons.push(format!("needs {}; {} is free", demand.memory(), size(free)));
            }
        }
        let allotted = self.devices.as_ref().map(|devices| allot(devices, &usage.devices, demand));
        if allotted == Some(None) {
            let devices = self.devices.as_deref().unwrap_or_default();
            let free = devices.iter().filter(|device| !usage.devices.contains(device.id.as_str())).count();
            reasons.push(format!("needs {}; {free} of {} GPUs are free", demand.devices(), devices.len()));
        }
        if reasons.is_empty() && !waits_behind {
            return Ok(allotted.flatten());
        }
        blocked.cpus |= wants_cpus;
        blocked.memory |= wants_memory;
        blocked.devices |= wants_devices;
        if reasons.is_empty() {
            reasons.push("earlier requests for the same resources come first".to_owned());
        }
        Err(reasons.join(", and "))
    }
}

/// Chooses unused devices for each replica; `None` if too few are free.
///
/// Typed requests prefer matching devices, then untyped ones; untyped requests get the remainder.
fn allot(devices: &[Device], used: &BTreeSet<&str>, demand: &Demand) -> Option<Vec<Vec<String>>> {
    let mut free: Vec<&Device> = devices.iter().filter(|device| !used.contains(device.id.as_str())).collect();
    let mut allotted = vec![Vec::new(); demand.accelerators.len()];
    for has_kind in [true, false] {
        for (given, wanted) in allotted.iter_mut().zip(&demand.accelerators) {
            let Some((kind, count)) = wanted.as_ref().filter(|(kind, _)| kind.is_some() == has_kind) else { continue };
            for _ in 0..*count {
                let exact = free.iter().position(|device| kind.is_none() || device.kind == *kind);
                let index = exact.or_else(|| free.iter().position(|device| device.kind.is_none()))?;
                given.push(free.remove(index).id.clone());
            }
        }
    }
    Some(allotted)
}

fn number(milli_cpus: u64) -> f64 {
    milli_cpus as f64 / 1000.0
}

fn cpus(milli_cpus: u64) -> String {
    if milli_cpus == 1000 { "1 cpu".to_owned() } else { format!("{} cpus", number(milli_cpus)) }
}

/// Human-readable list of devices by type.
fn listed(devices: &[Device]) -> String {
    if devices.is_empty() {
        return "none".to_owned();
    }
    let mut kinds: Vec<(&Option<String>, usize)> = Vec::new();
    for device in devices {
        match kinds.iter_mut().find(|(kind, _)| **kind == device.kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((&device.kind, 1)),
        }
    }
    let texts = kinds.into_iter().map(|(kind, count)| match kind {
        Some(kind) => format!("{count} of type {kind}"),
        None => format!("{count} of any type"),
    });
    texts.collect::<Vec<_>>().join(" and ")
}
