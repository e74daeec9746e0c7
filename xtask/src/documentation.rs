//! Builds the documentation in the same run as the examples in it.
//!
//! `cargo doc` would check every dependency once more, because it does not use compiled ones. `cargo test --doc` does,
//! and calls the program in `RUSTDOC` with all arguments that the documentation needs too. `cargo xtask ci` names itself
//! there.

use std::ffi::{OsStr, OsString};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, Result};

/// The environment variable with the path of rustdoc. If it is set, xtask acts as rustdoc.
pub(crate) const RUSTDOC: &str = "XTASK_RUSTDOC";

/// The environment variable with the folder for the documentation.
pub(crate) const FOLDER: &str = "XTASK_RUSTDOC_FOLDER";

/// Runs rustdoc with the arguments of this process. If they ask for tests, it builds the documentation at the same time
/// and fails if there are warnings.
pub(crate) fn run(rustdoc: &OsStr) -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match statuses(rustdoc, &arguments) {
        Ok(statuses) if statuses.iter().all(ExitStatus::success) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn statuses(rustdoc: &OsStr, arguments: &[OsString]) -> Result<Vec<ExitStatus>> {
    let cannot_start = || format!("cannot start {}", rustdoc.display());
    let mut tests = Command::new(rustdoc);
    tests.args(arguments).env_remove(RUSTDOC);
    let Some(arguments) = without_tests(arguments) else {
        return Ok(vec![tests.status().with_context(cannot_start)?]);
    };
    let mut documentation = Command::new(rustdoc);
    documentation.args(arguments).args(["--document-private-items", "-D", "warnings"]).env_remove(RUSTDOC);
    if let Some(folder) = std::env::var_os(FOLDER) {
        documentation.arg("--out-dir").arg(folder);
    }
    let documentation = documentation.stdin(Stdio::null()).spawn().with_context(cannot_start)?;
    let tests = tests.status().with_context(cannot_start);
    // Wait before the error is returned: no process is left.
    let documentation = documentation.wait_with_output().with_context(cannot_start)?;
    Ok(vec![tests?, documentation.status])
}

/// The arguments without those for tests, or `None` if they do not ask for tests.
fn without_tests(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let mut kept = Vec::new();
    let mut tests = false;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.to_string_lossy().as_ref() {
            "--test" => tests = true,
            "--test-args" | "--test-run-directory" => {
                arguments.next();
            }
            "--no-run" | "--nocapture" | "--no-capture" => {}
            _ => kept.push(argument.clone()),
        }
    }
    tests.then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_for_tests_are_removed() {
        let arguments = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let given = arguments("--crate-name a --test src/lib.rs --test-run-directory /x --extern b");
        assert_eq!(without_tests(&given), Some(arguments("--crate-name a src/lib.rs --extern b")));
        assert_eq!(without_tests(&arguments("--version")), None);
    }
}
