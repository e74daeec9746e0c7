//! Selects the service that a command addresses.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::folder::{Folder, Purpose};
use super::http::Server;
use super::service::{Client, Transport};
use crate::cli::folder_args::DEFAULT_DATA_DIR;
use tunesmith_domain::JobId;

/// Environment variable with the default server.
const SERVER_VARIABLE: &str = "TUNESMITH_SERVER";

#[derive(Debug, Args)]
pub(in crate::cli) struct TargetArgs {
    /// Address of a server, such as http://127.0.0.1:8080. TUNESMITH_SERVER by default, unless --data-dir is given. The
    /// access token is read from TUNESMITH_ACCESS_TOKEN.
    #[arg(long, value_name = "URL", conflicts_with = "data_dir")]
    server: Option<String>,
    /// Data folder with jobs, studies and logs, in place of a server. .tunesmith if neither is given.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
    /// Project of the jobs and studies.
    #[arg(long, value_name = "PROJECT", env = "TUNESMITH_PROJECT", default_value = JobId::LOCAL_PROJECT)]
    project: String,
    #[command(flatten)]
    general: GeneralArgs,
}

/// The flags that every command of gcloud has. They concern an account of Google Cloud, or gcloud's own output.
#[derive(Debug, Args)]
struct GeneralArgs {
    /// Accepted without effect: no command asks before it acts.
    #[arg(long, short, hide = true)]
    quiet: bool,
    /// Accepted without effect: the access token is that of TUNESMITH_ACCESS_TOKEN.
    #[arg(long, value_name = "ACCOUNT", hide = true)]
    account: Option<String>,
    /// Accepted without effect.
    #[arg(long, value_name = "NAME", hide = true)]
    configuration: Option<String>,
    /// Accepted without effect: see TUNESMITH_LOG.
    #[arg(long, value_name = "LEVEL", hide = true)]
    verbosity: Option<String>,
}

/// The location of studies.
#[derive(Debug, Args)]
pub(in crate::cli) struct LocationArgs {
    /// Location in the names of the studies. It does not select a machine.
    #[arg(long, alias = "location", value_name = "REGION", default_value = "local")]
    pub(super) region: String,
}

impl TargetArgs {
    /// Returns the data folder, unless a server is selected.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        match (&self.server, &self.data_dir, server_of_environment()) {
            (None, Some(folder), _) => Some(folder.clone()),
            (None, None, None) => Some(PathBuf::from(DEFAULT_DATA_DIR)),
            (Some(_), ..) | (None, None, Some(_)) => None,
        }
    }

    /// Whether the server is given as an argument.
    pub(super) fn names_server(&self) -> bool {
        self.server.is_some()
    }

    /// Returns the project in the name of `job`, or else that of the arguments.
    pub(super) fn project_of(&self, job: &JobId) -> String {
        match job.as_str().split_once('/') {
            Some((project, _)) => project.to_owned(),
            None => self.project.clone(),
        }
    }

    /// Creates a client. A data folder is opened for `purpose`.
    pub(super) async fn client(&self, purpose: Purpose) -> anyhow::Result<Client> {
        self.client_in(self.project.clone(), purpose).await
    }

    /// As [`TargetArgs::client`], for the resources of `project`.
    pub(super) async fn client_in(&self, project: String, purpose: Purpose) -> anyhow::Result<Client> {
        let transport = match (self.folder(), self.server.clone().or_else(server_of_environment)) {
            (Some(folder), _) => Transport::Folder(Box::new(Folder::open(&folder, purpose).await?)),
            (None, server) => Transport::Server(Server::new(&server.unwrap_or_default())?),
        };
        Ok(Client { transport: Arc::new(transport), project })
    }
}

fn server_of_environment() -> Option<String> {
    std::env::var(SERVER_VARIABLE).ok().filter(|server| !server.is_empty())
}
