//! The JSON form of domain values inside a spec that is handed to a supervisor.

use serde::{Deserialize, Serialize};
use tunesmith_domain::{Accelerators, Resources, Role};

/// The form of [`Role`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Role")]
pub(super) enum RoleForm {
    Master,
    Worker,
    ParameterServer,
    Evaluator,
}

/// The form of [`Resources`]. What is not requested is absent.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Resources")]
pub(super) struct ResourcesForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    milli_cpus: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "accelerators")]
    accelerators: Option<Accelerators>,
}

/// The form of [`Accelerators`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Accelerators")]
struct AcceleratorsForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    count: u32,
}

/// The form of optional accelerators.
mod accelerators {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tunesmith_domain::Accelerators;

    use super::AcceleratorsForm;

    #[derive(Serialize)]
    struct Given<'a>(#[serde(with = "AcceleratorsForm")] &'a Accelerators);

    #[derive(Deserialize)]
    struct Read(#[serde(with = "AcceleratorsForm")] Accelerators);

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(super) fn serialize<S: Serializer>(value: &Option<Accelerators>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Given).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Accelerators>, D::Error> {
        Ok(Option::<Read>::deserialize(deserializer)?.map(|read| read.0))
    }
}

/// The form of a job ID: its text.
pub(super) mod job_id {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use tunesmith_domain::JobId;

    pub(crate) fn serialize<S: Serializer>(id: &JobId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(id.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<JobId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
