//! `tunesmith man-pages`: writes the man pages, for packages.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::help;

#[derive(Debug, Args)]
pub(super) struct ManPagesArgs {
    /// Folder for the pages, created if necessary.
    folder: PathBuf,
}

/// Writes one page per command, with all of its flags.
pub(super) fn run(args: &ManPagesArgs) -> anyhow::Result<ExitCode> {
    let folder = &args.folder;
    let failed = || format!("cannot write man pages to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(help::command(true), folder).with_context(failed)?;
    Ok(ExitCode::SUCCESS)
}
