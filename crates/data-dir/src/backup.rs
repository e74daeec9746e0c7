//! Backups of data folders, their restoration, and copies with a store of another kind.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use tunesmith_store::{Contents, read_all};

use super::files::copy_tree;
use super::manifest::{self, Manifest};
use super::new_folder::NewFolder;
use super::{DataDir, DataDirError, FilesCopied, OPTUNA_FILE, SERVER_FILE, StoreKind, StoreSource};

/// Names that are never copied: of this process, of this server, or recomputed. Progress of webhooks may be newer than a copy
/// of the store.
const OWN: [&str; 5] = ["LOCK", SERVER_FILE, "environments", "tokens.shared", "webhooks"];

/// Names of the store and of its location.
const OF_STORE: [&str; 4] = ["STORE", "DATABASE", "store.sled", "store.sqlite"];

/// Suffixes of files beside an SQLite file.
const BESIDE: [&str; 3] = ["-acknowledged", "-shm", "-wal"];

/// Backs the data folder `folder` up to the new folder `backup`: store, Optuna studies, tokens, packages, logs and files of
/// jobs, without installed environments. A server may use an SQLite store meanwhile. `who` is the command line.
///
/// Each database is copied in its state at one time. Other files are copied afterwards, so that everything to which the
/// store refers is in the backup. Every record of the copy is read, and `BACKUP` lists the digests of all files. `backup` is
/// itself a data folder, and appears only once it is complete.
///
/// # Errors
/// [`DataDirError::SledInUse`], [`DataDirError::InDatabase`], [`DataDirError::NotEmpty`],
/// [`DataDirError::Inside`], [`DataDirError::NoStore`], [`DataDirError::Store`], [`DataDirError::Io`].
pub async fn back_up(folder: &Path, backup: &Path, who: &str) -> Result<(Contents, FilesCopied), DataDirError> {
    let source = DataDir::open_read_only(folder, who)?;
    if source.kind() == StoreKind::Postgres {
        return Err(DataDirError::InDatabase { path: source.path().to_owned() });
    }
    let new = start(source.path(), backup)?;
    let (from, to) = (source.path().to_owned(), new.path().to_owned());
    let files = off_the_runtime(move || {
        // A suggestion that is completed after the copy of the store would name a trial that the copy lacks.
        let mut files = copy_tree(&from, &to, |name| name != "suggestions")?;
        copy_databases(&from, &to)?;
        files += copy_tree(&from, &to, |name| name == "suggestions" || is_own(name) || is_database(name))?;
        Ok(files)
    })
    .await?;
    drop(source);
    let contents = contents(new.path(), who).await?;
    let (from, to) = (folder.to_owned(), new.path().to_owned());
    off_the_runtime(move || {
        let from = from.canonicalize().map_err(DataDirError::io("find", &from))?;
        Manifest::of(&to, &from, jiff::Timestamp::now())?.write(&to)
    })
    .await?;
    new.finish()?;
    Ok((contents, files))
}

/// Restores the backup `backup` to the new folder `folder`, whose files and records are all checked. Unfinished jobs of the
/// folder do not run before they are resumed explicitly: see [`DataDir::original`].
///
/// # Errors
/// [`DataDirError::NotABackup`], [`DataDirError::DamagedBackup`], [`DataDirError::NotEmpty`], [`DataDirError::Inside`],
/// [`DataDirError::Store`], [`DataDirError::Io`].
pub async fn restore(backup: &Path, folder: &Path, who: &str) -> Result<(Contents, FilesCopied), DataDirError> {
    let from = backup.canonicalize().map_err(DataDirError::io("find", backup))?;
    let manifest = Manifest::read(&from)?;
    let new = start(&from, folder)?;
    let to = new.path().to_owned();
    let files = off_the_runtime(move || {
        // Commands that read the backup leave a lock or empty files beside a database.
        let files = copy_tree(&from, &to, |name| name == manifest::FILE || is_own(name) || is_beside_database(name))?;
        manifest.check(&from, &to)?;
        Ok(files)
    })
    .await?;
    let contents = contents(new.path(), who).await?;
    new.finish()?;
    Ok((contents, files))
}

