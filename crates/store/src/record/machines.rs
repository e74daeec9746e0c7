//! The machines of a job, as a part of the document of its plan.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use tunesmith_domain::{Accelerators, MachineNotice, MachinePlan, Resources};

/// A machine plan. What is not requested is absent, so that plans that request nothing have the form of earlier versions.
#[derive(Default, PartialEq, Serialize, Deserialize)]
pub(super) struct MachineRecord {
    #[serde(default, skip_serializing_if = "ResourcesRecord::is_empty")]
    resources: ResourcesRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    executor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    options: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    python: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notices: Option<Vec<NoticeRecord>>,
}

/// The resources of a replica.
#[derive(Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ResourcesRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    milli_cpus: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accelerators: Option<AcceleratorsRecord>,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct AcceleratorsRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    count: u32,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct NoticeRecord {
    field: String,
    description: String,
}

impl MachineRecord {
    /// Whether the plan is that of a version without machines.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ResourcesRecord {
    /// Whether nothing is requested.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<&MachinePlan> for MachineRecord {
    fn from(MachinePlan { resources, executor, queue, options, python, notices }: &MachinePlan) -> Self {
        let notice = |MachineNotice { field, description }: &MachineNotice| NoticeRecord {
            field: field.clone(),
            description: description.clone(),
        };
        Self {
            resources: resources.into(),
            executor: executor.clone(),
            queue: queue.clone(),
            options: options.clone(),
            python: python.clone(),
            notices: notices.as_ref().map(|notices| notices.iter().map(notice).collect()),
        }
    }
}

impl From<MachineRecord> for MachinePlan {
    fn from(MachineRecord { resources, executor, queue, options, python, notices }: MachineRecord) -> Self {
        let notice = |NoticeRecord { field, description }| MachineNotice { field, description };
        Self {
            resources: resources.into(),
            executor,
            queue,
            options,
            python,
            notices: notices.map(|notices| notices.into_iter().map(notice).collect()),
        }
    }
}

impl From<&Resources> for ResourcesRecord {
    fn from(Resources { milli_cpus, memory_bytes, accelerators }: &Resources) -> Self {
        Self {
            milli_cpus: *milli_cpus,
            memory_bytes: *memory_bytes,
            accelerators: accelerators
                .as_ref()
                .map(|Accelerators { kind, count }| AcceleratorsRecord { kind: kind.clone(), count: *count }),
        }
    }
}

impl From<ResourcesRecord> for Resources {
    fn from(ResourcesRecord { milli_cpus, memory_bytes, accelerators }: ResourcesRecord) -> Self {
        Self {
            milli_cpus,
            memory_bytes,
            accelerators: accelerators.map(|AcceleratorsRecord { kind, count }| Accelerators { kind, count }),
        }
    }
}
