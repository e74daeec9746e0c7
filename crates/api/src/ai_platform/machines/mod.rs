//! Meaning of machine names on one server: machine types, scale tiers, accelerators, regions and runtime versions.
//!
//! The map starts with the published names; the server configuration adds and replaces entries. Not here: the free
//! resources of a machine.

mod published;
mod resolution;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

pub(crate) use self::published::ACCELERATORS;
pub use self::resolution::Machines;
pub use self::resolution::NO_EFFECT;
use super::ScaleTier;

/// A machine type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineType {
    /// Thousandths of a processor.
    pub milli_cpus: Option<u32>,
    pub memory_bytes: Option<u64>,
    /// Number of accelerators, and their published name, such as `NVIDIA_TESLA_K80`, or the server's own.
    pub accelerators: Option<(String, u32)>,
    pub place: MachinePlacement,
}

/// Placement of a job, in an executor's terms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachinePlacement {
    /// Executor name; `None` for the server's default.
    pub executor: Option<String>,
    /// A queue, such as a partition or namespace.
    pub queue: Option<String>,
    /// Additional settings, such as node constraints.
    pub options: BTreeMap<String, String>,
}

/// Machines of a predefined scale tier. Machine types without replicas may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tier {
    pub master_type: String,
    pub worker_type: String,
    pub worker_count: u32,
    pub parameter_server_type: String,
    pub parameter_server_count: u32,
}

/// A runtime version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runtime {
    /// Python interpreter of programs.
    pub python: Option<PathBuf>,
    /// Default image on an engine that runs images.
    pub image: Option<String>,
}

/// Resource kinds that a server accounts for. Requests for others have no effect and cause a notice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    pub cpus: bool,
    pub memory: bool,
    pub accelerators: bool,
}

/// Machine names of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineMap {
    pub machine_types: BTreeMap<String, MachineType>,
    pub tiers: BTreeMap<ScaleTier, Tier>,
    /// Accelerator kinds by published name; `None` for any kind.
    pub accelerators: BTreeMap<String, Option<String>>,
    /// Placements by region. Regions have no effect if empty.
    pub regions: BTreeMap<String, MachinePlacement>,
    /// Place of preemptible jobs; `None` if they run as others do.
    pub preemptible: Option<MachinePlacement>,
    /// Runtimes by version. Versions have no effect if empty.
    pub runtimes: BTreeMap<String, Runtime>,
    /// Default executor, for jobs whose machine types and region name none.
    pub executor: String,
    /// Kinds of named executors.
    pub kinds: BTreeMap<String, String>,
    /// Resources accounted for on that executor.
    pub counted: Counted,
    /// Resources accounted for on the server's machine.
    pub counted_here: Counted,
    /// Folders of the server's machine that stand for buckets.
    pub buckets: BTreeMap<String, PathBuf>,
    /// Whether unknown names are rejected. Otherwise they have no effect and cause a notice.
    pub is_strict: bool,
}

impl MachineMap {
    /// The published names, without accounting or rejection: the map without a server configuration.
    pub fn published() -> Self {
        let kind = |(_, name, kind): (_, &str, &str)| (name.to_owned(), Some(kind.to_owned()));
        Self {
            machine_types: published::machine_types().collect(),
            tiers: published::tiers().into_iter().collect(),
            accelerators: ACCELERATORS.into_iter().map(kind).collect(),
            regions: BTreeMap::new(),
            preemptible: None,
            runtimes: BTreeMap::new(),
            executor: LOCAL.to_owned(),
            kinds: BTreeMap::new(),
            counted: Counted::default(),
            counted_here: Counted::default(),
            buckets: BTreeMap::new(),
            is_strict: false,
        }
    }

    /// Executors that jobs may use besides [`Self::executor`].
    pub fn other_executors(&self) -> BTreeSet<&str> {
        self.places().filter_map(|place| place.executor.as_deref()).filter(|name| *name != self.executor).collect()
    }

    /// Queues named by placements, by executor.
    pub fn queues(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut queues: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for place in self.places() {
            let executor = place.executor.as_ref().unwrap_or(&self.executor);
            queues.entry(executor.clone()).or_default().extend(place.queue.clone());
        }
        queues
    }

    fn places(&self) -> impl Iterator<Item = &MachinePlacement> {
        let of_types = self.machine_types.values().map(|machine| &machine.place);
        of_types.chain(self.regions.values()).chain(&self.preemptible)
    }

    /// Kind of `executor`; its name, unless it is a named executor.
    pub fn kind_of<'a>(&'a self, executor: &'a str) -> &'a str {
        self.kinds.get(executor).map_or(executor, String::as_str)
    }

    fn counted_on(&self, executor: &str) -> Counted {
        if executor == self.executor {
            self.counted
        } else if is_here(self.kind_of(executor)) {
            self.counted_here
        } else {
            // It delegates to a scheduler.
            Counted { cpus: true, memory: true, accelerators: true }
        }
    }
}

/// Executor of processes on the server's machine.
pub const LOCAL: &str = "local";

/// Executor that runs images itself.
pub const KUBERNETES: &str = "kubernetes";

/// Whether executors of the kind `executor` run programs on the server's machine, which has no queues.
pub fn is_here(executor: &str) -> bool {
    matches!(executor, LOCAL | "agent")
}

impl Default for MachineMap {
    fn default() -> Self {
        Self::published()
    }
}
