#![doc = include_str!("../README.md")]

mod context;
mod failure;
mod http;
mod jobs_as_resources;
mod program_text;
mod prompts;
mod resources;
mod rows;
mod server;
mod subject;
mod tasks;
mod tool;
mod tools;

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio;
use tunesmith_admission::{AccessControl, CalledAs, Client as Caller};
use tunesmith_client::{Client, Transport};

pub use http::{PATH, router};
pub use prompts::PromptDescription;
use server::ToolServer;
pub use tool::ToolDescription;
pub use tools::packages::UploadError;

/// Connects to the API, on behalf of the caller of a message over HTTP. Requests of a tool have its name in audit records, others
/// those of their methods.
pub type Connect = Arc<dyn Fn(Option<CalledAs>, Option<&Caller>) -> Arc<dyn Transport> + Send + Sync>;

/// Uploads the package at a path with the rights of this process, and returns its URI.
pub type Upload = Arc<dyn Fn(Client, PathBuf) -> BoxFuture<'static, Result<String, UploadError>> + Send + Sync>;

/// Dependencies of the tools.
#[derive(Clone)]
pub struct Services {
    pub connect: Connect,
    /// Project of resources whose project is not given.
    pub project: String,
    /// For the user of this process; `None` for callers over HTTP, whose files are on other machines.
    pub upload: Option<Upload>,
    /// Whether tools that change something are absent.
    pub is_read_only: bool,
    /// Admits callers over HTTP; `None` if the process serves only its user.
    pub control: Option<Arc<AccessControl>>,
}

/// All tools, in order.
pub fn tools() -> Vec<ToolDescription> {
    tools::all().iter().map(tool::Tool::describe).collect()
}

/// All prompts, in order.
pub fn prompts() -> Vec<PromptDescription> {
    prompts::describe()
}

/// Serves the messages of standard input on standard output until the input ends.
///
/// # Errors
/// If the client sends no valid first message, or the streams fail.
pub async fn serve_stdio(services: Services) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    match ToolServer::new(services).serve(stdio()).await {
        Ok(running) => {
            running.waiting().await?;
            Ok(())
        }
        // The input has ended without a message.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
