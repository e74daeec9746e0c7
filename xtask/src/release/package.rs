//! The archive and the Debian package of the two programs, with completion scripts and man pages.

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Release;
use crate::process;

const CARGO_DEB: (&str, &str) = ("cargo-deb", "3.8.0");

/// Each shell with the name of its completion script.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "tunesmith.bash"), ("zsh", "_tunesmith"), ("fish", "tunesmith.fish")];

/// The settings of administrators. dpkg keeps their changes.
const CONFFILES: [&str; 2] = ["/etc/tunesmith/server.yaml", "/etc/tunesmith/tunesmith.env"];

/// Files that a package without would be of no use.
const PACKAGED: [&str; 10] = [
    "./usr/bin/tunesmith",
    "./usr/bin/tunesmith-agent",
    "./etc/tunesmith/server.yaml",
    "./usr/lib/systemd/system/tunesmith.service",
    "./usr/lib/sysusers.d/tunesmith.conf",
    "./usr/lib/tmpfiles.d/tunesmith.conf",
    "./usr/share/bash-completion/completions/tunesmith",
    "./usr/share/zsh/vendor-completions/_tunesmith",
    "./usr/share/fish/vendor_completions.d/tunesmith.fish",
    "./usr/share/man/man1/tunesmith-run.1.gz",
];

/// Writes completion scripts and man pages, by the program in the staging folder.
pub(super) fn generated(release: &Release) -> Result<()> {
    let staging = release.staging();
    let program = staging.join("tunesmith");
    let man = staging.join("man");
    if man.exists() {
        std::fs::remove_dir_all(&man).context("cannot remove old man pages")?;
    }
    process::run(Command::new(&program).arg("man-pages").arg(&man))?;
    let completions = staging.join("completions");
    std::fs::create_dir_all(&completions).with_context(|| format!("cannot create {}", completions.display()))?;
    for (shell, name) in COMPLETIONS {
        let script = process::output(Command::new(&program).args(["completions", shell]))?;
        std::fs::write(completions.join(name), script).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

/// Writes `tunesmith-VERSION-TARGET.tar.gz`. Two builds of one commit have the same list of files, owners and times.
pub(super) fn archive(release: &Release) -> Result<()> {
    for name in ["LICENSE", "README.md", "CHANGELOG.md"] {
        release.stage(&release.root.join(name), name)?;
    }
    let name = format!("tunesmith-{}-{}", release.version, release.host);
    let time = process::first_line(Command::new("git").args(["log", "-1", "--format=@%ct"]).current_dir(release.root))?;
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime", &time]);
    tar.arg(format!("--transform=s,^package,{name},")).arg("-C").arg(release.root.join("target")).arg("-czf");
    process::run(tar.arg(release.output.join(format!("{name}.tar.gz"))).arg("package"))
}

/// Writes the Debian package and checks its content. `Cargo.toml` lists its files.
pub(super) fn debian(release: &Release) -> Result<()> {
    if !process::is_installed("dpkg-deb") {
        bail!("dpkg-deb is missing: install dpkg, which checks the package");
    }
    let (name, version) = CARGO_DEB;
    let tool = process::crate_tool(release.root, name, version, &[])?;
    let mut command = Command::new(tool);
    command.args(["deb", "--no-build", "--no-strip", "--package", "tunesmith", "--output"]).arg(&release.output);
    process::run(command.current_dir(release.root))?;
    let packages = crate::files_of(&release.output, &["deb"])?;
    let package = packages
        .iter()
        .find(|path| path.to_string_lossy().contains(&format!("tunesmith_{}", release.version)))
        .context("cargo-deb wrote no package")?;

    let listing = process::output(Command::new("dpkg-deb").arg("--contents").arg(package))?;
    let listing = String::from_utf8_lossy(&listing).into_owned();
    let has = |file: &str| listing.lines().any(|line| line.ends_with(&format!(" {file}")));
    if let Some(missing) = PACKAGED.iter().find(|file| !has(file)) {
        bail!("{} lacks {missing}", package.display());
    }
    let conffiles = process::output(Command::new("dpkg-deb").arg("--info").arg(package).arg("conffiles"))?;
    let conffiles = String::from_utf8_lossy(&conffiles).into_owned();
    if let Some(missing) = CONFFILES.iter().find(|file| !conffiles.lines().any(|line| line == **file)) {
        bail!("{} is no conffile of {}", missing, package.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    /// Files of the package that the repository has. Those in `target/package` are made by the release.
    #[test]
    fn sources_of_the_debian_package_exist() {
        let root = crate::root();
        let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
        let (_, deb) = manifest.split_once("[package.metadata.deb]").unwrap();
        let (_, assets) = deb.split_once("assets = [").unwrap();
        let (assets, _) = assets.split_once("\n]").unwrap();
        let sources: Vec<&str> =
            assets.lines().filter_map(|line| line.trim().strip_prefix("[\"")?.split('"').next()).collect();
        assert!(sources.len() > 8, "{sources:?}");
        for source in sources.into_iter().filter(|source| !source.starts_with("target/package/")) {
            assert!(root.join(source).exists(), "{source}");
        }
        for (_, name) in super::COMPLETIONS {
            assert!(assets.contains(&format!("target/package/completions/{name}")), "{name}");
        }
    }
}
