//! Errors of reading reports.

use std::io;
use std::path::PathBuf;

/// A problem that prevented the reading of reports from one source. Other sources are read.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// An IO error. The path is tried again at each poll.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The path of a file is a folder, link, pipe or device, or leads through a link.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The metric file is larger than its format allows; only its end was read.
    #[error("{} has {size_bytes} bytes, of which only the last {read_bytes} are read", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size when the problem was found.
        size_bytes: u64,
        /// The number of bytes that are read from its end.
        read_bytes: u64,
    },
    /// The log is longer than any trainer's output; only its beginning is read.
    #[error("{} has more than {read_bytes} bytes; the others are not read", path.display())]
    TooLong {
        /// The log.
        path: PathBuf,
        /// The number of bytes that are read from its beginning.
        read_bytes: u64,
    },
    /// A complete line of the metric file is not a JSON object in the format of `hypertune`. Such lines are ignored.
    #[error("{} contains lines that are not hypertune reports, such as {excerpt:?}", path.display())]
    ForeignLine {
        /// The file.
        path: PathBuf,
        /// The beginning of the first such line.
        excerpt: String,
    },
    /// A record of an event file is damaged. Later records of the file cannot be found and are not read.
    #[error("{} is corrupt at byte {offset}: {reason}; the rest of the file is not read", path.display())]
    CorruptRecord {
        /// The event file.
        path: PathBuf,
        /// Offset of the record in bytes.
        offset: u64,
        /// The violated rule of the format.
        reason: &'static str,
    },
    /// A record of an event file is intact but not an event. Such records are ignored.
    #[error("{} has a record that is not a TensorFlow event at byte {offset}: {reason}", path.display())]
    MalformedEvent {
        /// The event file.
        path: PathBuf,
        /// Offset of the record in bytes.
        offset: u64,
        /// The violated rule of the format.
        reason: &'static str,
    },
    /// The number of folders or event files exceeds the limit.
    #[error("{} contains more than {limit} {what}; the others are not watched", path.display())]
    TooMany {
        /// The folder that is searched.
        path: PathBuf,
        /// `folders` or `event files`.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A line of standard output is too long to be a report. Such lines are ignored.
    #[error("{} has a line of more than {limit} bytes at byte {offset}, which is not read", path.display())]
    LongLine {
        /// The file.
        path: PathBuf,
        /// Offset of the line in bytes.
        offset: u64,
        /// Maximum length of a line in bytes.
        limit: usize,
    },
    /// No line of standard output could be read as a report of a metric, although one contains its name.
    #[error("the line {excerpt:?} on standard output is not a report of {tag:?}: {cure}")]
    UnreadLine {
        /// The name of the metric.
        tag: String,
        /// The line, or a part of it.
        excerpt: String,
        /// The cure.
        cure: &'static str,
    },
    /// Lines of standard output have several metrics whose names end with that of the metric.
    #[error(
        "lines of standard output with {} are not reports of {tag:?}; to tune by one of them, make it the metric's tag",
        quoted(names)
    )]
    LongerNames {
        /// The name of the metric.
        tag: String,
        /// The first of the other names, at least two.
        names: Vec<String>,
    },
    /// The step of a report is not one. The report gets the next step.
    #[error(
        "standard output has reports with step={step}, which is not a whole number of at least 0; such reports are counted \
         instead"
    )]
    BadStep {
        /// The step in the first such line.
        step: String,
    },
    /// The trial has no event files, and event files are beside the folders of the trials.
    #[error(
        "{} has no event files, but {} is outside of the trials' folders: write below the folder that --job-dir names",
        trial.display(), path.display()
    )]
    EventsElsewhere {
        /// One of them.
        path: PathBuf,
        /// The trial's folder.
        trial: PathBuf,
    },
    /// The metric is only in event files of folders that the configuration excludes.
    #[error("event files have {tag:?} in {}, and tunesmith.metricFolder is {only:?}", quoted(folders))]
    OtherFolders {
        /// The name of the metric.
        tag: String,
        /// The only folder whose metrics count.
        only: String,
        /// The folders that have it.
        folders: Vec<String>,
    },
    /// The metric is a key of an object that is printed over several lines. Such objects are ignored, because they are
    /// usually configurations.
    #[error(
        "{} has {tag:?} at byte {offset} in an object that is printed over several lines, which is not read; a report is \
         printed on one line",
        path.display()
    )]
    PrintedObject {
        /// The file.
        path: PathBuf,
        /// The name of the metric.
        tag: String,
        /// Offset of the line in bytes.
        offset: u64,
    },
    /// The file was truncated or replaced while it was read. It is read again from its beginning.
    #[error("{} was truncated or replaced while it was read", path.display())]
    Restarted {
        /// The file.
        path: PathBuf,
    },
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(" or ")
}
