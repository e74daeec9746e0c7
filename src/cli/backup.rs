//! `tunesmith backup`, `tunesmith restore` and `tunesmith store copy`: copies of data folders.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};

use super::folder_args::{DEFAULT_DATA_DIR, StoreArgs};
use super::output::{notice, print};
use tunesmith_data_dir::{DataDir, FilesCopied, back_up, copy_store, restore};
use tunesmith_prediction::{CopiedModels, copy_models};
use tunesmith_store::{Contents, Documents, FolderDocuments};

#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    /// New folder for the backup. It appears once it is complete, and is itself a data folder for commands that read.
    backup: PathBuf,
    /// Data folder to back up: store, Optuna studies, tokens, uploaded packages, logs and files of jobs. Installed
    /// environments are left out.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    data_dir: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// Folder written by `tunesmith backup`.
    backup: PathBuf,
    /// New data folder.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    data_dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Copy a data folder that is not in use to a new one with another kind of store, and compare all records.
    Copy(CopyArgs),
}

#[derive(Debug, Args)]
pub(super) struct CopyArgs {
    /// Data folder to copy.
    from: PathBuf,
    /// New data folder.
    to: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

/// Backs a data folder up.
pub(super) fn back_up_folder(args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let copied = run(back_up(&args.data_dir, &args.backup, "tunesmith backup"))?;
    report("Backed up", copied)?;
    notice(&format!("to restore it: tunesmith restore {} --data-dir DIR", args.backup.display()));
    Ok(ExitCode::SUCCESS)
}

/// Restores a backup.
pub(super) fn restore_folder(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let copied = run(restore(&args.backup, &args.data_dir, "tunesmith restore"))?;
    report("Restored", copied)?;
    notice_copy();
    Ok(ExitCode::SUCCESS)
}

/// Copies a data folder to another kind of store.
pub(super) fn store(command: &StoreCommand) -> anyhow::Result<ExitCode> {
    let StoreCommand::Copy(args) = command;
    let target = args.store.source()?;
    let (contents, files, models) = run(async {
        #[cfg(feature = "postgres")]
        fetch_packages(&args.from).await?;
        copy_store(&args.from, &args.to, target, "tunesmith store copy", add_models).await
    })?;
    report("Copied", (contents, files))?;
    let CopiedModels { models, versions, operations } = models;
    if models + operations > 0 {
        print(&format!("Models: {models} with {versions} versions and {operations} operations.\n"))?;
    }
    notice_copy();
    Ok(ExitCode::SUCCESS)
}

/// Copies models, whose documents are in the database of a folder, or in the folder itself.
async fn add_models(from: &DataDir, to: &DataDir) -> anyhow::Result<CopiedModels> {
    let documents = to.models().join("documents");
    match std::fs::remove_dir_all(&documents) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", documents.display()));
        }
        _ => {}
    }
    let (target, is_shared) = documents_of(to);
    let files = from.models().join("files");
    let folder = is_shared.then_some(files.as_path());
    Ok(copy_models(&*documents_of(from).0, &*target, folder).await?)
}

/// Documents of the models of a folder, and whether servers share them. The store of the folder is open.
fn documents_of(data_dir: &DataDir) -> (Box<dyn Documents>, bool) {
    #[cfg(feature = "postgres")]
    if let Some(shared) = data_dir.shared_store() {
        return (Box::new(tunesmith_store::PostgresDocuments::new(shared)), true);
    }
    (Box::new(FolderDocuments::new(data_dir.models().join("documents"))), false)
}

/// Fetches the packages of a database into the data folder `from`.
#[cfg(feature = "postgres")]
async fn fetch_packages(from: &std::path::Path) -> anyhow::Result<()> {
    use std::sync::Arc;

    use tunesmith_data_dir::StoreKind;
    use tunesmith_jobs::packages::Packages;
    use tunesmith_store::PostgresDocuments;

    let source = DataDir::open_read_only(from, "tunesmith store copy")?;
    if source.kind() != StoreKind::Postgres {
        return Ok(());
    }
    source.store().await?;
    let shared = source.shared_store().context("the database is not open")?;
    let packages = Packages::new(source.packages(), Packages::MAX_BYTES);
    packages.shared(Some(Arc::new(PostgresDocuments::new(shared)))).fetch_all().await?;
    Ok(())
}

fn run<T, E: Into<anyhow::Error>>(work: impl Future<Output = Result<T, E>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;
    runtime.block_on(work).map_err(Into::into)
}

fn report(verb: &str, (contents, files): (Contents, FilesCopied)) -> anyhow::Result<()> {
    let Contents { jobs, studies, trials, measurements } = contents;
    let FilesCopied { files, bytes, special, other_owner } = files;
    print(&format!(
        "{verb} and checked: {jobs} jobs, {studies} studies, {trials} trials, {measurements} measurements, {files} files of \
         {bytes} bytes.\n"
    ))?;
    if special > 0 {
        notice(&format!("{special} pipes, sockets or devices are left out"));
    }
    if other_owner > 0 {
        notice(&format!(
            "{other_owner} files and folders belong to you now: only root can copy the files of other users as theirs"
        ));
    }
    Ok(())
}

fn notice_copy() {
    notice(
        "the new folder is a copy: tunesmith serve and run start its unfinished jobs only with --resume-copied, once the \
         original is not used any more",
    );
}
