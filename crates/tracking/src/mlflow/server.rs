//! Requests to an MLflow server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tunesmith_client::http_client_builder;
use tunesmith_client::public_address::{self, NotPublic, PublicResolver};

use super::address::{CERTIFICATE_VARIABLE, Credentials, Operator, TrackingUri};
use super::messages::{
    Batch, Entry, ErrorBody, ExperimentCreated, ExperimentFound, HistoryPage, Point, Run, RunCreated, RunPage,
    RunStatus, RunUpdated,
};
use crate::TrackingError;

/// Time limit of a request. A guess: a busy server with a small database takes seconds for a full batch.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a response in bytes: a page of runs with all their tags.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// Maximum length of a server's message in errors, in characters.
const SHOWN_MESSAGE: usize = 300;
/// Runs and points read with one request.
const RUNS_PER_PAGE: usize = 500;
const POINTS_PER_PAGE: usize = 10_000;
/// Maximum number of pages, so that a server cannot make this process read without end.
const MAX_PAGES: usize = 1_000;

/// An MLflow server.
#[derive(Debug, Clone)]
pub struct TrackingServer {
    client: reqwest::Client,
    uri: TrackingUri,
    credentials: Option<Credentials>,
}

impl TrackingServer {
    /// Prepares requests to `uri`, under the rules of `operator`. Sends nothing.
    ///
    /// # Errors
    /// [`TrackingError::NotPublic`] for an address that only the operator may choose, [`TrackingError::Client`].
    pub fn new(uri: TrackingUri, operator: &Operator) -> Result<Self, TrackingError> {
        let client = http_client_builder(uri.url(), &[CERTIFICATE_VARIABLE])?;
        let mut client = client.connect_timeout(CONNECT_TIMEOUT).timeout(REQUEST_TIMEOUT);
        if !operator.may_reach_private(&uri) {
            if public_address::check(uri.url()).is_err() {
                return Err(TrackingError::NotPublic { server: uri.to_string() });
            }
            let variables: BTreeMap<_, _> = std::env::vars_os().collect();
            client = client.dns_resolver(Arc::new(PublicResolver::new(&variables)));
        }
        let client = client.build().map_err(tunesmith_client::ClientFailure::from)?;
        Ok(Self { client, credentials: operator.credentials_for(&uri), uri })
    }

    pub fn uri(&self) -> &TrackingUri {
        &self.uri
    }

    /// ID of the experiment `name`, which is created if it does not exist.
    pub(super) async fn experiment(&self, name: &str) -> Result<String, TrackingError> {
        let query = [("experiment_name", name)];
        let find = || self.get::<ExperimentFound>("experiments/get-by-name", &query);
        let found = match find().await {
            Err(TrackingError::Refused { code, .. }) if code == "RESOURCE_DOES_NOT_EXIST" => {
                match self.post::<ExperimentCreated>("experiments/create", &json!({ "name": name })).await {
                    Ok(created) => return Ok(created.experiment_id),
                    // Another client has created it meanwhile.
                    Err(TrackingError::Refused { code, .. }) if code == "RESOURCE_ALREADY_EXISTS" => find().await?,
                    Err(error) => return Err(error),
                }
            }
            found => found?,
        };
        if found.experiment.lifecycle_stage == "deleted" {
            let detail = format!("the experiment {name:?} is deleted: restore it, or choose another one");
            return Err(self.unexpected("experiments/get-by-name", detail));
        }
        Ok(found.experiment.experiment_id)
    }

    pub(super) async fn create_run(
        &self,
        experiment: &str,
        name: &str,
        start_ms: i64,
        tags: &[Entry],
    ) -> Result<String, TrackingError> {
        let body = json!({ "experiment_id": experiment, "run_name": name, "start_time": start_ms, "tags": tags });
        let created: RunCreated = self.post("runs/create", &body).await?;
        let run = created.run;
        let is_missing = |tag: &&Entry| run.data.tag(&tag.key) != Some(tag.value.as_str());
        if let Some(tag) = tags.iter().find(is_missing) {
            return Err(self.unexpected("runs/create", format!("the tag {} was not stored", tag.key)));
        }
        if run.info.experiment_id != experiment {
            let detail = format!("the run is in experiment {}, not {experiment}", run.info.experiment_id);
            return Err(self.unexpected("runs/create", detail));
        }
        Ok(run.info.run_id)
    }

    /// Runs of `experiment` that match `filter`, by ID. Deleted ones are left out.
    pub(super) async fn runs(&self, experiment: &str, filter: &str) -> Result<Vec<Run>, TrackingError> {
        let mut runs = Vec::new();
        let mut token = String::new();
        for _ in 0..MAX_PAGES {
            let body = json!({
                "experiment_ids": [experiment], "filter": filter, "max_results": RUNS_PER_PAGE, "page_token": token,
            });
            let page: RunPage = self.post("runs/search", &body).await?;
            runs.extend(page.runs);
            token = page.next_page_token;
            if token.is_empty() {
                runs.sort_by(|a, b| a.info.run_id.cmp(&b.info.run_id));
                return Ok(runs);
            }
        }
        Err(self.unexpected("runs/search", format!("there are more than {MAX_PAGES} pages")))
    }

