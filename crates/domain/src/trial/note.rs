//! Notes of people on trials.

use jiff::Timestamp;

use super::Trial;
use crate::TransitionError;

/// Text that people keep with a trial. It has no effect on the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialNote {
    /// Plain text, at most [`TrialNote::MAX_BYTES`]; empty once it was removed.
    pub text: String,
    /// Principal that wrote it; `None` on a server without tokens.
    pub author: Option<String>,
    /// Time of the last change.
    pub time: Timestamp,
    /// Number of changes so far. Identifies the note that a client has read.
    pub version: u64,
}

/// Note to be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNote {
    /// From [`TrialNote::text_of`].
    pub text: String,
    pub author: Option<String>,
    /// Version of the note that the author has read; the change is refused if the note has another one. `None` replaces any
    /// note.
    pub expected: Option<u64>,
}

/// Text that cannot be a note.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    #[error("has {bytes} bytes, must have at most {}", TrialNote::MAX_BYTES)]
    TooLong { bytes: usize },
    #[error("contains the control character U+{:04X}; only line breaks and tabs are allowed", u32::from(*.character))]
    Control { character: char },
}

impl TrialNote {
    /// Maximum size of a text in bytes. A guess: the record of a trial is read and written whole.
    pub const MAX_BYTES: usize = 8 << 10;

    /// Text of a note: line breaks become line feeds, and blank space at the end is removed.
    ///
    /// # Errors
    /// [`NoteError`]
    pub fn text_of(given: &str) -> Result<String, NoteError> {
        let text = given.replace("\r\n", "\n").trim_end().to_owned();
        if text.len() > Self::MAX_BYTES {
            return Err(NoteError::TooLong { bytes: text.len() });
        }
        match text.chars().find(|letter| letter.is_control() && !matches!(letter, '\n' | '\t')) {
            Some(character) => Err(NoteError::Control { character }),
            None => Ok(text),
        }
    }
}

impl Trial {
    /// Note with a text.
    pub fn note(&self) -> Option<&TrialNote> {
        self.last_note.as_ref().filter(|note| !note.text.is_empty())
    }

    /// Number of changes of the note.
    pub fn note_version(&self) -> u64 {
        self.last_note.as_ref().map_or(0, |note| note.version)
    }

    /// Sets the text of the note. No effect if it is the text already, so that a retry succeeds.
    pub(super) fn set_note(&mut self, new: NewNote, at: Timestamp) -> Result<(), TransitionError> {
        let NewNote { text, author, expected } = new;
        if self.note().map_or("", |note| &note.text) == text {
            return Ok(());
        }
        let version = self.note_version();
        if expected.is_some_and(|expected| expected != version) {
            return Err(TransitionError::Outdated { resource: format!("the note of trial {}", self.id) });
        }
        self.0.last_note = Some(TrialNote { text, author, time: at, version: version + 1 });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_bounded_and_plain() {
        assert_eq!(TrialNote::text_of("a\r\n\tb \n\n").as_deref(), Ok("a\n\tb"));
        assert_eq!(TrialNote::text_of(" \n").as_deref(), Ok(""));
        assert_eq!(TrialNote::text_of(&"x".repeat(8192)).unwrap().len(), 8192);
        let error = |text: &str| TrialNote::text_of(text).unwrap_err().to_string();
        assert_eq!(error(&"é".repeat(4097)), "has 8194 bytes, must have at most 8192");
        assert_eq!(
            error("a\u{1b}[31m"),
            "contains the control character U+001B; only line breaks and tabs are allowed"
        );
    }
}
