//! The `tunesmith` command.

use std::process::ExitCode;

use tunesmith_executor::local::supervise_if_asked;

fn main() -> ExitCode {
    // Checked first: a supervisor is started for every trial, and has to stay small.
    supervise_if_asked(std::env::args_os()).unwrap_or_else(tunesmith::cli::main)
}