    /// All points of a metric.
    pub(super) async fn history(&self, run: &str, metric: &str) -> Result<Vec<Point>, TrackingError> {
        let mut points = Vec::new();
        let mut token = String::new();
        let limit = POINTS_PER_PAGE.to_string();
        for _ in 0..MAX_PAGES {
            let query =
                [("run_id", run), ("metric_key", metric), ("max_results", &limit), ("page_token", token.as_str())];
            let query = if token.is_empty() { &query[..3] } else { &query[..] };
            let page: HistoryPage = self.get("metrics/get-history", query).await?;
            points.extend(page.metrics);
            token = page.next_page_token;
            if token.is_empty() {
                return Ok(points);
            }
        }
        Err(self.unexpected("metrics/get-history", format!("there are more than {MAX_PAGES} pages")))
    }

    pub(super) async fn log(&self, batch: &Batch) -> Result<(), TrackingError> {
        if batch.metrics.is_empty() && batch.params.is_empty() && batch.tags.is_empty() {
            return Ok(());
        }
        self.post::<Value>("runs/log-batch", batch).await.map(drop)
    }

    /// Sets the state of a run, and the time of its end.
    pub(super) async fn update(&self, run: &str, status: RunStatus, end_ms: Option<i64>) -> Result<(), TrackingError> {
        let mut body = json!({ "run_id": run, "status": status });
        if let Some(end) = end_ms {
            body["end_time"] = end.into();
        }
        let updated: RunUpdated = self.post("runs/update", &body).await?;
        // Unknown values are ignored by the server.
        if updated.run_info.status() != Some(status) {
            let detail = format!("the run has the state {}, not {status:?}", updated.run_info.status);
            return Err(self.unexpected("runs/update", detail));
        }
        Ok(())
    }

    pub(super) async fn delete_run(&self, run: &str) -> Result<(), TrackingError> {
        self.post::<Value>("runs/delete", &json!({ "run_id": run })).await.map(drop)
    }

    /// Removes a tag; no effect if the run has none.
    pub(super) async fn delete_tag(&self, run: &str, key: &str) -> Result<(), TrackingError> {
        match self.post::<Value>("runs/delete-tag", &json!({ "run_id": run, "key": key })).await {
            Err(TrackingError::Refused { code, .. }) if code == "RESOURCE_DOES_NOT_EXIST" => Ok(()),
            removed => removed.map(drop),
        }
    }

    fn unexpected(&self, request: &'static str, detail: String) -> TrackingError {
        TrackingError::Unexpected { server: self.uri.to_string(), request, detail }
    }

    async fn get<T: DeserializeOwned>(
        &self,
        request: &'static str,
        query: &[(&str, &str)],
    ) -> Result<T, TrackingError> {
        let mut url = self.address(request);
        url.query_pairs_mut().extend_pairs(query);
        self.send(request, self.client.request(Method::GET, url)).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        request: &'static str,
        body: &impl Serialize,
    ) -> Result<T, TrackingError> {
        self.send(request, self.client.request(Method::POST, self.address(request)).json(body)).await
    }

    fn address(&self, request: &str) -> reqwest::Url {
        let mut url = self.uri.url().clone();
        url.set_path(&format!("{}/api/2.0/mlflow/{request}", url.path().trim_end_matches('/')));
        url
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: &'static str,
        mut builder: reqwest::RequestBuilder,
    ) -> Result<T, TrackingError> {
        builder = match &self.credentials {
            Some(Credentials::Basic { username, password }) => builder.basic_auth(username, Some(password)),
            Some(Credentials::Token(token)) => builder.bearer_auth(token),
            None => builder,
        };
        let mut response = builder.send().await.map_err(|error| self.failure(error))?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failure(error))? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_RESPONSE_BYTES {
                let detail = format!("the response has more than {MAX_RESPONSE_BYTES} bytes");
                return Err(self.unexpected(request, detail));
            }
        }
        if status != StatusCode::OK {
            let empty = ErrorBody { error_code: String::new(), message: String::new() };
            let ErrorBody { error_code, message } = serde_json::from_slice(&body).unwrap_or(empty);
            return Err(TrackingError::Refused {
                server: self.uri.to_string(),
                request,
                status: status.as_u16(),
                code: shown(&error_code),
                message: shown(&message),
            });
        }
        serde_json::from_slice(&body).map_err(|error| self.unexpected(request, error.to_string()))
    }

    fn failure(&self, error: reqwest::Error) -> TrackingError {
        let mut causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        let server = self.uri.to_string();
        if causes.any(|cause| cause.is::<NotPublic>()) {
            return TrackingError::NotPublic { server };
        }
        TrackingError::Unreachable { server, source: error.without_url() }
    }
}

/// Text of a server for errors: shortened, without control characters.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN_MESSAGE).collect()
}
