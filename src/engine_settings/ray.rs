//! Ray settings.

use std::path::PathBuf;

use anyhow::Context;

use super::server_url;
use crate::composition::this_program;
use tunesmith_config::RayConfig;
use tunesmith_ray::{AgentProgram, RaySettings, RayToken};

/// Variable with the token of a Ray cluster; not an argument, which other users of the machine would see.
const RAY_TOKEN: &str = "TUNESMITH_RAY_TOKEN";

/// Dashboard address of a cluster on this machine.
const RAY_ADDRESS: &str = "http://127.0.0.1:8265";

/// Ray settings in `config`, with records in `registry`.
///
/// # Errors
/// If the address is invalid, or the agent is not found.
pub(crate) fn settings(config: RayConfig, registry: PathBuf) -> anyhow::Result<RaySettings> {
    let address = config.address.as_deref().unwrap_or(RAY_ADDRESS);
    let variable = |name: &str| std::env::var_os(name);
    Ok(RaySettings {
        address: server_url(address)
            .with_context(|| format!("--ray-address {address:?}: expected http://HOST:PORT of the dashboard"))?,
        token: match &config.token_variable {
            Some(name) => RayToken::of_variable(name, variable),
            None => RayToken::of_environment(RAY_TOKEN, variable),
        },
        server: config.server,
        agent: match config.program {
            Some(path) => AgentProgram::Installed(path.into()),
            None => AgentProgram::Uploaded(agent_program()?),
        },
        registry,
    })
}

/// Agent program for other machines: `tunesmith-agent` beside this program, which needs no C library there, or else
/// this program.
fn agent_program() -> anyhow::Result<PathBuf> {
    let this = this_program()?;
    let agent = this.with_file_name("tunesmith-agent");
    Ok(if agent.is_file() { agent } else { this })
}
