//! Builds the documentation in the same run as its examples.
//!
//! `cargo doc` would check every dependency again, because it ignores compiled ones. `cargo test --doc` reuses them
//! and calls the program in `RUSTDOC` with all arguments that the documentation needs; `cargo xtask ci` names itself
//! there.

use std::ffi::{OsStr, OsString};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, Result};

/// Environment variable with the path of rustdoc. If set, xtask acts as rustdoc.
pub(crate) const RUSTDOC: &str = "XTASK_RUSTDOC";

/// Environment variable with the documentation folder.
pub(crate) const FOLDER: &str = "XTASK_RUSTDOC_FOLDER";

/// Runs rustdoc with this process's arguments. If they request tests, concurrently builds the documentation and fails
/// on warnings.
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
    // Wait before returning the error, so that no process is left.
    let documentation = documentation.wait_with_output().with_context(cannot_start)?;
    Ok(vec![tests?, documentation.status])
}

/// The arguments without those for tests; `None` if no tests are requested.
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
