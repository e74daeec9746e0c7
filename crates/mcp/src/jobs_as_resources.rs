//! Jobs as resources: `tunesmith://jobs/PROJECT/JOB`, read with the permissions of the caller.

use rmcp::model::{ErrorData, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use tunesmith_client::Client;

use crate::failure::Failure;
use crate::tools::jobs::{JobSummary, details};

/// Start of the URIs of jobs.
const PREFIX: &str = "tunesmith://jobs/";

/// Jobs on a page.
const PAGE_SIZE: u8 = 50;

/// The form of the URIs.
pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new(format!("{PREFIX}{{project}}/{{job}}"), "job")
        .with_title("Job")
        .with_description("A job with its results, as from the tool get_job.")
        .with_mime_type("application/json")
}

/// A page of the jobs of the client's project, and the cursor of the next page.
pub(crate) async fn page(client: &Client, cursor: &str) -> Result<(Vec<Resource>, Option<String>), Failure> {
    let page = client.job_page("", PAGE_SIZE, cursor).await?;
    let resource = |job: &JobSummary| {
        Resource::new(format!("{PREFIX}{}/{}", client.project(), job.job), job.job.as_str())
            .with_title(format!("Job {}", job.job))
            .with_description(job.line())
            .with_mime_type("application/json")
    };
    let resources = page.jobs.iter().map(|job| resource(&JobSummary::from(&job.message))).collect();
    Ok((resources, Some(page.next_page_token).filter(|token| !token.is_empty())))
}

/// Project and ID of the job that `uri` names; `None` if it names none.
pub(crate) fn parsed(uri: &str) -> Option<(&str, &str)> {
    let (project, job) = uri.strip_prefix(PREFIX)?.split_once('/')?;
    (!project.is_empty() && !job.is_empty() && !job.contains('/')).then_some((project, job))
}

/// The job `id` of the client's project, under `uri`.
pub(crate) async fn read(client: &Client, id: &str, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let read = async {
        let job = client.job(id).await?.message;
        let details = details(client, job).await?;
        serde_json::to_string_pretty(&details).map_err(|error| Failure::new("INTERNAL", error.to_string()))
    };
    let text = read.await.map_err(Failure::into_error)?;
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type("application/json")]))
}

#[cfg(test)]
mod tests {
    use super::parsed;

    #[test]
    fn names_of_jobs_have_two_parts() {
        assert_eq!(parsed("tunesmith://jobs/p/census"), Some(("p", "census")));
        assert_eq!(parsed("tunesmith://jobs/example.com:p/census"), Some(("example.com:p", "census")));
        for uri in ["tunesmith://jobs/p", "tunesmith://jobs/p/", "tunesmith://jobs//census", "tunesmith://jobs/p/a/b"] {
            assert_eq!(parsed(uri), None, "{uri}");
        }
        assert_eq!(parsed("tunesmith://docs/filters"), None);
    }
}
