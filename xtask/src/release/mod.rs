//! `cargo xtask release`: everything that a release publishes, in one folder, with checksums. `docs/releasing.md` describes it.

mod images;
mod package;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{agent, process};

/// The environment variable with the commit that `tunesmith --version` states.
const COMMIT: &str = "TUNESMITH_COMMIT";

/// The oldest C library that the program runs with: that of manylinux2014. RHEL 8 has 2.28, Debian 11 has 2.31.
const GLIBC: &str = "2.17";

/// The linker, whose libraries of glibc have every version, and the subcommand of cargo that calls it.
const ZIG: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

/// Front end of Python's build systems, and the back end of the wheel.
const BUILD: [&str; 2] = ["build==1.6.1", "maturin==1.16.0"];

/// Profile of cargo for the program and the engine.
const PROFILE: &str = "dist";

/// Platform tag of the wheel, which promises [`GLIBC`].
const PLATFORM: &str = "manylinux2014";

const CARGO_CYCLONEDX: (&str, &str) = ("cargo-cyclonedx", "0.5.9");

/// The parts of a release, in the order in which they are built. Those after `agent` contain the two programs.
const PARTS: [&str; 7] = ["program", "agent", "wheel", "archive", "deb", "images", "sbom"];

/// A release being built.
struct Release<'a> {
    root: &'a Path,
    version: String,
    commit: String,
    /// The target of this machine, such as `x86_64-unknown-linux-gnu`.
    host: String,
    /// The folder of finished files.
    output: PathBuf,
}

/// Builds the parts that `arguments` name, or all of them, and their checksums.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let (output, parts) = options(arguments)?;
    let version = version(root)?;
    let output = output.unwrap_or_else(|| process::target(root).join(format!("release-{version}")));
    std::fs::create_dir_all(&output).with_context(|| format!("cannot create {}", output.display()))?;
    let output = output.canonicalize().with_context(|| format!("cannot open {}", output.display()))?;
    let release = Release { root, commit: commit(root)?, host: agent::host()?, version, output };
    println!("tunesmith {} ({}) for {}", release.version, release.commit, release.host);
    for part in PARTS.into_iter().filter(|part| parts.contains(part)) {
        match part {
            "program" => release.program(),
            "agent" => release.stage(&agent::run(root)?, "tunesmith-agent"),
            "wheel" => release.wheel(),
            "archive" => package::archive(&release),
            "deb" => package::debian(&release),
            "images" => images::build(&release),
            _ => release.bill_of_materials(),
        }
        .with_context(|| format!("cannot build the part `{part}`"))?;
    }
    release.checksums()
}

/// The folder and the parts that the arguments name.
fn options(arguments: &[String]) -> Result<(Option<PathBuf>, BTreeSet<&str>)> {
    let mut output = None;
    let mut parts: BTreeSet<&str> = PARTS.into();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--output" => output = Some(PathBuf::from(value)),
            "--only" => parts = value.split(',').collect(),
            _ => bail!("unknown flag {argument}: expected --output or --only"),
        }
    }
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(part)) {
        bail!("unknown part {unknown}: expected one of {}", PARTS.join(", "));
    }
    Ok((output, parts))
}

/// The version of the workspace.
pub(crate) fn version(root: &Path) -> Result<String> {
    let mut command = Command::new(env!("CARGO"));
    process::first_line(command.args(["pkgid", "--locked", "--package", "tunesmith"]).current_dir(root))?
        .rsplit_once(['#', '@'])
        .map(|(_, version)| version.to_owned())
        .context("cargo pkgid names no version")
}

/// The commit, with `changed` if files differ from it.
fn commit(root: &Path) -> Result<String> {
    let git = |arguments: &[&str]| process::first_line(Command::new("git").args(arguments).current_dir(root));
    let commit = git(&["rev-parse", "--short=8", "HEAD"])?;
    let is_changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Ok(if is_changed { format!("{commit}, changed") } else { commit })
}

