//! All checks that a change must pass. Each crate is compiled once: see [`LINTS`] and [`crate::documentation`].

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::documentation;

/// Lets the driver of clippy, which is the compiler with further lints, compile the crates of the workspace for the
/// tests. `cargo clippy` sets the same variables, but only checks, so that tests need a second compilation.
pub(crate) const LINTS: [(&str, &str); 2] =
    [("RUSTC_WORKSPACE_WRAPPER", "clippy-driver"), ("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__")];

/// The same for all steps, because other features mean another compilation.
const SELECTION: [&str; 3] = ["--locked", "--workspace", "--all-features"];

/// Runs all checks and stops at the first that fails. The summary of the tests is the last output.
pub(crate) fn run(root: &Path) -> Result<()> {
    // Asked for first: the compilation below replaces this file.
    let this = std::env::current_exe().context("cannot find the program xtask")?;
    let folder = this.ancestors().nth(2).unwrap_or(root).join("doc");

    crate::rules(root)?;
    cargo(root, &["fmt", "--all", "--check"], &[])?;

    // Snapshots that differ are failures, not updates.
    let mut variables: Vec<(&str, &OsStr)> = vec![("INSTA_UPDATE", OsStr::new("no"))];
    variables.extend(LINTS.map(|(name, value)| (name, OsStr::new(value))));
    // Lints of all targets, benches included.
    cargo(root, &[&["test", "--no-run", "--all-targets"], &SELECTION[..]].concat(), &variables)?;

    let rustdoc = std::env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    let mut with_documentation = variables.clone();
    with_documentation.extend([
        ("RUSTDOC", this.as_os_str()),
        (documentation::RUSTDOC, &rustdoc),
        (documentation::FOLDER, folder.as_os_str()),
    ]);
    cargo(root, &[&["test", "--doc"], &SELECTION[..]].concat(), &with_documentation)?;

    // It is no library, so that the step above leaves it out.
    let documentation = ["doc", "--locked", "--package", "xtask", "--no-deps", "--document-private-items"];
    cargo(root, &documentation, &[("RUSTDOCFLAGS", OsStr::new("-D warnings"))])?;

    if has_nextest() {
        cargo(root, &[&["nextest", "run"], &SELECTION[..]].concat(), &variables)
    } else {
        cargo(root, &[&["test", "--lib", "--bins", "--tests"], &SELECTION[..]].concat(), &variables)
    }
}

fn has_nextest() -> bool {
    Command::new(env!("CARGO"))
        .args(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn cargo(root: &Path, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Result<()> {
    let line = format!("cargo {}", arguments.join(" "));
    println!("==> {line}");
    let status = Command::new(env!("CARGO"))
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(root)
        .status()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}
