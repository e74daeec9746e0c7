//! Files of an inbox.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::log_space::shorten;
use crate::remote::messages::LogPiece;
use tunesmith_files::RootedPath;

/// Maximum file size in bytes; a specification contains the training input.
const MAX_FILE_BYTES: u64 = 64 << 20;

pub(super) fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> io::Result<Option<T>> {
    match RootedPath::new(folder, name).read(MAX_FILE_BYTES) {
        // Files are created by rename, so only a power failure damages them.
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn write<T: Serialize>(folder: &Path, name: &str, value: &T, durable: bool) -> io::Result<()> {
    Ok(RootedPath::new(folder, name).replace(&serde_json::to_vec(value)?, durable)?)
}

/// Maximum length of a log, including holes; a guess, four times the limit for reading standard output.
pub(super) const MAX_LOG_BYTES: u64 = 16 << 30;

/// Result of receiving a part of a log.
pub(super) enum Appended {
    /// New size of the log.
    Size(u64),
    /// Dropped, because it lies beyond the maximum length. The log nominally continues at `offset`, so that the agent
    /// proceeds.
    TooLong { offset: u64 },
}

/// Writes the bytes of `piece` missing in the log, and keeps the log within `quota_bytes`. Bytes removed on the node
/// become a hole.
pub(super) fn append(log: &RootedPath, piece: &LogPiece, quota_bytes: Option<u64>) -> io::Result<Appended> {
    let offset = piece.position.offset;
    let end = offset.saturating_add(piece.bytes.len() as u64);
    if end > MAX_LOG_BYTES {
        return Ok(Appended::TooLong { offset: end });
    }
    let mut file = log.append()?;
    let mut size = file.metadata()?.len();
    if size < offset && size >= offset.saturating_sub(piece.removed) {
        file.set_len(offset)?;
        size = offset;
    }
    let known = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
    let Some(new) = piece.bytes.get(known..).filter(|new| offset <= size && !new.is_empty()) else {
        return Ok(Appended::Size(size));
    };
    file.write_all(new)?;
    if let Some(quota_bytes) = quota_bytes
        && let Err(error) = shorten(&file, quota_bytes)
    {
        // As on a single machine, the log stays complete if the file system cannot free space.
        tracing::warn!(%error, "a log that an agent has sent cannot be kept within its quota");
    }
    Ok(Appended::Size(size + new.len() as u64))
}
