//! `tunesmith completions`: prints a completion script.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// Target shell.
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "tunesmith", &mut script);
    let mut output = std::io::stdout().lock();
    output.write_all(&script)?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
