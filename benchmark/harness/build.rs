//! Version of our algorithms in run records: `0.1.0 (afc4098e)`, with `changed` if the algorithms differ from the
//! commit; the version alone outside a checkout.

use std::env;
use std::process::Command;

/// Sources that determine the suggestions of an algorithm.
const SOURCES: &str = "../../algorithms/src";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={SOURCES}");
    // Every commit and checkout writes this log.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = match commit() {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=TUNESMITH_VERSION={version}");
}

fn commit() -> Option<String> {
    // An unpacked archive may lie inside an unrelated repository.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let commit = git(&["rev-parse", "--short=8", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--", SOURCES])?;
    Some(if changes.is_empty() { commit } else { format!("{commit}, changed") })
}

/// Standard output of git; `None` on failure.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
