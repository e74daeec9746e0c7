use tunesmith_api::ai_platform::rpc::FieldViolation;
use tunesmith_domain::{Metadata, MetadataKey, MetadataValue};

use crate::messages::oss::KeyValue;
use crate::messages::oss::key_value::AValue;

/// Reads metadata; `field` is its path, for errors.
///
/// # Errors
/// An entry without a key.
pub fn metadata(entries: impl IntoIterator<Item = KeyValue>, field: &str) -> Result<Metadata, FieldViolation> {
    let entries = entries.into_iter().enumerate().map(|(index, entry)| {
        if entry.key.is_empty() {
            return Err(FieldViolation::new(format!("{field}[{index}].key"), "is required"));
        }
        let value = match entry.a_value {
            None => MetadataValue::Text(String::new()),
            Some(AValue::Value(text)) => MetadataValue::Text(text),
            Some(AValue::Proto(message)) => MetadataValue::Message { type_url: message.type_url, value: message.value },
        };
        Ok((MetadataKey { namespace: entry.ns, key: entry.key }, value))
    });
    entries.collect()
}

pub fn message_of_metadata(metadata: &Metadata) -> Vec<KeyValue> {
    let message = |(key, value): (&MetadataKey, &MetadataValue)| KeyValue {
        key: key.key.clone(),
        ns: key.namespace.clone(),
        a_value: Some(match value {
            MetadataValue::Text(text) => AValue::Value(text.clone()),
            MetadataValue::Message { type_url, value } => {
                AValue::Proto(prost_types::Any { type_url: type_url.clone(), value: value.clone() })
            }
        }),
    };
    metadata.iter().map(message).collect()
}
