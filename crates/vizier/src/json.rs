//! JSON of proto3: what published clients of Vertex AI send and read over HTTP.
//!
//! Names may be in camelCase or snake_case, enums names or numbers, 64-bit integers text or numbers, and `null` is an absent
//! field.

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions};
use tunesmith_domain::{FieldViolation, Refusal};

use crate::messages::DESCRIPTORS;

/// Descriptor of the message `name`.
///
/// # Errors
/// If this build has no such message, which is a defect.
pub fn descriptor(name: &str) -> Result<MessageDescriptor, Refusal> {
    DESCRIPTORS.get_message_by_name(name).ok_or_else(|| defective(&format!("this build has no message {name}")))
}

fn defective(text: &str) -> Refusal {
    Refusal::new(tunesmith_domain::Code::Internal, text)
}

/// Reads a message. `prefix` is its path in the request, for errors; it ends with a dot unless it is empty.
///
/// # Errors
/// The first field that is unknown or has a value of the wrong form; or text that is not JSON.
pub fn read(bytes: &[u8], of: MessageDescriptor, prefix: &str) -> Result<DynamicMessage, Refusal> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let mut track = serde_path_to_error::Track::new();
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let tracked = serde_path_to_error::Deserializer::new(&mut deserializer, &mut track);
    let message = DynamicMessage::deserialize_with_options(of, tracked, &options);
    let message = message.map_err(|error: serde_json::Error| {
        let path = track.path().to_string();
        if path == "." || error.is_syntax() || error.is_eof() {
            return Refusal::invalid(
                if prefix.is_empty() { "body" } else { prefix.trim_end_matches('.') },
                error.to_string(),
            );
        }
        let description = error.to_string();
        Refusal::violations([FieldViolation { field: format!("{prefix}{path}"), description }])
    })?;
    deserializer.end().map_err(|error| Refusal::invalid("body", error.to_string()))?;
    Ok(message)
}

/// `message` of the type `name` as JSON.
///
/// # Errors
/// As those of [`write_encoded`].
pub fn write(message: &impl Message, name: &str) -> Result<Vec<u8>, Refusal> {
    write_encoded(message.encode_to_vec().into(), name)
}

/// The encoded `message` of the type `name` as JSON.
///
/// # Errors
/// If the message has a value without JSON, such as an unknown type in an `Any`, which is a defect.
pub fn write_encoded(message: Bytes, name: &str) -> Result<Vec<u8>, Refusal> {
    let defect = |error: &dyn std::fmt::Display| defective(&format!("{name} cannot be rendered: {error}"));
    let dynamic = DynamicMessage::decode(descriptor(name)?, message);
    let dynamic = dynamic.map_err(|error| defect(&error))?;
    let mut serializer = serde_json::Serializer::new(Vec::new());
    let options = SerializeOptions::new().skip_default_fields(true);
    dynamic.serialize_with_options(&mut serializer, &options).map_err(|error| defect(&error))?;
    Ok(serializer.into_inner())
}
