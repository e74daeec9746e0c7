//! The container images: the server, and a small one with the agent alone, which pods copy.

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Release;
use crate::process;

/// Each image with its file below `packaging/images`.
const IMAGES: [(&str, &str); 2] = [("tunesmith", "server.Dockerfile"), ("tunesmith-agent", "agent.Dockerfile")];

/// The program that builds images; the first that is installed.
const BUILDERS: [&str; 2] = ["podman", "docker"];

/// Builds the images with the programs in the staging folder, and saves them as archives.
pub(super) fn build(release: &Release) -> Result<()> {
    let Some(builder) = BUILDERS.into_iter().find(|name| process::is_installed(name)) else {
        bail!("no builder of images: install one of {}", BUILDERS.join(", "));
    };
    for (name, file) in IMAGES {
        let tag = format!("{name}:{}", release.version);
        let mut build = Command::new(builder);
        build.args(["build", "--tag", &tag, "--file"]).arg(release.root.join("packaging/images").join(file));
        for (label, value) in [("version", &release.version), ("revision", &release.commit)] {
            build.arg("--label").arg(format!("org.opencontainers.image.{label}={value}"));
        }
        // Base image from the environment, such as one on a mirror.
        if let Ok(base) = std::env::var(format!("{}_BASE_IMAGE", name.to_uppercase().replace('-', "_"))) {
            build.arg("--build-arg").arg(format!("BASE={base}"));
        }
        process::run(build.arg(release.staging()))?;
        let architecture = std::env::consts::ARCH;
        let archive = release.output.join(format!("{name}-{}-{architecture}-image.tar", release.version));
        if archive.exists() {
            std::fs::remove_file(&archive).with_context(|| format!("cannot replace {}", archive.display()))?;
        }
        process::run(Command::new(builder).args(["save", "--output"]).arg(&archive).arg(&tag))?;
    }
    Ok(())
}
