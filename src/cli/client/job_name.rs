//! Resolution of job names: a full ID or a unique prefix.

use super::error::JobNameError;
use tunesmith_api::ai_platform::job::JobResource;
use tunesmith_client::{Client, Resource};
use tunesmith_domain::JobId;

/// Minimum Jaro-Winkler similarity, from 0 to 1, for a suggested ID. A guess.
const SIMILAR: f64 = 0.75;
/// Wildcard for all locations.
const ALL_LOCATIONS: &str = "-";
/// Maximum number of IDs listed in a message.
const LISTED: usize = 5;

/// Finds the job with the ID `given`, or the only one with that prefix.
///
/// # Errors
/// [`JobNameError`].
pub(super) async fn find_job(client: &Client, given: &JobId) -> Result<Resource<JobResource>, JobNameError> {
    let given = given.parts().1;
    let not_found = match client.job(given).await {
        Err(error) if error.is_not_found() => error,
        outcome => return Ok(outcome?),
    };
    // Without permission to list jobs, only full IDs work.
    let Ok(jobs) = client.jobs("", 100).await else { return Err(not_found.into()) };
    let ids: Vec<String> = jobs.into_iter().map(|job| job.message.job_id).collect();
    let matching: Vec<&str> = ids.iter().map(String::as_str).filter(|id| id.starts_with(given)).collect();
    let given = given.to_owned();
    match matching[..] {
        [] => Err(JobNameError::Unknown { similar: most_similar(&given, &ids), given }),
        [id] => Ok(client.job(id).await?),
        _ => {
            let mut listed: Vec<String> = matching.iter().take(LISTED).map(ToString::to_string).collect();
            if matching.len() > LISTED {
                listed.push(format!("and {} more", matching.len() - LISTED));
            }
            Err(JobNameError::Ambiguous { given, matching: listed.join(", ") })
        }
    }
}

/// Like [`find_job`], but the error suggests a study of that name at `location`.
///
/// # Errors
/// [`JobNameError`].
pub(super) async fn find_job_not_study(
    client: &Client,
    location: &str,
    given: &JobId,
) -> Result<Resource<JobResource>, JobNameError> {
    let unknown = match find_job(client, given).await {
        Err(error @ JobNameError::Unknown { .. }) => error,
        outcome => return outcome,
    };
    let name = given.parts().1;
    let Ok(studies) = client.studies(ALL_LOCATIONS, &format!("studyId = {name}")).await else { return Err(unknown) };
    let locations: Vec<&str> = studies.iter().filter_map(|study| study.name.split('/').nth(3)).collect();
    let other = match locations[..] {
        [] => return Err(unknown),
        _ if locations.contains(&location) => None,
        [first, ..] => Some(first.to_owned()),
    };
    Err(JobNameError::Study { name: name.to_owned(), location: other })
}

/// Like [`find_job`], returning only the ID.
///
/// # Errors
/// [`JobNameError`].
pub(super) async fn find_job_id(client: &Client, given: &JobId) -> Result<String, JobNameError> {
    Ok(find_job(client, given).await?.message.job_id)
}

fn most_similar(given: &str, ids: &[String]) -> Option<String> {
    let scored = ids.iter().map(|id| (strsim::jaro_winkler(given, id), id));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= SIMILAR).then(|| best.1.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_similar_id_is_proposed() {
        let ids = ["census_1".to_owned(), "mnist".to_owned()];
        assert_eq!(most_similar("cesnus_1", &ids).as_deref(), Some("census_1"));
        assert_eq!(most_similar("zebra", &ids), None);
        assert_eq!(most_similar("a", &[]), None);
    }
}
