//! The stored form of metadata: a list, whose bytes are hexadecimal text.

use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tunesmith_domain::{Metadata, MetadataKey, MetadataValue};

use super::form::{Form, is_default};

#[derive(Serialize, Deserialize)]
struct Entry {
    #[serde(default, skip_serializing_if = "is_default")]
    namespace: String,
    key: String,
    #[serde(flatten)]
    value: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Value {
    Text(String),
    Message { type_url: String, value: String },
}

pub(super) struct MetadataRecord;

impl Form<Metadata> for MetadataRecord {
    fn write<S: Serializer>(metadata: &Metadata, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(metadata.iter().map(|(key, value)| Entry {
            namespace: key.namespace.clone(),
            key: key.key.clone(),
            value: match value {
                MetadataValue::Text(text) => Value::Text(text.clone()),
                MetadataValue::Message { type_url, value } => {
                    Value::Message { type_url: type_url.clone(), value: hex::encode(value) }
                }
            },
        }))
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Metadata, D::Error> {
        let entries = Vec::<Entry>::deserialize(deserializer)?.into_iter().map(|Entry { namespace, key, value }| {
            let value = match value {
                Value::Text(text) => MetadataValue::Text(text),
                Value::Message { type_url, value } => {
                    MetadataValue::Message { type_url, value: hex::decode(value).map_err(D::Error::custom)? }
                }
            };
            Ok((MetadataKey { namespace, key }, value))
        });
        entries.collect()
    }
}

impl Form<Arc<Metadata>> for MetadataRecord {
    fn write<S: Serializer>(metadata: &Arc<Metadata>, serializer: S) -> Result<S::Ok, S::Error> {
        <Self as Form<Metadata>>::write(metadata, serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Metadata>, D::Error> {
        <Self as Form<Metadata>>::read(deserializer).map(Arc::new)
    }
}
