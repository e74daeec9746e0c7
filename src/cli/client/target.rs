//! Target of a client command: a server, or an in-process service on a data folder.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::folder::{Folder, Purpose};
use crate::cli::folder_args::DEFAULT_DATA_DIR;
use tunesmith_client::{Client, Server, TOKEN_VARIABLE};
use tunesmith_domain::JobId;

/// Environment variable with the default server.
const SERVER_VARIABLE: &str = "TUNESMITH_SERVER";

#[derive(Debug, Args)]
pub(in crate::cli) struct TargetArgs {
    /// Address of a server, such as http://127.0.0.1:8080. By default TUNESMITH_SERVER, unless --data-dir is given. The
    /// access token is read from TUNESMITH_ACCESS_TOKEN.
    #[arg(long, value_name = "URL", conflicts_with = "data_dir")]
    server: Option<String>,
    /// Data folder with jobs, studies and logs, instead of a server. By default, .tunesmith.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
    /// Project of the jobs and studies.
    #[arg(long, value_name = "PROJECT", env = "TUNESMITH_PROJECT", default_value = JobId::LOCAL_PROJECT)]
    project: String,
    #[command(flatten)]
    general: GeneralArgs,
}

/// Flags common to all gcloud commands. They concern a Google Cloud account, or gcloud's own output.
#[derive(Debug, Args)]
struct GeneralArgs {
    /// Accepted without effect: no command asks for confirmation.
    #[arg(long, short, hide = true)]
    quiet: bool,
    /// Accepted without effect: the access token is read from TUNESMITH_ACCESS_TOKEN.
    #[arg(long, value_name = "ACCOUNT", hide = true)]
    account: Option<String>,
    /// Accepted without effect.
    #[arg(long, value_name = "NAME", hide = true)]
    configuration: Option<String>,
    /// Accepted without effect: see TUNESMITH_LOG.
    #[arg(long, value_name = "LEVEL", hide = true)]
    verbosity: Option<String>,
}

/// Location of studies.
#[derive(Debug, Args)]
pub(in crate::cli) struct LocationArgs {
    /// Location in the names of studies. It does not select a machine.
    #[arg(long, alias = "location", value_name = "REGION", default_value = "local")]
    pub(super) region: String,
}

/// Job or study that a command is about.
#[derive(Debug, Args)]
pub(in crate::cli) struct SubjectArgs {
    /// Name of the job, or a unique prefix.
    #[arg(required_unless_present = "study", conflicts_with = "study")]
    pub(in crate::cli) job: Option<JobId>,
    /// Name of a study, instead of a job.
    #[arg(long, value_name = "STUDY")]
    pub(in crate::cli) study: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) target: TargetArgs,
    #[command(flatten)]
    pub(in crate::cli) location: LocationArgs,
}

impl TargetArgs {
    /// The data folder, unless a server is selected.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        match (&self.server, &self.data_dir, server_of_environment()) {
            (None, Some(folder), _) => Some(folder.clone()),
            (None, None, None) => Some(PathBuf::from(DEFAULT_DATA_DIR)),
            (Some(_), ..) | (None, None, Some(_)) => None,
        }
    }

    /// Whether a server is given as an argument.
    pub(super) fn names_server(&self) -> bool {
        self.server.is_some()
    }

    /// Project in the name of `job`, or else the argument's.
    pub(super) fn project_of(&self, job: &JobId) -> String {
        match job.as_str().split_once('/') {
            Some((project, _)) => project.to_owned(),
            None => self.project.clone(),
        }
    }

    /// Connects to the service for the argument's project. A data folder is opened for `purpose`.
    pub(super) async fn service(&self, purpose: Purpose) -> anyhow::Result<Service> {
        self.service_in(self.project.clone(), purpose).await
    }

    /// Like [`TargetArgs::service`], for the project of `job`.
    pub(super) async fn service_of(&self, job: &JobId, purpose: Purpose) -> anyhow::Result<Service> {
        self.service_in(self.project_of(job), purpose).await
    }

    /// The selected server, with the token of the environment.
    pub(super) fn server(&self) -> anyhow::Result<Server> {
        let address = self.server.clone().or_else(server_of_environment).unwrap_or_default();
        let token = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
        Ok(Server::new(&address, token.as_deref())?)
    }

    /// Default project.
    #[cfg(feature = "mcp")]
    pub(super) fn project(&self) -> &str {
        &self.project
    }

    async fn service_in(&self, project: String, purpose: Purpose) -> anyhow::Result<Service> {
        if let Some(path) = self.folder() {
            let folder = Arc::new(Folder::open(&path, purpose).await?);
            let client = Client::new(Arc::new(folder.transport()), project);
            return Ok(Service { client, folder: Some(folder), uses_current_folder: true });
        }
        let server = self.server()?;
        let uses_current_folder = server.is_local() && !server.has_token();
        Ok(Service { client: Client::new(Arc::new(server), project), folder: None, uses_current_folder })
    }
}

pub(super) struct Service {
    client: Client,
    folder: Option<Arc<Folder>>,
    /// Whether relative job folders are relative to the current folder: on this machine, without a token that selects
    /// a project area.
    pub(super) uses_current_folder: bool,
}

impl Service {
    pub(super) fn folder(&self) -> Option<&Folder> {
        self.folder.as_deref()
    }
}

impl Deref for Service {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

fn server_of_environment() -> Option<String> {
    std::env::var(SERVER_VARIABLE).ok().filter(|server| !server.is_empty())
}
