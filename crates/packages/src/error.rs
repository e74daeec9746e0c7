//! Why an environment cannot be had.

use std::io;
use std::path::{Path, PathBuf};

/// What went wrong, by what the user can do.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// Name a package in another way.
    #[error(
        "package `{uri}`: the scheme `{scheme}` is not supported; \
         use a local path, file://, http://, https://, gs:// or s3://"
    )]
    UnsupportedScheme {
        /// As the user wrote it.
        uri: String,
        /// The part before `://`.
        scheme: String,
    },
    /// Correct the name of the package.
    #[error("package `{uri}`: {detail}")]
    InvalidUri {
        /// As the user wrote it.
        uri: String,
        /// What is wrong.
        detail: String,
    },
    /// There is nothing under that name.
    #[error("package `{uri}` was not found: {detail}")]
    NotFound {
        /// As the user wrote it, without credentials.
        uri: String,
        /// Who says so.
        detail: String,
    },
    /// The name or the content is not that of a Python package: name another file.
    #[error("package `{uri}` is neither a wheel nor a source archive: {detail}")]
    NotAPackage {
        /// As the user wrote it, without credentials.
        uri: String,
        /// What was found instead.
        detail: String,
    },
    /// The folder given as `--package-path` is not that of a package.
    #[error("`{}` is not a folder of a Python package: {detail}", path.display())]
    NotAPackageFolder {
        /// As the user wrote it.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The package lies elsewhere and could not be read: check address and credentials, or try again.
    #[error("package `{uri}` could not be fetched")]
    Fetch {
        /// As the user wrote it, without credentials.
        uri: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Install Python.
    #[error(
        "there is no `python3` on the PATH: install Python 3, on Debian and Ubuntu the packages python3 and python3-venv"
    )]
    PythonMissing,
    /// Install the rest of Python, or uv.
    #[error(
        "`{}` cannot make virtual environments, its modules venv and ensurepip are missing: \
         install them, on Debian and Ubuntu the package python3-venv, or install uv",
        python.display()
    )]
    VenvMissing {
        /// The interpreter.
        python: PathBuf,
    },
    /// The interpreter does not work.
    #[error("`{}` does not work: {detail}", python.display())]
    PythonBroken {
        /// The interpreter.
        python: PathBuf,
        /// What it said.
        detail: String,
    },
    /// The installer says what is wrong.
    #[error("{installer} could not install the packages ({end}); all of its output is in {}\n{output}", log.display())]
    InstallFailed {
        /// `uv` or `pip`.
        installer: &'static str,
        /// How it ended, such as `exit status: 1`.
        end: String,
        /// The last lines of its output, at most 60.
        output: String,
        /// Where all of it lies.
        log: PathBuf,
    },
    /// This machine failed: disk full, no permission.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was done, as a verb.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The runtime ended before the work was done.
    #[error("the program is shutting down")]
    ShuttingDown,
}

impl PackageError {
    /// For `map_err`: what was being done when an I/O error came.
    pub(super) fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { action, path, source }
    }
}
