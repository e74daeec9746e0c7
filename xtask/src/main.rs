//! House rules that a machine can check.
//!
//! `cargo xtask ci` is the whole gate, the same here as everywhere; `cargo xtask rules` checks only what takes no
//! compiler.

#![expect(clippy::print_stdout, reason = "a developer's tool speaks to its terminal")]

mod ci;
mod lengths;
mod rooms;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

fn main() -> ExitCode {
    let command = std::env::args().nth(1);
    let result = match command.as_deref() {
        Some("ci") => ci::run(&root()),
        Some("rules") => rules(&root()),
        _ => {
            println!("usage: cargo xtask ci|rules");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Checks the direction of dependencies and the length of files.
fn rules(root: &Path) -> Result<()> {
    let mut breaches = rooms::check(&root.join("src"))?;
    for folder in ["src", "algorithms", "benchmark", "xtask", "tests", "benches", "examples"] {
        breaches.extend(lengths::check(&root.join(folder))?);
    }
    if !breaches.is_empty() {
        bail!("house rules are broken:\n  {}", breaches.join("\n  "));
    }
    println!("house rules: kept");
    Ok(())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files below `folder` with one of `extensions`, sorted; none if there is no such folder.
fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if !folder.is_dir() {
        return Ok(found);
    }
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if path.is_dir() {
            found.extend(files(&path, extensions)?);
        } else if extensions.contains(&extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
