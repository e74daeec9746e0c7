//! The `tunesmith` command.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use tunesmith_executor::local::{SUPERVISE_ARGUMENT, SUPERVISE_SHARED_ARGUMENT, supervise, supervise_shared};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    // Checked first: a supervisor is started for every trial, and has to stay small.
    for (name, supervisor) in
        [(SUPERVISE_ARGUMENT, supervise as fn(&Path) -> ExitCode), (SUPERVISE_SHARED_ARGUMENT, supervise_shared)]
    {
        if first == *OsStr::new(name) {
            return arguments.next().map_or(ExitCode::FAILURE, |folder| supervisor(Path::new(&folder)));
        }
    }
    tunesmith::cli::main()
}
