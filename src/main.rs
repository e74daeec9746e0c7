//! The `tunesmith` command.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use tunesmith_executor::local::{SUPERVISE_ARGUMENT, supervise};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // Checked first: a supervisor is started for every trial, and has to stay small.
    if arguments.next().as_deref() == Some(OsStr::new(SUPERVISE_ARGUMENT)) {
        return match arguments.next() {
            Some(directory) => supervise(Path::new(&directory)),
            None => ExitCode::FAILURE,
        };
    }
    tunesmith::cli::main()
}
