//! Output files: written under a temporary name, and complete from the moment of their final one.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tunesmith_files::{OpenError, RootedPath};
use tunesmith_jobs::BatchError;
use tunesmith_jobs::allowed_folders::ModelFolder;
use tunesmith_objects::{ObjectError, ObjectFolder};

use tunesmith_packages::ProgramUser;

use crate::models::Inner;

/// Bytes that are kept before they are written.
const BUFFER_BYTES: usize = 256 << 10;

const RESULTS: &str = "prediction.results-";
const ERRORS: &str = "prediction.errors";

/// Folder of the output files.
#[derive(Debug, Clone)]
pub(super) enum Output {
    /// With the start of the names of this job's temporary files.
    Here { folder: RootedPath, temporary: String },
    /// With the local folder of the temporary files.
    Objects { folder: ObjectFolder, temporary: PathBuf },
}

/// File in the making.
pub(super) struct OutputFile {
    name: String,
    temporary: Temporary,
    file: Arc<File>,
    buffer: Vec<u8>,
    size: u64,
}

/// Local temporary file, which a job that is cancelled leaves to its destructor.
struct Temporary {
    path: RootedPath,
    /// Whether it has its final name.
    is_finished: bool,
}

impl Temporary {
    fn rename(mut self, name: &str) -> Result<(), OpenError> {
        self.path.rename(name)?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_finished {
            let path = self.path.clone();
            let remove = move || match path.remove() {
                Err(error) if !error.is_not_found() => {
                    tracing::warn!(path = %path.path().display(), %error, "a temporary file of a batch prediction remains");
                }
                _ => {}
            };
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn_blocking(remove)),
                Err(_) => remove(),
            }
        }
    }
}

/// Name of the file with the predictions of shard `index` of `count`.
pub(super) fn results_name(index: usize, count: usize) -> String {
    format!("{RESULTS}{index:05}-of-{count:05}")
}

/// Name of the file with the failed instances of shard `index` of `count`.
pub(super) fn errors_name(index: usize, count: usize) -> String {
    format!("{ERRORS}-{index:05}-of-{count:05}")
}

/// Name of the published file with the kinds of errors.
pub(super) const STATISTICS: &str = "prediction.errors_stats-00000-of-00001";

impl Output {
    /// The folder `path` of the job `uid`. Temporary files are those of this server.
    pub(super) fn new(inner: &Inner, project: &str, path: &str, uid: &str) -> Result<Self, BatchError> {
        let failed = |error: String| BatchError::Failed(format!("outputPath: {error}"));
        let user = inner.program_user(project);
        let place = inner.services.allowed_folders.model_folder(project, path, user.as_ref());
        Ok(match place.map_err(|error| failed(error.to_string()))? {
            ModelFolder::Here(folder) => Self::Here { folder, temporary: format!(".prediction.{uid}.") },
            ModelFolder::Objects(url) => Self::Objects {
                folder: inner.services.buckets.folder(&url).map_err(|error| failed(error.to_string()))?,
                temporary: inner.folder(project, uid).path().join("output"),
            },
        })
    }

    /// Creates the folder, and removes temporary files of former runs. With `is_new`, refuses a folder with results.
    pub(super) async fn prepare(&self, inner: &Inner, project: &str, is_new: bool) -> Result<(), BatchError> {
        let occupied = |place: String| {
            let text = format!(
                "outputPath: {place} has the results of another batch prediction: remove them, or name another folder"
            );
            BatchError::Failed(text)
        };
        let is_result = |name: &str| name.starts_with(RESULTS) || name.starts_with(ERRORS);
        match self {
            Self::Here { folder, temporary } => {
                let user = inner.program_user(project);
                let (folders, project) = (Arc::clone(&inner.services.allowed_folders), project.to_owned());
                let (folder, temporary) = (folder.clone(), temporary.clone());
                blocking(move || {
                    let path = folder.path();
                    let failed = |error: OpenError| {
                        BatchError::Failed(format!(
                            "outputPath: {} cannot be written: {error}",
                            folder.path().display()
                        ))
                    };
                    folders
                        .prepare_output(&project, &folder, user.as_ref())
                        .map_err(|source| files("create", path.clone(), source))?;
                    // Where folders are restricted, no component may be a link.
                    let is_restricted = folders.base(&project).is_some();
                    let created = if is_restricted { folder.clone() } else { missing(&folder, user.as_ref()) };
                    created.create_folder().map_err(failed)?;
                    folder.check_writable().map_err(failed)?;
                    for entry in folder.entries().map_err(failed)? {
                        if is_new && entry.name.to_str().is_some_and(is_result) {
                            return Err(occupied(path.display().to_string()));
                        }
                    }
                    remove_temporary(&folder, &temporary).map_err(failed)
                })
                .await
            }
            Self::Objects { folder, temporary } => {
                let temporary = temporary.clone();
                blocking(move || {
                    std::fs::create_dir_all(&temporary).map_err(|source| files("create", temporary, source))
                })
                .await?;
                if !is_new {
                    return Ok(());
                }
                folder.probe().await.map_err(|error| BatchError::Failed(format!("outputPath: {error}")))?;
                let mut left = MAX_LISTED;
                let is_result = |name: &str| {
                    left = left.checked_sub(1)?;
                    Some(is_result(name))
                };
                match folder.files(1, is_result).await.map_err(unwritten)?[..] {
                    [] => Ok(()),
                    _ => Err(occupied(folder.url().to_owned())),
                }
            }
        }
    }

