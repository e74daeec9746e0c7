//! Client for delivering reports to the server.

use std::io;
use std::sync::Arc;

use super::packages::error_text;
use super::{AgentFailure, AgentSettings};
use tunesmith_api::agent::{SyncRequest, SyncResponse, run_name};
use tunesmith_client::{Client as ApiClient, ClientError, ClientFailure, DownloadError, Refusal, Server};
use tunesmith_executor::ExecutorJobSpec;

#[derive(Clone)]
pub(super) struct Client {
    server: Server,
    api: ApiClient,
    job: String,
    run: String,
}

/// Result of sending a report.
#[derive(Debug)]
pub(super) enum Sent {
    /// Received by the server.
    Answered(SyncResponse),
    /// The server has superseded the attempt.
    Superseded(String),
    /// No response, or one that asks for a retry.
    Unreached(String),
}

/// Result of a package download.
#[derive(Debug)]
pub(super) enum Download {
    Complete,
    /// Refused by the server.
    Refused(String),
    /// The received bytes could not be stored.
    NotKept(io::Error),
    /// No complete response, or one that asks for a retry.
    Unreached(String),
}

impl Client {
    pub(super) fn new(address: &str, settings: &AgentSettings, spec: &ExecutorJobSpec) -> Result<Self, AgentFailure> {
        let token = settings.token.as_ref().unwrap_or(&spec.server.token);
        let server = Server::new(address, Some(token)).map_err(|failure| match failure {
            ClientFailure::Token => AgentFailure::Spec {
                path: settings.spec.clone(),
                reason: "has a token with characters that are not allowed in a header".to_owned(),
            },
            failure => AgentFailure::Server { address: address.to_owned(), reason: error_text(&failure) },
        })?;
        let (project, job) = spec.id.job.parts();
        let api = ApiClient::new(Arc::new(server.clone()), project.to_owned());
        Ok(Self { server, api, job: job.to_owned(), run: run_name(&spec.id) })
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Downloads a package, passing its bytes to `keep`.
    pub(super) async fn package(
        &self,
        sha256: &str,
        file_name: &str,
        keep: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Download {
        let path = self.api.run_package_path(&self.job, &self.run, sha256, file_name);
        match self.server.download(&path, keep).await {
            Ok(()) => Download::Complete,
            Err(DownloadError::Save(error)) => Download::NotKept(error),
            Err(DownloadError::Request(ClientError::Refused(Refusal { status: 400 | 401 | 404, message, .. }))) => {
                Download::Refused(message)
            }
            Err(DownloadError::Request(error)) => Download::Unreached(error.to_string()),
        }
    }

    pub(super) async fn send(&self, request: &SyncRequest) -> Sent {
        match self.api.sync_run(&self.job, &self.run, request).await {
            Ok(answer) => Sent::Answered(answer),
            Err(ClientError::Refused(refusal)) if refusal.status == 401 || refusal.code == "FAILED_PRECONDITION" => {
                Sent::Superseded(refusal.message)
            }
            Err(error) => Sent::Unreached(error.to_string()),
        }
    }
}
