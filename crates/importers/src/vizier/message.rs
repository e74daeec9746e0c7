//! Messages of Vertex AI in files.

use prost::{Message, Name};
use serde_json::Value;
use tunesmith_config::{ConfigErrors, Document};
use tunesmith_vizier::json;

/// Reads `value`, fields of `document`, as a message. `path_in_file` maps the path of a field in the message.
///
/// # Errors
/// The first field that is unknown or has a value of the wrong form, with its place.
pub fn message<M: Message + Name + Default>(
    document: &Document,
    value: &Value,
    path_in_file: impl Fn(&str) -> String,
) -> Result<M, ConfigErrors> {
    let refuse = |text: &str| document.errors([(String::new(), text.to_owned())]);
    let descriptor = json::descriptor(&M::full_name()).map_err(|refusal| refuse(&refusal.message))?;
    let read = json::read(value.to_string().as_bytes(), descriptor, "").map_err(|refusal| {
        let found = refusal.violations.into_iter();
        document.errors(found.map(|it| fault(path_in_file(&it.field), &it.description)))
    })?;
    read.transcode_to().map_err(|error| refuse(&error.to_string()))
}

/// Path and text of a field that cannot be read, without the place in the JSON of the file.
fn fault(field: String, text: &str) -> (String, String) {
    let text = text.split(" at line ").next().unwrap_or(text);
    match text.strip_prefix("unrecognized field name '").and_then(|rest| rest.strip_suffix('\'')) {
        Some(name) if field.is_empty() || field == "body" => (name.to_owned(), "is not a known field".to_owned()),
        Some(name) => (format!("{field}.{name}"), "is not a known field".to_owned()),
        None => (field, text.to_owned()),
    }
}
