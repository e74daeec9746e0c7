//! A data folder without a server: its service answers in this process, as a server's would.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::CONTENT_TYPE;
use tokio::net::TcpListener;
use tower::ServiceExt;

use super::error::ClientError;
use super::request::{Answer, Payload, Request};
use crate::cli::engine::{self, Settings};
use crate::cli::results::shell_word;
use crate::cli::run::ContainerArgs;
use crate::data_dir::{DataDir, DataDirError, StoreKind};
use tunesmith_http::server;
use tunesmith_service::TrialReports;
use tunesmith_service::jobs::Jobs;

/// Who has the folder, for those who try the same meanwhile.
const WHO: &str = "a tunesmith command";

/// How long a request may take; nobody else waits for this process.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// What a folder is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To read. Somebody else may have it, if its store allows that.
    Look,
    /// To change what is there.
    Change,
    /// To add something; the folder may be new.
    Add,
    /// To add a job and carry out no other.
    CarryOut,
}

/// The service of a folder.
pub(super) struct Folder {
    path: PathBuf,
    kind: StoreKind,
    router: Router,
    jobs: Arc<Jobs>,
}

impl Folder {
    /// Opens the folder `path`.
    pub(super) async fn open(path: &Path, purpose: Purpose) -> anyhow::Result<Self> {
        let data_dir = Arc::new(open(path, purpose).map_err(ClientError::folder)?);
        data_dir.store().await.map_err(ClientError::folder)?;
        let listener = match purpose {
            Purpose::CarryOut => Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?),
            Purpose::Look | Purpose::Change | Purpose::Add => None,
        };
        let endpoint = match &listener {
            Some(listener) => format!("http://{}", listener.local_addr()?),
            None => String::new(),
        };
        let container = ContainerArgs::of_environment();
        let settings = Settings {
            endpoint,
            job_slots: None,
            container: &container,
            access: None,
            request_timeout: REQUEST_TIMEOUT,
        };
        let service = engine::compose(&data_dir, settings).await?;
        let jobs = Arc::clone(&service.jobs);
        if purpose != Purpose::CarryOut {
            // So that waiting jobs have their places, and can be cancelled at once.
            jobs.take_up().await?;
        }
        if let Some(listener) = listener {
            serve_reports(listener, service.reports.clone());
        }
        Ok(Self { path: data_dir.path().to_owned(), kind: data_dir.kind(), router: server::router(service), jobs })
    }

    /// The folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What serves the folder.
    pub(super) fn serve_command(&self) -> String {
        let path = shell_word(&self.path.display().to_string());
        let store = if self.kind == StoreKind::default() { String::new() } else { format!(" --store {}", self.kind) };
        format!("tunesmith serve --data-dir {path}{store}")
    }

    /// Its jobs, to carry them out.
    pub(super) fn jobs(&self) -> &Arc<Jobs> {
        &self.jobs
    }

    /// Answers one request.
    pub(super) async fn send(&self, request: Request) -> Result<Answer, ClientError> {
        let foreign = |detail: String| ClientError::Foreign { server: self.path.display().to_string(), detail };
        let (content_type, body) = match request.payload {
            Payload::None => (None, Body::empty()),
            Payload::Json(value) => (Some("application/json"), Body::from(value.to_string())),
            Payload::Bytes(bytes) => (Some("application/octet-stream"), Body::from(bytes)),
        };
        let mut builder = axum::http::Request::builder().method(request.method).uri(request.target);
        if let Some(content_type) = content_type {
            builder = builder.header(CONTENT_TYPE, content_type);
        }
        let request = builder.body(body).map_err(|error| foreign(error.to_string()))?;
        let response = match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.map_err(|error| foreign(error.to_string()))?;
        Ok(Answer { status, request_id: None, body })
    }
}

fn open(path: &Path, purpose: Purpose) -> Result<DataDir, DataDirError> {
    if purpose == Purpose::Look {
        return DataDir::open_read_only(path, WHO);
    }
    // A folder stays with the kind of store it was made with.
    let kind = match DataDir::open_read_only(path, WHO) {
        Ok(folder) => folder.kind(),
        Err(DataDirError::NoStore { .. }) if purpose != Purpose::Change => StoreKind::default(),
        Err(error) => return Err(error),
    };
    DataDir::open(path, kind, WHO)
}

/// Takes reports of the trials that this process runs.
fn serve_reports(listener: TcpListener, reports: TrialReports) {
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, server::reports_router(reports)).await {
            tracing::error!(error = %error, "reports over HTTP are no longer taken");
        }
    });
}
