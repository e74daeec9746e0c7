//! Names of things.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Most characters in a job ID (AI Platform's published limit).
pub const MAX_JOB_ID_LENGTH: usize = 128;

/// The ID of a job: letters, digits and underscores, starting with a letter, at most [`MAX_JOB_ID_LENGTH`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

impl JobId {
    /// The ID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for JobId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |reason| Err(IdError { id: text.to_owned(), reason });
        if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return error("it must start with a letter");
        }
        if !text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return error("only letters, digits and underscores are allowed");
        }
        if text.len() > MAX_JOB_ID_LENGTH {
            return error("it is longer than 128 characters");
        }
        Ok(Self(text.to_owned()))
    }
}

/// The ID of a study. The study of a job bears the job's ID.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StudyId(String);

impl StudyId {
    /// Most characters in a study ID.
    const MAX_LENGTH: usize = 128;

    /// The ID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for StudyId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let error = |reason| Err(IdError { id: text.to_owned(), reason });
        if text.is_empty() {
            return error("it is empty");
        }
        if !text.chars().all(allowed) {
            return error("only letters, digits, '_', '-' and '.' are allowed");
        }
        if text.len() > Self::MAX_LENGTH {
            return error("it is longer than 128 characters");
        }
        Ok(Self(text.to_owned()))
    }
}

impl From<&JobId> for StudyId {
    fn from(job: &JobId) -> Self {
        Self(job.0.clone())
    }
}

/// A text that is not an ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{id:?} is not a valid ID: {reason}")]
pub struct IdError {
    /// The text.
    pub id: String,
    /// The rule it breaks.
    pub reason: &'static str,
}

macro_rules! text_conversions {
    ($id:ty) => {
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $id {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$id> for String {
            fn from(id: $id) -> Self {
                id.0
            }
        }
    };
}

text_conversions!(JobId);
text_conversions!(StudyId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_ids_follow_the_published_rules() {
        for good in ["a", "Census_1", &"x".repeat(128)] {
            assert_eq!(good.parse::<JobId>().unwrap().as_str(), good);
        }
        for bad in ["", "1a", "_a", "a-b", "a b", "é", "aé", &"x".repeat(129)] {
            assert!(bad.parse::<JobId>().is_err(), "{bad:?}");
        }
    }
}
