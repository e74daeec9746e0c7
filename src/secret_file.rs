//! Files with a secret of the server.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretFileError {
    #[error("{} cannot be read", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} {reason}", path.display())]
    Unusable { path: PathBuf, reason: &'static str },
}

/// Secret in the file `path`, without the end of its line.
///
/// # Errors
/// If the file cannot be read, is empty, or is readable by every user.
pub(crate) fn read_secret(path: &Path) -> Result<String, SecretFileError> {
    let read = || Ok((std::fs::metadata(path)?.mode(), std::fs::read_to_string(path)?));
    let unusable = |reason| Err(SecretFileError::Unusable { path: path.to_owned(), reason });
    match read() {
        Ok((mode, _)) if mode & 0o007 != 0 => unusable("can be read by every user: chmod o-rwx"),
        Ok((_, text)) if text.trim().is_empty() => unusable("is empty"),
        Ok((_, text)) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
        Err(source) => Err(SecretFileError::Unreadable { path: path.to_owned(), source }),
    }
}
