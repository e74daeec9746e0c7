#![doc = include_str!("../README.md")]

mod client;
mod entrypoint;
mod package;
mod status;

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use reqwest::Url;
use tokio::sync::OnceCell;

use self::client::{Client, ClientError};
use self::entrypoint::submission;
use tunesmith_domain::JobId;
use tunesmith_executor::remote::{AgentEngine, PlaceState, Submitted};
use tunesmith_executor::{Capabilities, ExecutorError, ExecutorJobId, ExecutorJobSpec, StopMode};

/// Settings of a [`RayEngine`].
#[derive(Debug, Clone)]
pub struct RaySettings {
    /// Address of the dashboard, such as `http://127.0.0.1:8265`.
    pub address: Url,
    /// Token for clusters with authentication; `None` without.
    pub token: Option<String>,
    /// Address of this server, as the nodes of the cluster reach it; `None` for that in the specification.
    pub server: Option<String>,
    /// The program of agents.
    pub agent: AgentProgram,
    /// Absolute path of the folder on this machine in which submissions are recorded. Created when needed.
    pub registry: PathBuf,
}

/// Where the nodes find the program of agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentProgram {
    /// This file is uploaded.
    Uploaded(PathBuf),
    /// It is installed on each node under this path.
    Installed(PathBuf),
}

/// Starts agents as jobs of a Ray cluster.
#[derive(Debug)]
pub struct RayEngine {
    settings: RaySettings,
    client: Client,
    submitted: Submitted,
    /// The address of the uploaded package.
    package: OnceCell<String>,
}

impl RayEngine {
    /// An engine that requests the cluster through `http`. Does no IO.
    pub fn new(settings: RaySettings, http: reqwest::Client) -> Self {
        let client = Client::new(http, settings.address.clone(), settings.token.clone());
        let submitted = Submitted::new(settings.registry.clone());
        Self { settings, client, submitted, package: OnceCell::new() }
    }

    /// Checks that the cluster answers.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub async fn check(&self) -> Result<(), String> {
        let answered = self.client.version().await;
        answered.map(drop).map_err(|error| {
            format!(
                "the Ray cluster at {} cannot be used: {error}; start it with `ray start --head`, and give the address of \
                 its dashboard",
                self.settings.address
            )
        })
    }

    /// The ID of the submission of `id`.
    fn name(&self, id: &ExecutorJobId) -> Result<String, ExecutorError> {
        let identity = self.submitted.identity();
        identity
            .map(|identity| entrypoint::name(&identity, id))
            .map_err(|source| ExecutorError::Unreachable { id: id.clone(), source })
    }

    /// Uploads the package with the agent, unless the cluster has it, and returns its address.
    async fn package(&self, file: &Path) -> Result<String, ClientError> {
        let file = file.to_owned();
        let packed = tokio::task::spawn_blocking(move || package::pack(&file)).await;
        let packed = packed.map_err(io::Error::other).flatten().map_err(ClientError::Package)?;
        if !self.client.has_package(&packed.name).await? {
            self.client.upload(&packed.name, packed.bytes).await?;
        }
        Ok(format!("gcs://{}", packed.name))
    }

    /// The address of the package with the agent; `None` if it is installed on the nodes.
    async fn working_folder(&self) -> Result<Option<String>, ClientError> {
        match &self.settings.agent {
            AgentProgram::Installed(_) => Ok(None),
            AgentProgram::Uploaded(file) => {
                let package = self.package.get_or_try_init(|| self.package(file)).await?;
                // A head that was restarted has lost it.
                if !self.client.has_package(package.trim_start_matches("gcs://")).await? {
                    self.package(file).await?;
                }
                Ok(Some(package.clone()))
            }
        }
    }
}

fn unreachable(id: &ExecutorJobId, error: ClientError) -> ExecutorError {
    ExecutorError::Unreachable { id: id.clone(), source: io::Error::other(error) }
}

#[async_trait]
impl AgentEngine for RayEngine {
    fn capabilities(&self) -> Capabilities {
        Capabilities { shares_files: false }
    }

    async fn start(&self, spec: &ExecutorJobSpec, file: &Path) -> Result<(), ExecutorError> {
        let id = &spec.id;
        let name = self.name(id)?;
        let failed = |error| unreachable(id, error);
        let io_failed = |source| ExecutorError::Unreachable { id: id.clone(), source };
        if self.submitted.note(&name).map_err(io_failed)?.is_some()
            || self.client.job(&name).await.map_err(failed)?.is_some()
        {
            return Ok(());
        }
        let text = tokio::fs::read(file).await.map_err(io_failed)?;
        let working_folder = self.working_folder().await.map_err(failed)?;
        let request = submission(&name, spec, &text, &self.settings, working_folder)
            .map_err(|reason| ExecutorError::Rejected { id: id.clone(), reason })?;
        match self.client.submit(&request).await {
            Ok(()) => {}
            Err(ClientError::Refused { status: 400, message }) => {
                return Err(ExecutorError::Rejected { id: id.clone(), reason: format!("Ray refuses it: {message}") });
            }
            // The answer to a second submission, or an answer that was lost.
            Err(error) => {
                if self.client.job(&name).await.map_err(failed)?.is_none() {
                    return Err(failed(error));
                }
            }
        }
        self.submitted.add(&name, "").map_err(io_failed)
    }

    async fn place(&self, id: &ExecutorJobId) -> Result<PlaceState, ExecutorError> {
        let name = self.name(id)?;
        let job = self.client.job(&name).await.map_err(|error| unreachable(id, error))?;
        let io_failed = |source| ExecutorError::Unreachable { id: id.clone(), source };
        let was_submitted = self.submitted.note(&name).map_err(io_failed)?.is_some();
        let was_stopped = self.submitted.was_stopped(&name).map_err(io_failed)?;
        Ok(status::place(job.as_ref(), was_submitted, was_stopped))
    }

    async fn stop(&self, id: &ExecutorJobId, _: StopMode) -> Result<(), ExecutorError> {
        let name = self.name(id)?;
        // A running agent gets the request in the answer to its next report, and reports the end of its program. A signal of
        // Ray would be the notice of a preemption.
        let job = self.client.job(&name).await.map_err(|error| unreachable(id, error))?;
        if job.is_some_and(|job| job.is_waiting()) {
            // Ray may start it later all the same.
            let marked = self.submitted.mark_stopped(&name);
            marked.map_err(|source| ExecutorError::Unreachable { id: id.clone(), source })?;
            self.client.stop(&name).await.map_err(|error| unreachable(id, error))?;
        }
        Ok(())
    }

    async fn forget(&self, job: &JobId) -> io::Result<()> {
        for name in self.submitted.starting_with(&entrypoint::prefix(&self.submitted.identity()?, job))? {
            // Ray keeps the jobs that run; those are of agents that end by themselves.
            if let Err(error) = self.client.delete(&name).await {
                tracing::warn!(
                    job.name = name,
                    error = &error as &dyn std::error::Error,
                    "Ray keeps the record of an ended job"
                );
            }
            self.submitted.remove(&name)?;
        }
        Ok(())
    }
}
