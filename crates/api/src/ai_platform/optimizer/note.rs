//! Notes of people on trials, an extension of Tunesmith.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tunesmith_domain::{NewNote, TrialNote};

use super::FieldViolation;
use crate::ai_platform::proto_json;

/// Note on a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TrialNote")]
pub struct NoteMessage {
    /// Plain text.
    pub text: String,
    /// Principal that wrote it; absent on a server without tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Time of the last change.
    pub update_time: Timestamp,
    /// Changes with the note.
    pub etag: String,
}

/// Note to be set on a trial.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "SetTrialNoteRequest")]
pub struct SetNoteRequest {
    /// Plain text of at most 8192 bytes, with line breaks; required. An empty text removes the note.
    #[schemars(length(max = 8192))]
    pub text: Option<String>,
    /// Etag of the note as it was read: the change is refused if the note has changed since. `AAAAAAAAAAA=` is that of a trial
    /// that never had a note. Without an etag, any note is replaced.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub etag: String,
}

impl From<&TrialNote> for NoteMessage {
    fn from(note: &TrialNote) -> Self {
        Self {
            text: note.text.clone(),
            author: note.author.clone(),
            update_time: note.time,
            etag: etag_of_note(note.version),
        }
    }
}

/// Etag of the note with this version; 0 if a trial never had one.
pub fn etag_of_note(version: u64) -> String {
    STANDARD.encode(version.to_be_bytes())
}

impl SetNoteRequest {
    /// Validates the note of `author`.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn into_note(self, author: Option<String>) -> Result<NewNote, FieldViolation> {
        let text =
            self.text.ok_or_else(|| FieldViolation::new("text", "is required; an empty text removes the note"))?;
        let text = TrialNote::text_of(&text).map_err(|error| FieldViolation::new("text", error.to_string()))?;
        let version = |etag: &str| Some(u64::from_be_bytes(proto_json::bytes(etag)?.try_into().ok()?));
        let unknown = || FieldViolation::new("etag", format!("is {:?}, which is not the etag of a note", self.etag));
        let expected = match self.etag.as_str() {
            "" => None,
            etag => Some(version(etag).ok_or_else(unknown)?),
        };
        Ok(NewNote { text, author, expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_states_which_note_it_replaces() {
        let request = |text: &str, etag: &str| SetNoteRequest { text: Some(text.to_owned()), etag: etag.to_owned() };
        assert_eq!(etag_of_note(0), "AAAAAAAAAAA=");
        let note = request("a\r\nb ", &etag_of_note(3)).into_note(Some("user:a".to_owned())).unwrap();
        assert_eq!(note, NewNote { text: "a\nb".to_owned(), author: Some("user:a".to_owned()), expected: Some(3) });
        assert_eq!(request("", "").into_note(None).unwrap().expected, None);
        let error = |request: SetNoteRequest| request.into_note(None).unwrap_err();
        assert_eq!(error(SetNoteRequest::default()).field, "text");
        assert_eq!(error(request("a", "AAA=")).description, "is \"AAA=\", which is not the etag of a note");
        let long = error(request(&"x".repeat(8193), ""));
        assert_eq!(
            (long.field.as_str(), long.description.as_str()),
            ("text", "has 8193 bytes, must have at most 8192")
        );
    }
}
