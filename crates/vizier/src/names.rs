//! Resource names of both protocols, and the IDs of their studies.
//!
//! A study of Vertex AI gets an ID from the server, and a study of OSS Vizier has a name of any characters. Both have IDs here
//! that follow from their name for display: the store then refuses a second study of one name, also with several servers.

use std::fmt::Write;

use sha2::{Digest, Sha256};
use tunesmith_api::ai_platform::optimizer::{display_name, study_name, trial_and_attempt};
use tunesmith_domain::{Job, JobId, Refusal, Study, StudyId, Trial, TrialId};

/// Location of studies of OSS Vizier, which has no locations.
pub const OSS_LOCATION: &str = "global";

/// Maximum length of the name of a study for display, in characters.
pub const MAX_DISPLAY_NAME: usize = 128;

/// Characters of an ID for a name that cannot be one itself, before its digest.
const READABLE: usize = 40;

/// A trial as named in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialName {
    pub study: StudyId,
    pub trial: TrialId,
    /// Attempt whose owner sends the request, if the name has one.
    pub attempt: Option<u64>,
}

/// Values of the `*` of `pattern` in `name`, which has as many segments.
pub fn parts<'a, const N: usize>(name: &'a str, pattern: &str) -> Option<[&'a str; N]> {
    let mut values = [""; N];
    let (mut segments, mut count) = (name.split('/'), 0);
    for expected in pattern.split('/') {
        let segment = segments.next()?;
        if expected == "*" {
            *values.get_mut(count)? = Some(segment).filter(|segment| !segment.is_empty())?;
            count += 1;
        } else if segment != expected {
            return None;
        }
    }
    (segments.next().is_none() && count == N).then_some(values)
}

fn malformed(field: &str, name: &str, pattern: &str) -> Refusal {
    Refusal::invalid(field, format!("{name:?} has not the form {pattern}"))
}

fn id(field: &str, project: &str, location: &str, study: &str) -> Result<StudyId, Refusal> {
    StudyId::new(project, location, study).map_err(|error| Refusal::invalid(field, error.to_string()))
}

fn trial(field: &str, study: StudyId, segment: &str) -> Result<TrialName, Refusal> {
    let (trial, attempt) = trial_and_attempt(segment).map_err(|error| Refusal::invalid(field, error.description))?;
    Ok(TrialName { study, trial, attempt })
}

/// Names of Vertex AI.
pub mod vertex {
    use super::*;

    /// Collection of jobs with trials.
    pub const TUNING_JOBS: &str = "hyperparameterTuningJobs";

    /// Collection of jobs without trials.
    pub const CUSTOM_JOBS: &str = "customJobs";

    const LOCATION: &str = "projects/*/locations/*";
    const STUDY: &str = "projects/*/locations/*/studies/*";
    const TRIAL: &str = "projects/*/locations/*/studies/*/trials/*";

    /// Project and location in `parent`.
    ///
    /// # Errors
    /// If `parent` has another form.
    pub fn location(parent: &str) -> Result<[&str; 2], Refusal> {
        let [project, location] = parts(parent, LOCATION).ok_or_else(|| malformed("parent", parent, LOCATION))?;
        id("parent", project, location, "any")?;
        Ok([project, location])
    }

    /// ID of the study `name`, given in `field`.
    ///
    /// # Errors
    /// If `name` has another form.
    pub fn study(field: &str, name: &str) -> Result<StudyId, Refusal> {
        let [project, location, study] = parts(name, STUDY).ok_or_else(|| malformed(field, name, STUDY))?;
        id(field, project, location, study)
    }

    /// The trial `name`, given in `field`.
    ///
    /// # Errors
    /// If `name` has another form.
    pub fn trial(field: &str, name: &str) -> Result<TrialName, Refusal> {
        let [project, location, study, trial] = parts(name, TRIAL).ok_or_else(|| malformed(field, name, TRIAL))?;
        super::trial(field, id(field, project, location, study)?, trial)
    }

    /// Location and ID of the job `name`.
    ///
    /// # Errors
    /// If `name` has another form.
    pub fn job<'a>(name: &'a str, collection: &str) -> Result<(&'a str, JobId), Refusal> {
        let pattern = format!("projects/*/locations/*/{collection}/*");
        let [project, location, job] = parts(name, &pattern).ok_or_else(|| malformed("name", name, &pattern))?;
        let id = JobId::of_vertex(project, job).map_err(|error| Refusal::invalid("name", error.to_string()))?;
        Ok((location, id))
    }

    /// Name of `job` at `location`: of a tuning job, or of a custom job.
    pub fn of_job(job: &Job, location: &str) -> String {
        let collection = if job.study.is_some() { TUNING_JOBS } else { CUSTOM_JOBS };
        format!("projects/{}/locations/{location}/{collection}/{}", job.id.parts().0, job.id.vertex_id())
    }

    pub fn of_study(study: &StudyId) -> String {
        study_name(study)
    }

    /// Name of a trial. Its number is a whole number for clients, so it has no attempt.
    pub fn of_trial(study: &StudyId, trial: &Trial) -> String {
        format!("{}/trials/{}", study_name(study), trial.id)
    }

    /// ID of the study with this name for display: digits, as in Vertex AI.
    pub fn id_of(display_name: &str) -> String {
        let digest = Sha256::digest(display_name.as_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&digest[..8]);
        // 63 bits: clients may hold it as an int64.
        (u64::from_be_bytes(bytes) >> 1).to_string()
    }
}