impl Release<'_> {
    /// The folder with the files that archive, package and images have in common.
    fn staging(&self) -> PathBuf {
        self.root.join("target/package")
    }

    /// Copies `file` to the staging folder as `name`, executable if it is.
    fn stage(&self, file: &Path, name: &str) -> Result<()> {
        let copy = self.staging().join(name);
        let folder = copy.parent().context("the staging folder has no parent")?;
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        std::fs::copy(file, &copy).with_context(|| format!("cannot copy {} to {}", file.display(), copy.display()))?;
        Ok(())
    }

    /// Builds the program for an old C library, and writes its completion scripts and man pages.
    fn program(&self) -> Result<()> {
        let zig = process::python_tools(self.root, &ZIG)?;
        let mut build = Command::new(zig.join("cargo-zigbuild"));
        build.args([
            "zigbuild",
            "--locked",
            "--profile",
            PROFILE,
            "--package",
            "tunesmith",
            "--bin",
            "tunesmith",
            "--target",
        ]);
        build
            .arg(format!("{}.{GLIBC}", self.host))
            .env("PATH", path_with(&zig)?)
            .env(COMMIT, &self.commit)
            .current_dir(self.root);
        process::run(&mut build)?;
        let built = process::target(self.root).join(&self.host).join(PROFILE).join("tunesmith");
        let program = std::fs::read(&built).with_context(|| format!("cannot read {}", built.display()))?;
        let needed = newest_glibc(&program);
        let (_, allowed) = GLIBC.split_once('.').context("the version of glibc has no dot")?;
        if needed > allowed.parse().context("the version of glibc is no number")? {
            bail!("{} needs glibc 2.{needed}, newer than {GLIBC}", built.display());
        }
        self.stage(&built, "tunesmith")?;
        package::generated(self)
    }

    /// Builds the wheel, with the staged program and an engine for an old C library, its source distribution, and the
    /// sweeper for Hydra.
    fn wheel(&self) -> Result<()> {
        let tools = process::python_tools(self.root, &[BUILD[0], BUILD[1], ZIG[0]])?;
        let mut build = Command::new(tools.join("python"));
        build
            .args(["-m", "build", "--no-isolation", "--sdist", "--wheel", "--outdir"])
            .arg(&self.output)
            .arg(self.root);
        build.env("PATH", path_with(&tools)?).env("TUNESMITH_PROGRAM", self.staging().join("tunesmith"));
        process::run(build.env(
            "MATURIN_PEP517_ARGS",
            format!("--profile {PROFILE} --zig --compatibility {PLATFORM} --compression-level 9"),
        ))?;
        let mut sweeper = Command::new(tools.join("python"));
        sweeper.args(["-m", "build", "--outdir"]).arg(&self.output).arg(self.root.join("clients/hydra"));
        process::run(&mut sweeper)
    }

    /// Writes the software bill of materials of the program, in the JSON format of CycloneDX.
    fn bill_of_materials(&self) -> Result<()> {
        let (name, version) = CARGO_CYCLONEDX;
        let tool = process::crate_tool(self.root, name, version, &[])?;
        let name = format!("tunesmith-{}.cdx", self.version);
        let mut command = Command::new(tool);
        command.args(["cyclonedx", "--format", "json", "--spec-version", "1.5", "--override-filename", &name]);
        process::run(command.current_dir(self.root))?;
        // The tool writes one file beside the manifest of every crate of the workspace.
        let file = format!("{name}.json");
        let document = self.root.join(&file);
        let text = std::fs::read_to_string(&document).with_context(|| format!("cannot read {file}"))?;
        // The references of our own crates contain the folder of the build.
        let text = text.replace(&self.root.display().to_string(), "/tunesmith");
        std::fs::write(self.output.join(&file), text).with_context(|| format!("cannot write {file}"))?;
        for written in crate::files(self.root, &["json"])?.iter().filter(|path| path.ends_with(&file)) {
            std::fs::remove_file(written).with_context(|| format!("cannot remove {}", written.display()))?;
        }
        Ok(())
    }

    /// Writes `SHA256SUMS`, which `sha256sum --check` reads.
    fn checksums(&self) -> Result<()> {
        let names = crate::entries(&self.output)?.into_iter().filter_map(|path| Some(path.file_name()?.to_owned()));
        let mut names: Vec<_> = names.filter(|name| name != "SHA256SUMS").collect();
        names.sort();
        if names.is_empty() {
            return Ok(());
        }
        let sums = process::output(Command::new("sha256sum").args(names).current_dir(&self.output))?;
        std::fs::write(self.output.join("SHA256SUMS"), &sums).context("cannot write SHA256SUMS")?;
        println!("{}:\n{}", self.output.display(), String::from_utf8_lossy(&sums));
        Ok(())
    }
}

/// `PATH` with `folder` first.
fn path_with(folder: &Path) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path)))
        .context("PATH has an invalid folder")
}

/// The minor version of the newest symbols of glibc 2 that a program needs, or 0.
fn newest_glibc(program: &[u8]) -> u32 {
    const PREFIX: &[u8] = b"GLIBC_2.";
    let versions = program.windows(PREFIX.len()).enumerate().filter(|(_, bytes)| *bytes == PREFIX);
    let minor = versions.map(|(at, _)| {
        let digits = program[at + PREFIX.len()..].iter().take_while(|byte| byte.is_ascii_digit()).take(4);
        digits.fold(0, |number, digit| 10 * number + u32::from(digit - b'0'))
    });
    minor.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_select_parts_that_exist() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let given = words("--only deb,sbom --output /tmp/x");
        assert_eq!(options(&given).unwrap(), (Some("/tmp/x".into()), ["deb", "sbom"].into()));
        assert_eq!(options(&[]).unwrap(), (None, PARTS.into()));
        assert!(
            options(&words("--only rpm")).unwrap_err().to_string().starts_with("unknown part rpm: expected one of")
        );
        assert_eq!(options(&words("--only")).unwrap_err().to_string(), "--only needs a value");
    }

    #[test]
    fn the_newest_version_of_glibc_counts() {
        assert_eq!(newest_glibc(b"\0GLIBC_2.2.5\0GLIBC_2.17\0GLIBC_2.3\0GLIBC_PRIVATE\0"), 17);
        assert_eq!(newest_glibc(b"static"), 0);
    }
}
