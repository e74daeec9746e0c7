//! Versions of the API of Vertex AI. `v1beta1` has the messages of `v1`, some with more fields.

/// Package of the messages of `v1`, with a dot.
const V1: &str = "google.cloud.aiplatform.v1.";

/// Package of the messages of `v1beta1`, with a dot.
const V1BETA1: &str = "google.cloud.aiplatform.v1beta1.";

/// Version of the API of Vertex AI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    #[default]
    V1,
    /// All fields of `v1`, and those that only this version has.
    V1Beta1,
}

impl Version {
    /// Full name in this version of the message that `v1` names `full_name`. Messages of other APIs keep their name.
    pub fn message(self, full_name: &str) -> String {
        match (self, full_name.strip_prefix(V1)) {
            (Self::V1Beta1, Some(name)) => format!("{V1BETA1}{name}"),
            _ => full_name.to_owned(),
        }
    }
}
