//! Metadata: values that clients attach to studies and trials, stored for them and without effect.

use std::collections::BTreeMap;

use crate::TransitionError;

/// Key of a value, unique within a study or trial.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetadataKey {
    /// Namespace, such as `:my:library`; empty for users.
    pub namespace: String,
    pub key: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataValue {
    Text(String),
    /// Protocol buffer of the type `type_url`.
    Message {
        type_url: String,
        value: Vec<u8>,
    },
}

/// Values by key, at most [`Metadata::MAX_BYTES`] in all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata(BTreeMap<MetadataKey, MetadataValue>);

impl Metadata {
    /// Maximum size of all keys and values of a study or trial, in bytes. A guess: a record is read and written whole.
    pub const MAX_BYTES: usize = 256 << 10;

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Values in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&MetadataKey, &MetadataValue)> {
        self.0.iter()
    }

    /// Adds the values of `other`, which replace those with the same key. `resource` is for errors.
    ///
    /// # Errors
    /// [`TransitionError::TooMuchMetadata`] above [`Self::MAX_BYTES`]; nothing is added then.
    pub(crate) fn merge(&mut self, other: Self, resource: impl FnOnce() -> String) -> Result<(), TransitionError> {
        let mut merged = self.0.clone();
        merged.extend(other.0);
        let bytes = merged.iter().map(|(key, value)| key.bytes() + value.bytes()).sum();
        if bytes > Self::MAX_BYTES {
            return Err(TransitionError::TooMuchMetadata { resource: resource(), bytes });
        }
        self.0 = merged;
        Ok(())
    }
}

impl FromIterator<(MetadataKey, MetadataValue)> for Metadata {
    fn from_iter<I: IntoIterator<Item = (MetadataKey, MetadataValue)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl MetadataKey {
    fn bytes(&self) -> usize {
        self.namespace.len() + self.key.len()
    }
}

impl MetadataValue {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Message { type_url, value } => type_url.len() + value.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(key: &str, value: &str) -> (MetadataKey, MetadataValue) {
        (MetadataKey { namespace: ":n".into(), key: key.into() }, MetadataValue::Text(value.into()))
    }

    #[test]
    fn later_values_replace_earlier_ones_within_the_limit() {
        let mut metadata: Metadata = [text("a", "1"), text("b", "2")].into_iter().collect();
        metadata.merge([text("b", "3"), text("c", "4")].into_iter().collect(), String::new).unwrap();
        assert_eq!(metadata, [text("a", "1"), text("b", "3"), text("c", "4")].into_iter().collect());
        let large = "x".repeat(Metadata::MAX_BYTES - 10);
        let error = metadata.clone().merge([text("d", &large)].into_iter().collect(), || "study s".to_owned());
        let expected = "the metadata of study s would have 262149 bytes; at most 262144 are kept";
        assert_eq!(error.unwrap_err().to_string(), expected);
        assert_eq!(metadata.iter().count(), 3);
    }
}
