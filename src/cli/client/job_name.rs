//! Finds the job that a command names: by its ID, or by the start of its ID.

use serde_json::Value;

use super::error::ClientError;
use super::request::{list, text};
use super::service::Client;
use tunesmith_domain::JobId;

/// Minimum similarity of an ID that is proposed in place of an unknown one: the Jaro-Winkler similarity, 0 to 1. A guess.
const SIMILAR: f64 = 0.75;
/// The location that stands for all of them.
const ALL_LOCATIONS: &str = "-";
/// Maximum number of IDs in a message.
const LISTED: usize = 5;

/// Returns the job `given`, or the only job whose ID starts with it.
///
/// # Errors
/// [`ClientError::UnknownJob`], [`ClientError::AmbiguousJob`], and the errors of requests.
pub(super) async fn find_job(client: &Client, given: &JobId) -> Result<Value, ClientError> {
    let given = given.parts().1;
    let not_found = match client.get(&client.path(&["jobs", given]), &[]).await {
        Err(error) if error.is_not_found() => error,
        outcome => return outcome,
    };
    // Without the permission to list jobs, only whole IDs are accepted.
    let Ok(ids) = job_ids(client).await else { return Err(not_found) };
    let matching: Vec<&String> = ids.iter().filter(|id| id.starts_with(given)).collect();
    match matching[..] {
        [] => Err(ClientError::UnknownJob { given: given.to_owned(), similar: most_similar(given, &ids) }),
        [id] => client.get(&client.path(&["jobs", id]), &[]).await,
        _ => {
            let mut listed: Vec<String> = matching.iter().take(LISTED).map(ToString::to_string).collect();
            if matching.len() > LISTED {
                listed.push(format!("and {} more", matching.len() - LISTED));
            }
            Err(ClientError::AmbiguousJob { given: given.to_owned(), matching: listed.join(", ") })
        }
    }
}

/// As [`find_job`], for a command that also takes a study, at `location` unless another one is given: if `given` is the name of
/// one, the error proposes it.
///
/// # Errors
/// [`ClientError::StudyNotJob`], and those of [`find_job`].
pub(super) async fn find_job_not_study(client: &Client, location: &str, given: &JobId) -> Result<Value, ClientError> {
    let unknown = match find_job(client, given).await {
        Err(error @ ClientError::UnknownJob { .. }) => error,
        outcome => return outcome,
    };
    let name = given.parts().1;
    let all = client.path(&["locations", ALL_LOCATIONS, "studies"]);
    let Ok(answer) = client.get(&all, &[("filter", &format!("studyId = {name}"))]).await else { return Err(unknown) };
    let names = list(&answer, "studies").iter().map(|study| text(study, "name"));
    let locations: Vec<&str> = names.filter_map(|name| name.split('/').nth(3)).collect();
    let other = match locations[..] {
        [] => return Err(unknown),
        _ if locations.contains(&location) => None,
        [first, ..] => Some(first.to_owned()),
    };
    Err(ClientError::StudyNotJob { name: name.to_owned(), location: other })
}

/// Returns the ID of the job `given`, or the only ID that starts with it.
///
/// # Errors
/// As [`find_job`].
pub(super) async fn find_job_id(client: &Client, given: &JobId) -> Result<String, ClientError> {
    Ok(text(&find_job(client, given).await?, "jobId").to_owned())
}

/// Returns all jobs that satisfy `filter`, by ID.
pub(super) async fn all_jobs(client: &Client, filter: &str, page_size: u8) -> Result<Vec<Value>, ClientError> {
    let page_size = page_size.to_string();
    let (mut jobs, mut page_token): (Vec<Value>, String) = (Vec::new(), String::new());
    loop {
        let query = [("filter", filter), ("pageSize", &page_size), ("pageToken", &page_token)];
        let page = client.get(&client.path(&["jobs"]), &query).await?;
        jobs.extend_from_slice(list(&page, "jobs"));
        page_token = text(&page, "nextPageToken").to_owned();
        if page_token.is_empty() {
            return Ok(jobs);
        }
    }
}

async fn job_ids(client: &Client) -> Result<Vec<String>, ClientError> {
    Ok(all_jobs(client, "", 100).await?.iter().map(|job| text(job, "jobId").to_owned()).collect())
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
