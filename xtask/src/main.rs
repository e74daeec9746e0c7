//! Repository checks. `cargo xtask ci` runs all checks and tests, `cargo xtask rules` the checks that need no
//! compilation, `cargo xtask campaign` the fault injection tests at any size. `cargo xtask agent` builds the agent's
//! release, `cargo xtask release` everything that is published, `cargo xtask site` the documentation site.

#![expect(clippy::print_stdout, reason = "a command line tool prints its results")]

mod agent;
mod campaign;
mod ci;
mod dependencies;
mod documentation;
mod glossary;
mod lengths;
mod process;
mod release;
mod site;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

fn main() -> ExitCode {
    if let Some(rustdoc) = std::env::var_os(documentation::RUSTDOC) {
        return documentation::run(&rustdoc);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.first().map(String::as_str) {
        Some("agent") => agent::run(&root()).map(drop),
        Some("ci") => ci::run(&root()),
        Some("campaign") => campaign::run(&root(), &arguments[1..]),
        Some("release") => release::run(&root(), &arguments[1..]),
        Some("rules") => rules(&root()),
        Some("site") => site::run(&root()),
        _ => {
            println!(
                "usage: cargo xtask agent|ci|rules|site|campaign [FACTOR]|release [--output FOLDER] [--only PART,...]"
            );
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

fn rules(root: &Path) -> Result<()> {
    let mut breaches = dependencies::check(root)?;
    breaches.extend(lengths::check(root)?);
    breaches.extend(glossary::check(root)?);
    if !breaches.is_empty() {
        bail!("{} rules of the repository are broken:\n  {}", breaches.len(), breaches.join("\n  "));
    }
    println!("rules: passed");
    Ok(())
}

fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap_or(folder).to_owned()
}

/// Files below `folder` with one of `extensions`, sorted; none if it does not exist. Skips hidden folders and those
/// of build tools.
fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = files_of(folder, extensions)?;
    for path in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with('.') && !matches!(&*name, "target" | "node_modules" | "__pycache__" | "build" | "dist") {
            found.extend(files(&path, extensions)?);
        }
    }
    found.sort();
    Ok(found)
}

/// Files directly in `folder` with one of `extensions`, sorted.
fn files_of(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = entries(folder)?;
    found.retain(|path| {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        path.is_file() && extensions.contains(&extension)
    });
    found.sort();
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}
