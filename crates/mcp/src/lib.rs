#![doc = include_str!("../README.md")]

mod context;
mod failure;
mod http;
mod program_text;
mod resources;
mod rows;
mod server;
mod subject;
mod tasks;
mod tool;
mod tools;

use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio;
use tunesmith_admission::{AccessControl, CalledAs, Client as Caller};
use tunesmith_client::Transport;

pub use http::{PATH, router};
use server::ToolServer;
pub use tool::ToolDescription;

/// Connects to the API for a tool, on behalf of the caller of a message over HTTP.
pub type Connect = Arc<dyn Fn(CalledAs, Option<&Caller>) -> Arc<dyn Transport> + Send + Sync>;

/// Dependencies of the tools.
#[derive(Clone)]
pub struct Services {
    pub connect: Connect,
    /// Project of resources whose project is not given.
    pub project: String,
    /// Whether tools that change something are absent.
    pub is_read_only: bool,
    /// Admits callers over HTTP; `None` if the process serves only its user.
    pub control: Option<Arc<AccessControl>>,
}

/// All tools, in order.
pub fn tools() -> Vec<ToolDescription> {
    tools::all().iter().map(tool::Tool::describe).collect()
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
