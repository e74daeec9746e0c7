//! What the names of machines in a training input mean on one server: machine types, scale tiers, accelerators, regions
//! and runtime versions.
//!
//! The map begins with the published names; a server's configuration adds to it and replaces entries. Not here: which
//! resources a machine has left.

mod published;
mod resolution;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

pub(crate) use self::published::ACCELERATORS;
pub use self::resolution::Machines;
pub use self::resolution::NO_EFFECT;
use super::ScaleTier;

/// The meaning of a machine type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineType {
    /// Processor time in thousandths of a processor.
    pub milli_cpus: Option<u32>,
    /// Main memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Accelerators: a published name such as `NVIDIA_TESLA_K80` or a kind of the server's own, and their number.
    pub accelerators: Option<(String, u32)>,
    /// Where such a machine is.
    pub place: Place,
}

/// The place in which a job runs, in the words of an executor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Name of the executor; `None` for that of the server.
    pub executor: Option<String>,
    /// A queue, such as a partition or namespace.
    pub queue: Option<String>,
    /// Further settings, such as constraints on nodes.
    pub options: BTreeMap<String, String>,
}

/// The machines of a predefined scale tier. A type without replicas may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tier {
    /// Machine type of the master.
    pub master_type: String,
    /// Machine type of workers.
    pub worker_type: String,
    /// Number of workers.
    pub worker_count: u32,
    /// Machine type of parameter servers.
    pub parameter_server_type: String,
    /// Number of parameter servers.
    pub parameter_server_count: u32,
}

/// The meaning of a runtime version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runtime {
    /// The Python interpreter of programs.
    pub python: Option<PathBuf>,
    /// The image in which an engine that runs images runs programs without one.
    pub image: Option<String>,
}

/// The kinds of resources that a server counts. Requests of others have no effect and are named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Processors.
    pub cpus: bool,
    /// Main memory.
    pub memory: bool,
    /// Accelerators.
    pub accelerators: bool,
}

/// What the names of machines mean on a server.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineMap {
    /// Machine types by name.
    pub machine_types: BTreeMap<String, MachineType>,
    /// The predefined scale tiers.
    pub tiers: BTreeMap<ScaleTier, Tier>,
    /// Kinds of accelerators by published name; `None` for any kind.
    pub accelerators: BTreeMap<String, Option<String>>,
    /// Places by region. Regions have no effect if it is empty.
    pub regions: BTreeMap<String, Place>,
    /// Runtimes by version. Versions have no effect if it is empty.
    pub runtimes: BTreeMap<String, Runtime>,
    /// The executor of jobs whose machine types and region name none.
    pub executor: String,
    /// The kinds of executors with names of their own.
    pub kinds: BTreeMap<String, String>,
    /// The resources that are counted for jobs on that executor.
    pub counted: Counted,
    /// The resources that are counted for jobs on the machine of the server.
    pub counted_here: Counted,
    /// Whether a name that the map does not know is refused. Otherwise it has no effect and is named.
    pub is_strict: bool,
}

impl MachineMap {
    /// The published names, of which nothing is counted and no other is refused: the map without a server configuration.
    pub fn published() -> Self {
        let kind = |(_, name, kind): (_, &str, &str)| (name.to_owned(), Some(kind.to_owned()));
        Self {
            machine_types: published::machine_types().collect(),
            tiers: published::tiers().into_iter().collect(),
            accelerators: ACCELERATORS.into_iter().map(kind).collect(),
            regions: BTreeMap::new(),
            runtimes: BTreeMap::new(),
            executor: LOCAL.to_owned(),
            kinds: BTreeMap::new(),
            counted: Counted::default(),
            counted_here: Counted::default(),
            is_strict: false,
        }
    }

    /// The names of the executors that jobs may run on beside [`Self::executor`].
    pub fn other_executors(&self) -> BTreeSet<&str> {
        let places = self.machine_types.values().map(|machine| &machine.place).chain(self.regions.values());
        places.filter_map(|place| place.executor.as_deref()).filter(|name| *name != self.executor).collect()
    }

    /// The queues that places name, by executor.
    pub fn queues(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut queues: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let places = self.machine_types.values().map(|machine| &machine.place).chain(self.regions.values());
        for place in places {
            let executor = place.executor.as_ref().unwrap_or(&self.executor);
            queues.entry(executor.clone()).or_default().extend(place.queue.clone());
        }
        queues
    }

    /// The kind of `executor`, which is its name unless it has a name of its own.
    pub fn kind_of<'a>(&'a self, executor: &'a str) -> &'a str {
        self.kinds.get(executor).map_or(executor, String::as_str)
    }

    /// The resources that are counted for a job on `executor`.
    fn counted_on(&self, executor: &str) -> Counted {
        if executor == self.executor {
            self.counted
        } else if is_here(self.kind_of(executor)) {
            self.counted_here
        } else {
            // It passes requests on to a scheduler.
            Counted { cpus: true, memory: true, accelerators: true }
        }
    }
}

/// The executor of processes of the server's machine.
pub const LOCAL: &str = "local";

/// The executor that runs images itself.
pub const KUBERNETES: &str = "kubernetes";

/// Whether executors of the kind `executor` run programs on the machine of the server, which has no queues.
pub fn is_here(executor: &str) -> bool {
    matches!(executor, LOCAL | "agent")
}

impl Default for MachineMap {
    fn default() -> Self {
        Self::published()
    }
}
