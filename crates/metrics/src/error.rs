//! What can stand in the way of reading reports.

use std::io;
use std::path::PathBuf;

/// Something that kept reports from being read. Reading went on elsewhere.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The system refused; the path is tried again at each poll, so mending it is enough.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder, pipe or device stands where a file is expected.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// Its path.
        path: PathBuf,
    },
    /// The metric file is larger than its format allows; only its end was read.
    #[error("{} has {size_bytes} bytes, of which only the last {read_bytes} are read", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size when this was noticed.
        size_bytes: u64,
        /// How much of its end is read.
        read_bytes: u64,
    },
    /// A whole line of the metric file is not a JSON object as `hypertune` writes it; such lines are ignored.
    #[error("{} has lines that are no hypertune reports, such as {excerpt:?}", path.display())]
    ForeignLine {
        /// The file.
        path: PathBuf,
        /// How the first such line begins.
        excerpt: String,
    },
    /// A record of an event file is damaged; what follows it cannot be found and is not read.
    #[error("{} is corrupt at byte {offset}: {reason}; the rest of the file is not read", path.display())]
    CorruptRecord {
        /// The event file.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A record of an event file is whole but no event; it is ignored, and others like it in the file.
    #[error("{} has a record that is no TensorFlow event at byte {offset}: {reason}", path.display())]
    MalformedEvent {
        /// The event file.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There are more folders or event files than are watched.
    #[error("{} holds more than {limit} {what}; the others are not watched", path.display())]
    TooMany {
        /// The folder that is searched.
        path: PathBuf,
        /// `folders` or `event files`.
        what: &'static str,
        /// How many are watched.
        limit: usize,
    },
    /// A line of standard output is too long to be a report; such lines are ignored.
    #[error("{} has a line of more than {limit} bytes at byte {offset}, which is not read", path.display())]
    LongLine {
        /// The file.
        path: PathBuf,
        /// Where the line begins.
        offset: u64,
        /// The longest line that is read, in bytes.
        limit: usize,
    },
    /// The file became shorter or was replaced while it was read; it is read again from its beginning.
    #[error("{} was truncated or replaced while it was read", path.display())]
    Restarted {
        /// The file.
        path: PathBuf,
    },
}