    /// Removes temporary files of killed runs from the folder of results.
    pub(super) fn clear(&self) -> Result<(), OpenError> {
        match self {
            Self::Here { folder, temporary } => match remove_temporary(folder, temporary) {
                Err(error) if error.is_not_found() => Ok(()),
                removed => removed,
            },
            Self::Objects { .. } => Ok(()),
        }
    }

    /// Creates the file `name`. `server` keeps the files of several servers apart.
    pub(super) async fn create(&self, name: String, server: &str) -> Result<OutputFile, BatchError> {
        let temporary = match self {
            Self::Here { folder, temporary } => folder.join(format!("{temporary}{server}.{name}")),
            Self::Objects { temporary, .. } => RootedPath::new(temporary, name.clone()),
        };
        let create = move || {
            let created = temporary.create();
            let file = created.map_err(|error| files("create", temporary.path(), std::io::Error::from(error)))?;
            Ok((Temporary { path: temporary, is_finished: false }, Arc::new(file)))
        };
        let (temporary, file) = blocking(create).await?;
        Ok(OutputFile { name, temporary, file, buffer: Vec::new(), size: 0 })
    }

    /// Completes a file under its final name, in place of that of an interrupted run.
    pub(super) async fn finish(&self, mut file: OutputFile) -> Result<(), BatchError> {
        file.flush().await?;
        let OutputFile { name, temporary, file, size, .. } = file;
        match self {
            Self::Here { .. } => {
                blocking(move || {
                    let path = temporary.path.path();
                    let failed = |source| files("write", path.clone(), source);
                    file.sync_all().map_err(failed)?;
                    temporary.rename(&name).map_err(|error| failed(std::io::Error::from(error)))
                })
                .await
            }
            Self::Objects { folder, .. } => {
                let place = temporary.path.clone();
                let open =
                    move || place.open().map_err(|error| files("read", place.path(), std::io::Error::from(error)));
                let content = blocking(open).await?;
                folder.upload(&name, content, size).await.map_err(unwritten)
            }
        }
    }

    /// Removes the file `name` of an interrupted run.
    pub(super) async fn remove(&self, name: String) -> Result<(), BatchError> {
        match self {
            Self::Here { folder, .. } => {
                let file = folder.join(name);
                blocking(move || match file.remove() {
                    Err(error) if !error.is_not_found() => {
                        Err(files("remove", file.path(), std::io::Error::from(error)))
                    }
                    _ => Ok(()),
                })
                .await
            }
            Self::Objects { folder, .. } => folder.remove(&name).await.map_err(unwritten),
        }
    }
}

/// The folder below its deepest existing parent, with the rights of `user`. Links to that parent are followed.
fn missing(folder: &RootedPath, user: Option<&ProgramUser>) -> RootedPath {
    let path = folder.path();
    let existing = path.ancestors().find(|parent| parent.exists()).unwrap_or(&path);
    let below = path.strip_prefix(existing).unwrap_or(Path::new(""));
    RootedPath::new(existing, below).with_rights_of(user.map(|user| Arc::new(user.files())))
}

/// Removes the files of `folder` whose names begin with `prefix`. Blocks.
fn remove_temporary(folder: &RootedPath, prefix: &str) -> Result<(), OpenError> {
    for entry in folder.entries()? {
        if let Some(name) = entry.name.to_str().filter(|name| name.starts_with(prefix)) {
            match folder.join(name).remove() {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Objects of an output folder that are looked at.
const MAX_LISTED: usize = 10_000;

impl OutputFile {
    /// Appends a line.
    pub(super) async fn line(&mut self, line: &[u8]) -> Result<(), BatchError> {
        self.buffer.extend_from_slice(line);
        self.buffer.push(b'\n');
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush().await }
    }

    async fn flush(&mut self) -> Result<(), BatchError> {
        let buffer = std::mem::take(&mut self.buffer);
        self.size += buffer.len() as u64;
        let (file, path) = (Arc::clone(&self.file), self.temporary.path.path());
        blocking(move || (&*file).write_all(&buffer).map_err(|source| files("write", path, source))).await
    }
}

fn files(operation: &'static str, path: PathBuf, source: std::io::Error) -> BatchError {
    BatchError::Files { operation, path, source }
}

/// A failure that may pass lets the job wait.
fn unwritten(error: ObjectError) -> BatchError {
    if error.is_temporary() {
        let source = std::io::Error::other(error.to_string());
        return files("write", PathBuf::from("the predictions"), source);
    }
    BatchError::Failed(format!("outputPath: {error}"))
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BatchError> + Send + 'static,
) -> Result<T, BatchError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(BatchError::Failed(format!("the job was interrupted: {error}"))))
}
