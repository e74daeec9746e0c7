//! Job requests: logs, trials, packages, and run reports of agents.

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tunesmith_api::agent::{SyncRequest, SyncResponse};
use tunesmith_api::ai_platform::job::{JobRequest, JobResource};
use tunesmith_api::ai_platform::logs::{JobLogList, JobLogPart};
use tunesmith_api::ai_platform::optimizer::{TrialMessage, TrialRequest};
use tunesmith_api::ai_platform::packages::UploadedPackage;

use super::client::json as payload;
use super::transport::{Payload, Request, UploadProgress};
use super::{Client, ClientError, Resource};

/// Page of jobs.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobPage {
    pub jobs: Vec<Resource<JobResource>>,
    /// Empty on the last page.
    pub next_page_token: String,
}

/// Filter for the logs of a job.
#[derive(Debug, Clone, Default)]
pub struct LogSelection {
    pub trial: Option<u64>,
    pub task: Option<String>,
    /// Only logs written since this time: the `readTime` of a previous response.
    pub modified_since: Option<String>,
}

/// # Errors
/// [`ClientError`] for every request.
impl Client {
    pub fn job_path(&self, id: &str) -> String {
        self.path(&["jobs", id])
    }

    pub async fn create_job(&self, job: &JobRequest) -> Result<Resource<JobResource>, ClientError> {
        self.post(&self.path(&["jobs"]), &[], job).await
    }

    /// Creates the job `message` of Vertex AI in `collection` at `location`.
    pub async fn create_vertex_job(
        &self,
        location: &str,
        collection: &str,
        message: &Value,
    ) -> Result<Value, ClientError> {
        self.post(&self.path_below("/vertex/v1", &["locations", location, collection]), &[], message).await
    }

    pub async fn job(&self, id: &str) -> Result<Resource<JobResource>, ClientError> {
        self.get(&self.job_path(id), &[]).await
    }

    /// Reads all jobs matching `filter`, ordered by ID, in pages of `page_size`.
    pub async fn jobs(&self, filter: &str, page_size: u8) -> Result<Vec<Resource<JobResource>>, ClientError> {
        let (mut jobs, mut page_token) = (Vec::new(), String::new());
        loop {
            let page = self.job_page(filter, page_size, &page_token).await?;
            jobs.extend(page.jobs);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(jobs);
            }
        }
    }

    /// Reads one page of the jobs matching `filter`; the first one for an empty token.
    pub async fn job_page(&self, filter: &str, page_size: u8, page_token: &str) -> Result<JobPage, ClientError> {
        let page_size = page_size.to_string();
        let query = [("filter", filter), ("pageSize", &page_size), ("pageToken", page_token)];
        self.get(&self.path(&["jobs"]), &query).await
    }

    /// Updates the fields `mask` of job `id` from `change`.
    pub async fn update_job(
        &self,
        id: &str,
        mask: &str,
        change: &JobRequest,
    ) -> Result<Resource<JobResource>, ClientError> {
        self.patch(&self.job_path(id), mask, change).await
    }

    pub async fn cancel_job(&self, id: &str) -> Result<Value, ClientError> {
        self.post(&format!("{}:cancel", self.job_path(id)), &[], &json!({})).await
    }

    /// Retries the failed and lost trials of job `id`.
    pub async fn retry_job(&self, id: &str) -> Result<Resource<JobResource>, ClientError> {
        self.post(&format!("{}:retry", self.job_path(id)), &[], &json!({})).await
    }

    /// Deletes job `id`, which must have ended.
    pub async fn delete_job(&self, id: &str) -> Result<Value, ClientError> {
        self.delete(&self.job_path(id)).await
    }

    /// Lists the logs of job `id`, with its state from before they were read.
    pub async fn job_logs(&self, id: &str, selection: &LogSelection) -> Result<JobLogList, ClientError> {
        let LogSelection { trial, task, modified_since } = selection;
        let trial = trial.map(|trial| trial.to_string());
        let given = [("trial", &trial), ("task", task), ("modifiedSince", modified_since)];
        let query: Vec<(&str, &str)> =
            given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
        let path = self.path(&["jobs", id, "logs"]);
        let mut list: JobLogList = self.get(&path, &query).await?;
        while !list.next_page_token.is_empty() {
            let token = [("pageToken", list.next_page_token.as_str())];
            let page: JobLogList = self.get(&path, &[&query[..], &token].concat()).await?;
            list.logs.extend(page.logs);
            list.next_page_token = page.next_page_token;
        }
        Ok(list)
    }

    /// Reads a chunk of the log `log` of job `id`, starting at `offset`.
    pub async fn read_job_log(&self, id: &str, log: &str, offset: u64) -> Result<JobLogPart, ClientError> {
        self.get(&self.path(&["jobs", id, "logs", log]), &[("offset", &offset.to_string())]).await
    }

    pub async fn create_job_trial(
        &self,
        id: &str,
        trial: &TrialRequest,
    ) -> Result<Resource<TrialMessage>, ClientError> {
        self.post(&self.path(&["jobs", id, "trials"]), &[], trial).await
    }

    pub async fn stop_job_trial(&self, id: &str, trial: &str) -> Result<Resource<TrialMessage>, ClientError> {
        self.post(&format!("{}:stop", self.path(&["jobs", id, "trials", trial])), &[], &json!({})).await
    }

    pub async fn package(&self, sha256: &str, file_name: &str) -> Result<UploadedPackage, ClientError> {
        self.get(&self.path(&["packages", sha256, file_name]), &[]).await
    }

    /// Uploads a package; `taken` receives the progress.
    pub async fn upload_package(
        &self,
        sha256: &str,
        file_name: &str,
        bytes: Bytes,
        taken: UploadProgress,
    ) -> Result<UploadedPackage, ClientError> {
        let path = self.path(&["packages", sha256, file_name]);
        self.send(Method::PUT, &path, &[], Payload::File(bytes, taken)).await
    }

    /// Path of a package of run `run` of job `id`, for [`Server::download`](super::Server::download).
    pub fn run_package_path(&self, id: &str, run: &str, sha256: &str, file_name: &str) -> String {
        self.path(&["jobs", id, "runs", run, "packages", sha256, file_name])
    }

    /// Sends an agent's report about run `run` of job `id`, without retries: the next report repeats lost parts.
    pub async fn sync_run(&self, id: &str, run: &str, report: &SyncRequest) -> Result<SyncResponse, ClientError> {
        let target = format!("{}:sync", self.path(&["jobs", id, "runs", run]));
        self.exchange(Request { method: Method::POST, target, payload: payload(report), is_repeated: false }).await
    }
}
