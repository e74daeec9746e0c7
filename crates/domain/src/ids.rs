//! IDs of jobs and studies.

use std::fmt;
use std::str::FromStr;

/// Maximum length of a job ID in characters, as published for AI Platform.
pub const MAX_JOB_ID_LENGTH: usize = 128;

/// Job ID, unique across projects.
///
/// Its text is `project/id`, or only `id` in the project [`JobId::LOCAL_PROJECT`]. The `id` part consists of at most
/// [`MAX_JOB_ID_LENGTH`] letters, digits and underscores, and starts with a letter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(String);

impl JobId {
    /// Project of jobs submitted without one.
    pub const LOCAL_PROJECT: &str = "local";

    /// Creates the ID of job `id` in `project`.
    ///
    /// # Errors
    /// [`IdError`] if either part is invalid.
    pub fn new(project: &str, id: &str) -> Result<Self, IdError> {
        check_part(project, &PROJECT_CHARACTERS)?;
        let error = |reason| Err(IdError { id: id.to_owned(), reason });
        if !id.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return error("it must start with a letter");
        }
        if !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return error("only letters, digits and underscores are allowed");
        }
        if id.len() > MAX_JOB_ID_LENGTH {
            return error("it is longer than 128 characters");
        }
        Ok(if project == Self::LOCAL_PROJECT { Self(id.to_owned()) } else { Self(format!("{project}/{id}")) })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the project and the job's name within it.
    pub fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or((Self::LOCAL_PROJECT, &self.0))
    }

    /// Creates the ID of the job `id` of Vertex AI in `project`. Its IDs are digits, before which a prefix is put.
    ///
    /// # Errors
    /// [`IdError`] if either part is invalid.
    pub fn of_vertex(project: &str, id: &str) -> Result<Self, IdError> {
        if is_digits(id) { Self::new(project, &format!("{VERTEX_PREFIX}{id}")) } else { Self::new(project, id) }
    }

    /// The job's name on Vertex AI: the digits of [`Self::of_vertex`], or the name of a job submitted in another way.
    pub fn vertex_id(&self) -> &str {
        let name = self.parts().1;
        name.strip_prefix(VERTEX_PREFIX).filter(|id| is_digits(id)).unwrap_or(name)
    }
}

/// Beginning of the names of jobs of Vertex AI.
const VERTEX_PREFIX: &str = "vertex_";

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl FromStr for JobId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((project, id)) => Self::new(project, id),
            None => Self::new(Self::LOCAL_PROJECT, text),
        }
    }
}

/// Study ID, unique across projects and locations.
///
/// Its text is `project/location/id`, or only `id` for the study of a job in the local project
/// ([`StudyId::LOCAL_PROJECT`], [`StudyId::JOBS_LOCATION`]).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StudyId(String);

impl StudyId {
    /// Project of jobs submitted without one.
    pub const LOCAL_PROJECT: &str = JobId::LOCAL_PROJECT;
    /// Location of all studies that belong to jobs.
    pub const JOBS_LOCATION: &str = "jobs";

    /// Creates the ID of study `id` in `project` at `location`.
    ///
    /// # Errors
    /// [`IdError`] if a part is empty, longer than 128 characters, or contains anything except letters, digits, `_`,
    /// `-` and `.`. Projects may also contain `:`, as in `example.com:project`.
    pub fn new(project: &str, location: &str, id: &str) -> Result<Self, IdError> {
        check_part(project, &PROJECT_CHARACTERS)?;
        for part in [location, id] {
            check_part(part, &NAME_CHARACTERS)?;
        }
        Ok(if (project, location) == (Self::LOCAL_PROJECT, Self::JOBS_LOCATION) {
            Self(id.to_owned())
        } else {
            Self(format!("{project}/{location}/{id}"))
        })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the project, the location, and the study's name within them.
    pub fn parts(&self) -> (&str, &str, &str) {
        let mut parts = self.0.splitn(3, '/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(project), Some(location), Some(id)) => (project, location, id),
            _ => (Self::LOCAL_PROJECT, Self::JOBS_LOCATION, &self.0),
        }
    }

    /// Whether the study belongs to a job.
    pub fn is_of_job(&self) -> bool {
        self.parts().1 == Self::JOBS_LOCATION
    }
}

impl FromStr for StudyId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split('/').collect::<Vec<_>>()[..] {
            [project, location, id] => Self::new(project, location, id),
            _ => Self::new(Self::LOCAL_PROJECT, Self::JOBS_LOCATION, text),
        }
    }
}

impl From<&JobId> for StudyId {
    fn from(job: &JobId) -> Self {
        match job.0.split_once('/') {
            Some((project, id)) => Self(format!("{project}/{}/{id}", Self::JOBS_LOCATION)),
            None => Self(job.0.clone()),
        }
    }
}

/// Characters allowed besides letters and digits, and the message for others.
struct Characters(&'static [char], &'static str);

const PROJECT_CHARACTERS: Characters =
    Characters(&['_', '-', '.', ':'], "only letters, digits, '_', '-', '.' and ':' are allowed");
const NAME_CHARACTERS: Characters = Characters(&['_', '-', '.'], "only letters, digits, '_', '-' and '.' are allowed");

/// Maximum length of a project or of one part of a study ID, in characters.
const MAX_PART_LENGTH: usize = 128;

fn check_part(part: &str, Characters(others, reason): &Characters) -> Result<(), IdError> {
    let error = |reason| Err(IdError { id: part.to_owned(), reason });
    if part.is_empty() {
        return error("it is empty");
    }
    if !part.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(&c)) {
        return error(reason);
    }
    if part.len() > MAX_PART_LENGTH {
        return error("it is longer than 128 characters");
    }
    // Parts name folders, where these two have a special meaning.
    if matches!(part, "." | "..") {
        return error("it is not a name");
    }
    Ok(())
}

/// Error for text that is not a valid ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{id:?} is not a valid ID: {reason}")]
pub struct IdError {
    pub id: String,
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
    fn study_ids_have_a_project_a_location_and_a_name() {
        let study = StudyId::new("example.com:p", "us-central1", "s.1").unwrap();
        assert_eq!(study.as_str(), "example.com:p/us-central1/s.1");
        assert_eq!(study.as_str().parse::<StudyId>().unwrap(), study);
        assert_eq!((study.parts(), study.is_of_job()), (("example.com:p", "us-central1", "s.1"), false));
        let of_job: StudyId = "census".parse().unwrap();
        assert_eq!((of_job.parts(), of_job.is_of_job()), (("local", "jobs", "census"), true));
        assert_eq!(StudyId::new("local", "jobs", "census").unwrap(), of_job);
        for bad in [
            "",
            "a/b",
            "../l/s",
            "p/./s",
            "a/b/c/d",
            "a//c",
            "a/b/",
            "p/l/s:x",
            "p/l:x/s",
            "p/l/\u{0}",
            &"x".repeat(129),
        ] {
            assert!(bad.parse::<StudyId>().is_err(), "{bad:?}");
        }
    }

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
