//! `tunesmith completions SHELL`.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Prints the script.
pub(super) fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    clap_complete::generate(args.shell, &mut super::Cli::command(), "tunesmith", &mut std::io::stdout());
    Ok(ExitCode::SUCCESS)
}
