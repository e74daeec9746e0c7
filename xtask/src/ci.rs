//! The gate: every check that a change must pass, in order of how soon it tells something.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs all checks and stops at the first that fails. Tests come last, so that their own summary ends the output.
pub(crate) fn run(root: &Path) -> Result<()> {
    crate::rules(root)?;
    cargo(root, &["fmt", "--all", "--check"], &[])?;
    cargo(
        root,
        &["clippy", "--locked", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"],
        &[],
    )?;
    let documentation = ["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"];
    cargo(root, &documentation, &[("RUSTDOCFLAGS", "-D warnings")])?;
    // Advisories are left to a scheduled run: they change without the code, and need the network.
    cargo(root, &["deny", "--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"], &[])?;
    if has_nextest() {
        // It does not run the examples in the documentation.
        cargo(root, &["test", "--locked", "--workspace", "--doc"], &[])?;
        cargo(root, &["nextest", "run", "--locked", "--workspace"], &[("INSTA_UPDATE", "no")])
    } else {
        cargo(root, &["test", "--locked", "--workspace"], &[("INSTA_UPDATE", "no")])
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

fn cargo(root: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Result<()> {
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
