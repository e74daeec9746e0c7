//! `tunesmith-agent`: the agent as a separate program, for images and nodes without `tunesmith`.
//!
//! It takes the same arguments as `tunesmith`, so that engines can start either. Statically linked, it runs in any
//! Linux image (docs/experiments/090).

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use tunesmith_agent::AgentArgs;
use tunesmith_client::install_standalone;
use tunesmith_executor::local::supervise_if_asked;
use tunesmith_files::use_private_umask;

/// Exit code for invalid input.
const BAD_INPUT: u8 = 2;

/// Run trials for a server. See docs/reference/agent.md.
#[derive(Debug, Parser)]
#[command(name = "tunesmith-agent", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one attempt of a trial for a server; started by engines.
    Agent(AgentArgs),
}

fn main() -> ExitCode {
    if let Some(code) = supervise_if_asked(std::env::args_os()) {
        return code;
    }
    let Command::Agent(args) = Cli::parse().command;
    start_log();
    install_standalone();
    use_private_umask();
    args.run().unwrap_or_else(|error| {
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let causes: Vec<_> = causes.map(ToString::to_string).collect();
        // Without standard error, the exit code remains.
        drop(writeln!(std::io::stderr(), "error: {}", causes.join(": ")));
        ExitCode::from(BAD_INPUT)
    })
}

/// Starts logging to standard error. `TUNESMITH_LOG` sets the filter: levels by target, such as
/// `info,tunesmith_agent=debug`.
fn start_log() {
    let filter = std::env::var("TUNESMITH_LOG").ok().and_then(|text| text.parse().ok());
    let filter: Targets = filter.unwrap_or_else(|| Targets::new().with_default(Level::WARN));
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false).with_ansi(false);
    tracing_subscriber::registry().with(log).with(filter).init();
}
