//! The JSON form of domain values inside a spec that is handed to a supervisor.

use serde::{Deserialize, Serialize};
use tunesmith_domain::Role;

/// The form of [`Role`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Role")]
pub(super) enum RoleForm {
    Master,
    Worker,
    ParameterServer,
    Evaluator,
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
