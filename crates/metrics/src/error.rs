//! Errors in reading reports.

use std::io;
use std::path::PathBuf;

/// Problem that prevented reading reports from one source. Other sources are still read.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    /// The metric file exceeds the size limit; only its end was read.
    #[error("{} has {size_bytes} bytes, of which only the last {read_bytes} are read", path.display())]
    TooLarge {
        path: PathBuf,
        /// Size when the problem was found.
        size_bytes: u64,
        /// Number of bytes read from the end.
        read_bytes: u64,
    },
    /// The log exceeds any trainer's output; only its beginning is read.
    #[error("{} has more than {read_bytes} bytes; the others are not read", path.display())]
    TooLong {
        path: PathBuf,
        /// Number of bytes read from the beginning.
        read_bytes: u64,
    },
    #[error("{} contains lines that are not hypertune reports, such as {excerpt:?}", path.display())]
    ForeignLine {
        path: PathBuf,
        /// Beginning of the first such line.
        excerpt: String,
    },
    #[error("{} is corrupt at byte {offset}: {reason}; the rest of the file is not read", path.display())]
    CorruptRecord { path: PathBuf, offset: u64, reason: &'static str },
    #[error("{} has a record that is not a TensorFlow event at byte {offset}: {reason}", path.display())]
    MalformedEvent { path: PathBuf, offset: u64, reason: &'static str },
    #[error("{} contains more than {limit} {what}; the others are not watched", path.display())]
    TooMany { path: PathBuf, what: &'static str, limit: usize },
    #[error("{} has a line of more than {limit} bytes at byte {offset}, which is not read", path.display())]
    LongLine {
        path: PathBuf,
        offset: u64,
        /// Maximum line length in bytes.
        limit: usize,
    },
    #[error("the line {excerpt:?} on standard output is not a report of {tag:?}: {cure}")]
    UnreadLine {
        tag: String,
        /// The line, possibly shortened.
        excerpt: String,
        cure: &'static str,
    },
    #[error(
        "lines of standard output with {} are not reports of {tag:?}; to tune by one of them, make it the metric's tag",
        quoted(names)
    )]
    LongerNames {
        tag: String,
        /// At least two of the other names.
        names: Vec<String>,
    },
    #[error(
        "standard output has reports with step={step}, which is not a whole number of at least 0; such reports are counted \
         instead"
    )]
    BadStep {
        /// Step in the first such line.
        step: String,
    },
    #[error(
        "{} has no event files, but {} is outside of the trials' folders: write below the folder that --job-dir names",
        trial.display(), path.display()
    )]
    EventsElsewhere { path: PathBuf, trial: PathBuf },
    #[error("event files have {tag:?} in {}, and tunesmith.metricFolder is {only:?}", quoted(folders))]
    OtherFolders { tag: String, only: String, folders: Vec<String> },
    /// The metric is a key of an object printed over several lines. Such objects are ignored, as they are usually
    /// configurations.
    #[error(
        "{} has {tag:?} at byte {offset} in an object that is printed over several lines, which is not read; a report is \
         printed on one line",
        path.display()
    )]
    PrintedObject { path: PathBuf, tag: String, offset: u64 },
    #[error("{} was truncated or replaced while it was read", path.display())]
    Restarted { path: PathBuf },
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(" or ")
}