/// Copies the data folder `from`, which nothing else may use, to the new folder `to` with the store `target`, and compares
/// all records. Records that `target` has received remain in a database after an error. `add` copies what else the stores of
/// both folders have.
///
/// # Errors
/// [`DataDirError::Copy`] for a database that is not empty, or a source that changes meanwhile. [`DataDirError::InUse`],
/// [`DataDirError::NotEmpty`], [`DataDirError::Inside`], [`DataDirError::NoStore`], [`DataDirError::Store`],
/// [`DataDirError::Io`].
pub async fn copy_store<T, E: From<DataDirError>>(
    from: &Path,
    to: &Path,
    target: StoreSource,
    who: &str,
    add: impl AsyncFnOnce(&DataDir, &DataDir) -> Result<T, E>,
) -> Result<(Contents, FilesCopied, T), E> {
    // Opened for reading first, since opening for writing creates a missing store.
    let kind = DataDir::open_read_only(from, who)?.kind();
    let source = DataDir::open(from, kind, who)?;
    let new = start(source.path(), to)?;
    let (folder, copied) = (source.path().to_owned(), new.path().to_owned());
    let files = off_the_runtime(move || {
        let files = copy_tree(&folder, &copied, |name| {
            is_own(name) || is_database(name) || OF_STORE.iter().any(|own| name == *own)
        })?;
        copy_database(&folder, &copied, OPTUNA_FILE)?;
        Ok(files)
    })
    .await?;
    let copy = DataDir::open(new.path(), target, who)?;
    let contents = tunesmith_store::copy(&*source.store().await?, &*copy.store().await?).await;
    let contents = contents.map_err(DataDirError::from)?;
    let added = add(&source, &copy).await?;
    drop(copy);
    remove_lock(new.path())?;
    new.finish()?;
    Ok((contents, files, added))
}

fn start(from: &Path, to: &Path) -> Result<NewFolder, DataDirError> {
    let absolute = std::path::absolute(to).map_err(DataDirError::io("find", to))?;
    let existing = absolute.ancestors().find_map(|folder| folder.canonicalize().ok());
    if existing.is_some_and(|existing| existing.starts_with(from)) {
        return Err(DataDirError::Inside { from: from.to_owned(), to: to.to_owned() });
    }
    NewFolder::start(to)
}

fn is_own(name: &OsStr) -> bool {
    OWN.iter().any(|own| name == *own)
}

/// Whether `name` is an SQLite file of a data folder, or a file beside one.
fn is_database(name: &OsStr) -> bool {
    databases().any(|database| name == database) || is_beside_database(name)
}

fn is_beside_database(name: &OsStr) -> bool {
    let rest = |database| name.to_str().and_then(|name| name.strip_prefix(database));
    databases().filter_map(rest).any(|rest| BESIDE.contains(&rest))
}

fn databases() -> impl Iterator<Item = &'static str> {
    StoreKind::Sqlite.file_name().into_iter().chain([OPTUNA_FILE])
}

fn copy_databases(from: &Path, to: &Path) -> Result<(), DataDirError> {
    databases().try_for_each(|database| copy_database(from, to, database))
}

/// Copies an SQLite file, if it exists.
fn copy_database(from: &Path, to: &Path, name: &str) -> Result<(), DataDirError> {
    if !from.join(name).try_exists().map_err(DataDirError::io("find", &from.join(name)))? {
        return Ok(());
    }
    #[cfg(feature = "sqlite")]
    return Ok(tunesmith_store::back_up(&from.join(name), &to.join(name))?);
    #[cfg(not(feature = "sqlite"))]
    {
        let _ = to;
        Err(DataDirError::NotBuilt { kind: StoreKind::Sqlite })
    }
}

/// Reads all records of the copied folder `path`.
async fn contents(path: &Path, who: &str) -> Result<Contents, DataDirError> {
    let copy = DataDir::open_read_only(path, who)?;
    let contents = read_all(&*copy.store().await?).await?;
    drop(copy);
    remove_lock(path)?;
    // Reading an SQLite file leaves empty ones beside it.
    for suffix in BESIDE {
        remove(&path.join(format!("{}{suffix}", StoreKind::Sqlite.file_name().unwrap_or_default())))?;
    }
    Ok(contents)
}

fn remove_lock(path: &Path) -> Result<(), DataDirError> {
    remove(&path.join("LOCK"))
}

fn remove(path: &Path) -> Result<(), DataDirError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(DataDirError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DataDirError> + Send + 'static,
) -> Result<T, DataDirError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| DataDirError::io("copy", Path::new("the data folder"))(error.into()))?
}

#[cfg(all(test, feature = "sqlite", feature = "sled"))]
mod tests;
