use std::io;
use std::path::{Path, PathBuf};

/// Errors of building an environment, by remedy.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The scheme of a package URI is not supported: use another one.
    #[error(
        "package `{uri}`: the scheme `{scheme}` is not supported; \
         use a local path, file://, http://, https://, gs:// or s3://"
    )]
    UnsupportedScheme {
        /// URI as written by the user.
        uri: String,
        scheme: String,
    },
    /// A package URI is invalid: correct it.
    #[error("package `{uri}`: {detail}")]
    InvalidUri {
        /// URI as written by the user.
        uri: String,
        detail: String,
    },
    #[error("package `{uri}` was not found: {detail}")]
    NotFound {
        /// URI as written by the user, without credentials.
        uri: String,
        detail: String,
    },
    /// Neither name nor content is that of a Python package: use another file.
    #[error("package `{uri}` is neither a wheel nor a source archive: {detail}")]
    NotAPackage {
        /// URI as written by the user, without credentials.
        uri: String,
        detail: String,
    },
    /// The package or requirement is not allowed here: use another one, or ask the operator.
    #[error("package `{uri}` is refused: {detail}")]
    Refused {
        /// URI or requirement as written by the user, without credentials.
        uri: String,
        detail: String,
    },
    #[error("`{}` is not a folder of a Python package: {detail}", path.display())]
    NotAPackageFolder {
        /// Path as written by the user.
        path: PathBuf,
        detail: String,
    },
    /// A remote package could not be read: check address and credentials, or retry.
    #[error("package `{uri}` could not be fetched")]
    Fetch {
        /// URI as written by the user, without credentials.
        uri: String,
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
    VenvMissing { python: PathBuf },
    #[error("the Python interpreter `{}` does not work: {detail}", python.display())]
    PythonBroken { python: PathBuf, detail: String },
    /// The installer failed; its output contains the reason.
    #[error("{installer} could not install the packages ({end}); all of its output is in {}\n{output}", log.display())]
    InstallFailed {
        installer: &'static str,
        /// Exit status, such as `exit status: 1`.
        end: String,
        /// Last lines of output, at most 60.
        output: String,
        log: PathBuf,
    },
    #[error("cannot {action} {}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the program is shutting down")]
    ShuttingDown,
}

impl PackageError {
    /// Closure for `map_err` that adds the operation to an IO error.
    pub(super) fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { action, path, source }
    }
}
