//! Checks of the repository: `cargo xtask ci` runs all of them and all tests, `cargo xtask rules` those that need no
//! compiler, `cargo xtask glossary` prints each use of a word that `docs/glossary.md` excludes, and `cargo xtask campaign`
//! runs the tests that break things on purpose, as large as wanted. `cargo xtask agent` builds the release of the agent.

#![expect(clippy::print_stdout, reason = "a command line tool prints its results")]

mod agent;
mod campaign;
mod ci;
mod dependencies;
mod documentation;
mod glossary;
mod lengths;
mod repeat;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

fn main() -> ExitCode {
    if let Some(rustdoc) = std::env::var_os(documentation::RUSTDOC) {
        return documentation::run(&rustdoc);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.first().map(String::as_str) {
        Some("agent") => agent::run(&root()),
        Some("ci") => ci::run(&root()),
        Some("campaign") => campaign::run(&root(), &arguments[1..]),
        Some("rules") => rules(&root()),
        Some("glossary") => glossary::report(&root(), &arguments[1..]),
        _ => {
            println!(
                "usage: cargo xtask agent|ci|rules|glossary [FOLDER]...|campaign [FACTOR]|campaign repeat [TIMES] [FILTER]"
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

/// Checks the dependencies, the length of files and the words.
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

/// All files below `folder` with one of `extensions`, sorted; none if there is no such folder. Hidden folders and the
/// folders of build tools are left out.
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

/// All files directly in `folder` with one of `extensions`, sorted.
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
