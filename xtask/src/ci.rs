//! The merge gate: all checks. Each crate is compiled once, see [`LINTS`] and [`crate::documentation`].

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::{documentation, process};

/// Compiles workspace crates for the tests with the clippy driver, the compiler plus lints. `cargo clippy` sets the
/// same variables but only checks, so tests would need a second compilation.
pub(crate) const LINTS: [(&str, &str); 2] =
    [("RUSTC_WORKSPACE_WRAPPER", "clippy-driver"), ("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__")];

/// Identical for all steps: other features mean another compilation.
const SELECTION: [&str; 3] = ["--locked", "--workspace", "--all-features"];

/// Runs all checks, stopping at the first failure. The test summary is the last output.
pub(crate) fn run(root: &Path) -> Result<()> {
    // Resolved first: the compilation below replaces this file.
    let this = std::env::current_exe().context("cannot find the program xtask")?;
    let folder = this.ancestors().nth(2).unwrap_or(root).join("doc");

    crate::rules(root)?;
    cargo(root, &["deny", "--locked", "check", "bans", "licenses", "sources"], &[])?;
    cargo(root, &["fmt", "--all", "--check"], &[])?;

    // Differing snapshots are failures, not updates. A clean build gains nothing from incremental compilation, whose
    // files take as much space as the compiled crates.
    let mut variables: Vec<(&str, &OsStr)> =
        vec![("INSTA_UPDATE", OsStr::new("no")), ("CARGO_INCREMENTAL", OsStr::new("0"))];
    variables.extend(LINTS.map(|(name, value)| (name, OsStr::new(value))));
    // Lints all targets, benches included.
    cargo(root, &[&["test", "--no-run", "--all-targets"], &SELECTION[..]].concat(), &variables)?;

    let rustdoc = std::env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    let mut with_documentation = variables.clone();
    with_documentation.extend([
        ("RUSTDOC", this.as_os_str()),
        (documentation::RUSTDOC, &rustdoc),
        (documentation::FOLDER, folder.as_os_str()),
    ]);
    cargo(root, &[&["test", "--doc"], &SELECTION[..]].concat(), &with_documentation)?;

    // Not a library, so the step above omits it.
    let documentation = ["doc", "--locked", "--package", "xtask", "--no-deps", "--document-private-items"];
    cargo(root, &documentation, &[("RUSTDOCFLAGS", OsStr::new("-D warnings"))])?;

    if has_nextest() {
        // Many tests mostly wait: for a cluster, a grace period or a killed process.
        let threads = (std::thread::available_parallelism().map_or(1, NonZeroUsize::get) * 3 / 2).to_string();
        cargo(root, &[&["nextest", "run", "--test-threads", &threads], &SELECTION[..]].concat(), &variables)
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
    process::run(Command::new(env!("CARGO")).args(arguments).envs(variables.iter().copied()).current_dir(root))
}
