//! Errors of building environments.

use std::io;
use std::path::{Path, PathBuf};

/// Errors of building an environment, by what the user can do.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The scheme of a package URI is not supported: use another one.
    #[error(
        "package `{uri}`: the scheme `{scheme}` is not supported; \
         use a local path, file://, http://, https://, gs:// or s3://"
    )]
    UnsupportedScheme {
        /// The URI as the user wrote it.
        uri: String,
        /// The scheme.
        scheme: String,
    },
    /// A package URI is invalid: correct it.
    #[error("package `{uri}`: {detail}")]
    InvalidUri {
        /// The URI as the user wrote it.
        uri: String,
        /// The violated rule.
        detail: String,
    },
    /// The package does not exist.
    #[error("package `{uri}` was not found: {detail}")]
    NotFound {
        /// The URI as the user wrote it, without credentials.
        uri: String,
        /// The source of the error.
        detail: String,
    },
    /// The name or the content is not that of a Python package: use another file.
    #[error("package `{uri}` is neither a wheel nor a source archive: {detail}")]
    NotAPackage {
        /// The URI as the user wrote it, without credentials.
        uri: String,
        /// The name or content that was found.
        detail: String,
    },
    /// The package or requirement is not allowed here: use another one, or ask the operator.
    #[error("package `{uri}` is refused: {detail}")]
    Refused {
        /// The URI or requirement as the user wrote it, without credentials.
        uri: String,
        /// The violated rule.
        detail: String,
    },
    /// The folder in `--package-path` is not that of a package.
    #[error("`{}` is not a folder of a Python package: {detail}", path.display())]
    NotAPackageFolder {
        /// The path as the user wrote it.
        path: PathBuf,
        /// The violated rule.
        detail: String,
    },
    /// A remote package could not be read: check address and credentials, or retry.
    #[error("package `{uri}` could not be fetched")]
    Fetch {
        /// The URI as the user wrote it, without credentials.
        uri: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Python is not installed: install it.
    #[error(
        "there is no `python3` on the PATH: install Python 3, on Debian and Ubuntu the packages python3 and python3-venv"
    )]
    PythonMissing,
    /// Python has no module venv or ensurepip: install them, or uv.
    #[error(
        "`{}` cannot make virtual environments, its modules venv and ensurepip are missing: \
         install them, on Debian and Ubuntu the package python3-venv, or install uv",
        python.display()
    )]
    VenvMissing {
        /// The interpreter.
        python: PathBuf,
    },
    /// The interpreter fails.
    #[error("the Python interpreter `{}` does not work: {detail}", python.display())]
    PythonBroken {
        /// The interpreter.
        python: PathBuf,
        /// Its output.
        detail: String,
    },
    /// The installer failed; its output contains the reason.
    #[error("{installer} could not install the packages ({end}); all of its output is in {}\n{output}", log.display())]
    InstallFailed {
        /// `uv` or `pip`.
        installer: &'static str,
        /// Its exit status, such as `exit status: 1`.
        end: String,
        /// The last lines of its output, at most 60.
        output: String,
        /// Path of the complete output.
        log: PathBuf,
    },
    /// An IO error on this machine, such as a full disk or missing permission.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The failed operation, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The runtime ended before the work was complete.
    #[error("the program is shutting down")]
    ShuttingDown,
}

impl PackageError {
    /// Returns a closure for `map_err` that adds the operation to an IO error.
    pub(super) fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { action, path, source }
    }
}
