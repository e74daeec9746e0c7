//! `tunesmith webhooks`: checks the webhooks of a server configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, ensure};
use clap::{Args, Subcommand};

use super::output::print;
use crate::webhooks::configured;
use tunesmith_config::KnownExecutor;
use tunesmith_webhooks::send_test;

#[derive(Debug, Subcommand)]
pub(super) enum WebhooksCommand {
    /// Send a test event to the webhooks of a server configuration, and print the responses.
    Test(TestArgs),
}

#[derive(Debug, Args)]
pub(super) struct TestArgs {
    /// Server configuration with the webhooks.
    #[arg(long, value_name = "FILE")]
    server_config: PathBuf,
    /// Name of the webhook; all by default.
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// Exits with 1 if a receiver does not accept the event.
pub(super) fn run(command: &WebhooksCommand) -> anyhow::Result<ExitCode> {
    let WebhooksCommand::Test(args) = command;
    let config = tunesmith_config::load_server(&args.server_config, KnownExecutor::default())?;
    let mut webhooks = configured(&config.webhooks)?;
    ensure!(!webhooks.is_empty(), "{}: has no webhooks", args.server_config.display());
    if let Some(name) = &args.name {
        let known: Vec<String> = webhooks.iter().map(|webhook| webhook.name().to_owned()).collect();
        webhooks.retain(|webhook| webhook.name() == name);
        if webhooks.is_empty() {
            bail!("no webhook has the name {name:?}; expected one of: {}", known.join(", "));
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut code = ExitCode::SUCCESS;
    for webhook in &webhooks {
        let (name, host) = (webhook.name(), webhook.host());
        match runtime.block_on(send_test(webhook)) {
            Ok(status) => print(&format!("{name}: {host} accepted the event ({status})\n"))?,
            Err(error) => {
                code = ExitCode::FAILURE;
                print(&format!("{name}: {host}: {error}\n"))?;
            }
        }
    }
    Ok(code)
}
