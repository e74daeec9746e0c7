//! Shared parts of the integration tests: workspaces, servers, clients, Python environments, clusters.
#![expect(clippy::unwrap_used, reason = "a failure of this crate is a failure of the test that calls it")]

pub mod access;
pub mod client;
pub mod console;
pub mod documents;
pub mod environment;
pub mod generator;
pub mod paced;
pub mod postgres;
pub mod published_fields;
pub mod python;
pub mod server;
pub mod slurm;
pub mod usage;
mod workspace;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub use workspace::*;

/// The folder of build outputs of the profile of this test.
static OUTPUTS: LazyLock<PathBuf> = LazyLock::new(|| {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
});

/// The program `tunesmith` that was built with this test.
pub fn tunesmith() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| OUTPUTS.join("tunesmith"));
    &PROGRAM
}

/// The folder of files that tests keep between runs, as Cargo's `CARGO_TARGET_TMPDIR`.
pub fn temporary_folder() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| OUTPUTS.with_file_name("tmp"));
    &FOLDER
}

/// The root of the repository.
pub fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> =
        LazyLock::new(|| Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned());
    &ROOT
}
