#![doc = include_str!("../README.md")]

mod client;
mod entrypoint;
mod package;
mod status;
mod submissions;
mod token;

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use reqwest::Url;
use tokio::sync::OnceCell;

use self::client::{Client, ClientError, RayJob};
use self::submissions::{Submission, Submissions};
pub use self::token::RayToken;
use tunesmith_domain::JobId;
use tunesmith_executor::remote::{AgentEngine, AgentId, AgentState};
use tunesmith_executor::{Capabilities, ExecutorError, ExecutorJobId, ExecutorJobSpec, StopMode};

/// Settings of a [`RayEngine`].
#[derive(Debug, Clone)]
pub struct RaySettings {
    /// Address of the dashboard, such as `http://127.0.0.1:8265`.
    pub address: Url,
    /// Token for clusters with authentication.
    pub token: RayToken,
    /// Address under which nodes reach this server; `None` for the one in the specification.
    pub server: Option<String>,
    pub agent: AgentProgram,
    /// Absolute path of the local folder that records submissions. Created when needed.
    pub registry: PathBuf,
}

/// Source of the agent program on nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentProgram {
    /// Uploads this file.
    Uploaded(PathBuf),
    /// Installed on each node under this path.
    Installed(PathBuf),
}

/// Engine that runs agents as Ray jobs.
#[derive(Debug)]
pub struct RayEngine {
    settings: RaySettings,
    client: Client,
    submissions: Submissions,
    /// Address of the uploaded package.
    package: OnceCell<String>,
}

impl RayEngine {
    /// Creates an engine that sends requests through `http`, without doing IO.
    pub fn new(settings: RaySettings, http: reqwest::Client) -> Self {
        let client = Client::new(http, settings.address.clone(), settings.token.clone());
        let submissions = Submissions::new(settings.registry.clone());
        Self { settings, client, submissions, package: OnceCell::new() }
    }

    /// Checks that the cluster responds.
    ///
    /// # Errors
    /// The fault and its remedy.
    pub async fn check(&self) -> Result<(), String> {
        let answered = self.client.version().await;
        answered.map(drop).map_err(|error| {
            if matches!(error, ClientError::Unauthorized { .. }) {
                return format!("the Ray cluster at {} cannot be used: {error}", self.settings.address);
            }
            format!(
                "the Ray cluster at {} cannot be used: {error}; start it with `ray start --head`, and give the address of \
                 its dashboard",
                self.settings.address
            )
        })
    }

    /// Submission of `id`, with its job on the cluster.
    async fn find(&self, id: &AgentId) -> Result<Option<(Submission, Option<RayJob>)>, ExecutorError> {
        let Some(submission) = self.submissions.of(id).map_err(io_failed(&id.run))? else { return Ok(None) };
        let job = self.client.job(&submission.name).await.map_err(|error| unreachable(&id.run, error))?;
        Ok(Some((submission, job)))
    }

    /// Uploads the agent package unless the cluster has it, and returns its address.
    async fn package(&self, file: &Path) -> Result<String, ClientError> {
        let file = file.to_owned();
        let packed = tokio::task::spawn_blocking(move || package::pack(&file)).await;
        let packed = packed.map_err(io::Error::other).flatten().map_err(ClientError::Package)?;
        if !self.client.has_package(&packed.name).await? {
            self.client.upload(&packed.name, packed.bytes).await?;
        }
        Ok(format!("gcs://{}", packed.name))
    }

    /// Address of the agent package; `None` if the agent is installed on the nodes.
    async fn working_folder(&self) -> Result<Option<String>, ClientError> {
        match &self.settings.agent {
            AgentProgram::Installed(_) => Ok(None),
            AgentProgram::Uploaded(file) => {
                let package = self.package.get_or_try_init(|| self.package(file)).await?;
                // A restarted head node has lost it.
                if !self.client.has_package(package.trim_start_matches("gcs://")).await? {
                    self.package(file).await?;
                }
                Ok(Some(package.clone()))
            }
        }
    }
}

fn io_failed(id: &ExecutorJobId) -> impl Fn(io::Error) -> ExecutorError {
    |source| ExecutorError::Unreachable { id: id.clone(), source }
}

fn unreachable(id: &ExecutorJobId, error: ClientError) -> ExecutorError {
    io_failed(id)(io::Error::other(error))
}

#[async_trait]
impl AgentEngine for RayEngine {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ELSEWHERE
    }

    fn runs_containers(&self) -> bool {
        false
    }

    fn server(&self) -> Option<&str> {
        self.settings.server.as_deref()
    }

    async fn start(&self, spec: &ExecutorJobSpec, file: &Path) -> Result<(), ExecutorError> {
        let id = &spec.id;
        let failed = |error| unreachable(id, error);
        let submission = self.submissions.start(&AgentId::of(spec)).map_err(io_failed(id))?;
        let name = &submission.name;
        if submission.is_acknowledged {
            return Ok(());
        }
        if self.client.job(name).await.map_err(failed)?.is_none() {
            let text = tokio::fs::read(file).await.map_err(io_failed(id))?;
            let working_folder = self.working_folder().await.map_err(failed)?;
            let request = entrypoint::submission(name, spec, &text, &self.settings, working_folder)
                .map_err(|reason| ExecutorError::Rejected { id: id.clone(), reason })?;
            match self.client.submit(&request).await {
                Ok(()) => {}
                Err(ClientError::Refused { status: 400, message }) => {
                    return Err(ExecutorError::Rejected {
                        id: id.clone(),
                        reason: format!("Ray refuses it: {message}"),
                    });
                }
                // Response to a duplicate submission, or a lost response.
                Err(error) => {
                    if self.client.job(name).await.map_err(failed)?.is_none() {
                        return Err(failed(error));
                    }
                }
            }
        }
        self.submissions.acknowledge(&submission).map_err(io_failed(id))
    }

    async fn place(&self, id: &AgentId) -> Result<AgentState, ExecutorError> {
        let Some((submission, job)) = self.find(id).await? else { return Ok(AgentState::Unknown) };
        let was_stopped = self.submissions.was_stopped(&submission).map_err(io_failed(&id.run))?;
        Ok(status::place(job.as_ref(), submission.is_acknowledged, was_stopped))
    }

    async fn stop(&self, id: &AgentId, _: StopMode) -> Result<(), ExecutorError> {
        // A running agent receives the request in the response to its next report, and reports the end of its
        // program. A signal from Ray would look like a preemption.
        if let Some((submission, Some(job))) = self.find(id).await?
            && job.is_waiting()
        {
            // Ray may still start it later.
            self.submissions.mark_stopped(&submission).map_err(io_failed(&id.run))?;
            self.client.stop(&submission.name).await.map_err(|error| unreachable(&id.run, error))?;
        }
        Ok(())
    }

    async fn node(&self, id: &AgentId) -> Result<Option<String>, ExecutorError> {
        Ok(self.find(id).await?.and_then(|(_, job)| job?.node()))
    }

    async fn forget(&self, job: &JobId) -> io::Result<()> {
        for submission in self.submissions.of_job(job)? {
            // Ray keeps running jobs; their agents end by themselves.
            if let Err(error) = self.client.delete(&submission.name).await {
                tracing::warn!(
                    job.name = submission.name,
                    error = &error as &dyn std::error::Error,
                    "Ray keeps the record of an ended job"
                );
            }
            self.submissions.remove(&submission)?;
        }
        Ok(())
    }
}