/// Names of OSS Vizier: `owners/{project}/studies/{study}`, where the study is in the location `global`, or
/// `{location}:{study}`.
pub mod oss {
    use super::*;

    const OWNER: &str = "owners/*";
    const STUDY: &str = "owners/*/studies/*";
    const TRIAL: &str = "owners/*/studies/*/trials/*";

    /// Project in `parent`.
    ///
    /// # Errors
    /// If `parent` has another form.
    pub fn owner(parent: &str) -> Result<&str, Refusal> {
        let [project] = parts(parent, OWNER).ok_or_else(|| malformed("parent", parent, OWNER))?;
        id("parent", project, OSS_LOCATION, "any")?;
        Ok(project)
    }

    /// Location and the rest of a study's part of a name. What cannot be a location belongs to the rest.
    pub fn location_of(study: &str) -> (&str, &str) {
        let is_location = |(location, _): &(&str, &str)| StudyId::new("p", location, "any").is_ok();
        study.split_once(':').filter(is_location).unwrap_or((OSS_LOCATION, study))
    }

    /// IDs that the study `name` may have, given in `field`; the first one if it was made by OSS Vizier's clients.
    ///
    /// # Errors
    /// If `name` has another form.
    pub fn study(field: &str, name: &str) -> Result<Vec<StudyId>, Refusal> {
        let [project, study] = parts(name, STUDY).ok_or_else(|| malformed(field, name, STUDY))?;
        candidates(field, project, study)
    }

    /// IDs that the study of the trial `name` may have, and the number of the trial.
    ///
    /// # Errors
    /// If `name` has another form.
    pub fn trial(field: &str, name: &str) -> Result<(Vec<StudyId>, TrialId), Refusal> {
        let [project, study, trial] = parts(name, TRIAL).ok_or_else(|| malformed(field, name, TRIAL))?;
        let number = trial_and_attempt(trial).map_err(|error| Refusal::invalid(field, error.description))?.0;
        Ok((candidates(field, project, study)?, number))
    }

    fn candidates(field: &str, project: &str, study: &str) -> Result<Vec<StudyId>, Refusal> {
        let (location, name) = location_of(study);
        ids_of(name).iter().map(|study| id(field, project, location, study)).collect()
    }

    pub fn of_study(study: &Study) -> String {
        let (project, location, id) = study.id.parts();
        // A display name with a colon would be read as a location.
        let name =
            Some(display_name(study)).filter(|name| id_of(name) == id && !name.contains(['/', ':'])).unwrap_or(id);
        if location == OSS_LOCATION {
            format!("owners/{project}/studies/{name}")
        } else {
            format!("owners/{project}/studies/{location}:{name}")
        }
    }

    pub fn of_trial(study: &Study, trial: TrialId) -> String {
        format!("{}/trials/{trial}", of_study(study))
    }

    /// ID of the study with this name for display: the name itself if it can be one, or its readable characters with a
    /// digest.
    pub fn id_of(display_name: &str) -> String {
        let is_allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.');
        let is_id = display_name.chars().all(is_allowed) && StudyId::new("p", OSS_LOCATION, display_name).is_ok();
        if is_id {
            return display_name.to_owned();
        }
        let readable = display_name.chars().take(READABLE);
        let mut id: String = readable.map(|character| if is_allowed(character) { character } else { '_' }).collect();
        let digest = Sha256::digest(display_name.as_bytes());
        id.push('.');
        for byte in &digest[..6] {
            let _ = write!(id, "{byte:02x}");
        }
        id
    }
}

/// IDs that a study with this name for display may have: by OSS Vizier or by another protocol whose IDs are chosen by
/// users, then by Vertex AI.
pub fn ids_of(display_name: &str) -> [String; 2] {
    [oss::id_of(display_name), vertex::id_of(display_name)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_segments_of_their_pattern() {
        assert_eq!(parts::<2>("projects/p/locations/l", "projects/*/locations/*"), Some(["p", "l"]));
        for bad in ["", "projects/p", "projects//locations/l", "projects/p/locations/l/", "owners/p/locations/l"] {
            assert_eq!(parts::<2>(bad, "projects/*/locations/*"), None, "{bad}");
        }
    }

    #[test]
    fn ids_follow_from_display_names() {
        assert_eq!(oss::id_of("mnist-1"), "mnist-1");
        assert_ne!(oss::id_of("my study"), oss::id_of("my_study"));
        assert_eq!(oss::id_of(&"ü".repeat(300)).len(), READABLE + 13);
        let digits = vertex::id_of("my study");
        assert!(digits.parse::<i64>().is_ok(), "{digits}");
    }

    #[test]
    fn trials_of_all_locations_have_names() {
        let (ids, trial) = oss::trial("name", "owners/p/studies/us-central1:exp 1/trials/3").unwrap();
        assert_eq!(trial, TrialId(3));
        assert!(ids.iter().all(|id| id.parts().0 == "p" && id.parts().1 == "us-central1"), "{ids:?}");
        assert_eq!(oss::study("name", "owners/p/studies/s").unwrap()[0].as_str(), "p/global/s");
        assert_eq!(oss::location_of("my study: second"), (OSS_LOCATION, "my study: second"));
        let name = vertex::trial("name", "projects/p/locations/l/studies/s/trials/7~2").unwrap();
        assert_eq!((name.trial, name.attempt), (TrialId(7), Some(2)));
        assert!(vertex::trial("name", "projects/p/locations/l/studies/s/trials/x").is_err());
    }
}
