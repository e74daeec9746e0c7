//! Release build of `tunesmith-agent`: a static program for any Linux image (docs/experiments/090).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

/// Maximum program size in bytes, as it is copied into every pod.
const MAX_BYTES: u64 = 8_000_000;

/// Linker options that save 390 kB: identical code folding and packed relocations. The latter need the static
/// start-up code of glibc 2.36 on the build machine.
const LINKER: [&str; 2] = ["link-arg=-Wl,--icf=all", "link-arg=-Wl,--pack-dyn-relocs=relr"];

/// Builds the program, checks its size, and places it beside the release build of `tunesmith`. Returns its path.
pub(crate) fn run(root: &Path) -> Result<PathBuf> {
    let host = host()?;
    // With a target, the flags do not apply to build scripts and procedural macros, which cannot be static.
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    let mut build = Command::new(env!("CARGO"));
    build
        .args(["rustc", "--locked", "--profile", "agent", "--package", "tunesmith-agent", "--bin", "tunesmith-agent"])
        .args(["--target", &host, "--"])
        .args(LINKER.iter().flat_map(|option| ["-C", option]))
        .env("RUSTFLAGS", format!("{flags} -C target-feature=+crt-static"))
        .current_dir(root);
    process::run(&mut build)?;
    let target = process::target(root);
    let built = target.join(host).join("agent/tunesmith-agent");
    let size = built.metadata().with_context(|| format!("cannot read {}", built.display()))?.len();
    if size > MAX_BYTES {
        bail!("{} has {size} bytes, at most {MAX_BYTES} are allowed", built.display());
    }
    let started = Command::new(&built).arg("--version").status().context("cannot start tunesmith-agent")?;
    if !started.success() {
        bail!("{} does not start: {started}; build it on a machine with glibc 2.36 or later", built.display());
    }
    let release = target.join("release");
    std::fs::create_dir_all(&release).with_context(|| format!("cannot create {}", release.display()))?;
    let copy = release.join("tunesmith-agent");
    std::fs::copy(&built, &copy).with_context(|| format!("cannot write {}", copy.display()))?;
    println!("{}: {size} bytes", copy.display());
    Ok(copy)
}

pub(crate) fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    process::first_line(Command::new(rustc).args(["--print", "host-tuple"]))
}
