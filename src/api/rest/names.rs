//! Reading resource names out of paths.

use tunesmith_algorithms::problem::TrialId;

use super::status::{ApiError, Code};
use crate::domain::StudyId;
use crate::service::optimizer::TrialRef;

/// The study that three segments of a path name.
pub(super) fn study_id(project: &str, location: &str, study: &str) -> Result<StudyId, ApiError> {
    StudyId::new(project, location, study).map_err(|error| ApiError::invalid("name", error.to_string()))
}

/// The trial that the segment `7`, or `7~2` with its attempt, names.
pub(super) fn trial_ref(study: StudyId, segment: &str) -> Result<TrialRef, ApiError> {
    let (number, attempt) = match segment.split_once('~') {
        Some((number, attempt)) => (number, Some(attempt)),
        None => (segment, None),
    };
    let no_trial = || ApiError::invalid("name", format!("{segment:?} is not a trial's number"));
    let trial = number.parse().map(TrialId).map_err(|_| no_trial())?;
    let attempt = attempt.map(str::parse).transpose().map_err(|_| no_trial())?;
    Ok(TrialRef { study, trial, attempt })
}

/// There is no such path or method.
pub(super) fn no_method(what: &str) -> ApiError {
    ApiError::new(Code::NotFound, format!("there is no method {what}"))
}
