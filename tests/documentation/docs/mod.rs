//! The documentation: its commands run, its generated pages are current, its links and names exist.
//!
//! `UPDATE_DOCS=1 cargo test --test documentation docs::` writes the generated pages and the expected outputs anew.

mod consistency;
mod pages;
mod published;
mod reference;

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files below the folder `path` with this extension, as paths from the top of the repository.
fn files(path: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(path)).unwrap() {
        let entry = entry.unwrap();
        let inner = Path::new(path).join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(inner.to_str().unwrap(), extension));
        } else if inner.extension().is_some_and(|found| found == extension) {
            found.push(inner);
        }
    }
    found.sort();
    found
}
