//! The release build of `tunesmith-agent`: a static program, which runs in any image of Linux (docs/experiments/090).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Maximum size of the program in bytes: it is copied into every pod.
const MAX_BYTES: u64 = 8_000_000;

/// Options of the linker that save 390 kB: identical functions become one, and relocations are packed, which needs the static
/// start-up code of glibc 2.36 on the machine that builds.
const LINKER: [&str; 2] = ["link-arg=-Wl,--icf=all", "link-arg=-Wl,--pack-dyn-relocs=relr"];

/// Builds the program, checks its size, and places it beside the release build of `tunesmith`.
pub(crate) fn run(root: &Path) -> Result<()> {
    let host = host()?;
    // With a target, the flags do not apply to build scripts and procedural macros, which cannot be static.
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    let status = Command::new(env!("CARGO"))
        .args(["rustc", "--locked", "--profile", "agent", "--package", "tunesmith-agent", "--bin", "tunesmith-agent"])
        .args(["--target", &host, "--"])
        .args(LINKER.iter().flat_map(|option| ["-C", option]))
        .env("RUSTFLAGS", format!("{flags} -C target-feature=+crt-static"))
        .current_dir(root)
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("the build of tunesmith-agent failed: {status}");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
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
    Ok(())
}

/// The target of this machine.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "host-tuple"]).output().context("cannot start rustc")?;
    if !output.status.success() {
        bail!("`rustc --print host-tuple` failed: {}", output.status);
    }
    Ok(String::from_utf8(output.stdout).context("the name of the target is not UTF-8")?.trim().to_owned())
}
