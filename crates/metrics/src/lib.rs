#![doc = include_str!("../README.md")]

mod error;
mod event_files;
mod event_folder;
mod event_proto;
mod event_tree;
mod files;
mod hypertune;
mod intake;
mod protobuf;
mod report_line;
mod stdout;
#[cfg(test)]
mod tests;
mod tfrecord;

use std::collections::BTreeSet;

pub use error::CollectError;
pub use intake::{MAX_SEEN_TAG_BYTES, MAX_SEEN_TAGS};

use self::event_files::EventFiles;
use self::hypertune::MetricFile;
use self::intake::Intake;
use self::stdout::StandardOutput;
use tunesmith_domain::Measurement;
use tunesmith_files::RootedPath;

/// Number of measurements that ends a [`Collector::poll`], to bound its memory. The lines of one metric file may exceed
/// it. A guess: about 10 MB.
pub const MAX_MEASUREMENTS_PER_POLL: usize = 65_536;

/// Sources of one trial's reports. They need not exist yet. Links below their folders are not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectorConfig {
    pub attempt: u64,
    /// Metric tags, at least one. Event files may contain them as sanitised by tensorboardX (`x y` becomes `x_y`).
    pub tags: Vec<String>,
    /// File named by `CLOUD_ML_HP_METRIC_FILE`; one per attempt.
    pub metric_file: RootedPath,
    /// Trial's job-dir, if local; searched for event files at any depth.
    pub event_dir: Option<EventFolder>,
    /// Log of the attempt's standard output, if its lines are to be read.
    pub stdout: Option<RootedPath>,
}

/// Folder with event files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFolder {
    pub place: RootedPath,
    /// Whether the files are copies whose names escape slashes as `%2F` and percent signs as `%25`. Folders with the
    /// suffix `%+` contain the rest of a long name.
    pub has_escaped_names: bool,
    /// Path suffix of the only folder whose metrics count; `.` for the folder itself, `None` for all folders.
    pub only: Option<String>,
    /// Folder of the job. If the trial has no event files, those outside the trials' folders are reported.
    pub job: Option<RootedPath>,
}

impl<P: Into<RootedPath>> From<P> for EventFolder {
    fn from(place: P) -> Self {
        Self { place: place.into(), has_escaped_names: false, only: None, job: None }
    }
}

/// Incremental reader of the reports of one trial.
///
/// Measurements are returned once, as defined by [`KnownReports`](tunesmith_domain::KnownReports).
#[derive(Debug)]
pub struct Collector {
    metric_file: MetricFile,
    event_files: Option<EventFiles>,
    stdout: Option<StandardOutput>,
    intake: Intake,
}

impl Collector {
    /// Creates a collector without IO. `known` are the trial's stored measurements, which are not returned again, so
    /// that a restarted server resumes where it stopped.
    pub fn new(config: CollectorConfig, known: &[Measurement]) -> Self {
        Self {
            metric_file: MetricFile::new(config.metric_file, config.attempt),
            event_files: config.event_dir.map(|folder| EventFiles::new(folder, &config.tags)),
            stdout: config.stdout.map(|place| StandardOutput::new(place, config.attempt)),
            intake: Intake::new(config.tags, known),
        }
    }

    /// Returns new measurements with at least one of the tags, file by file and in the order of writing, about
    /// [`MAX_MEASUREMENTS_PER_POLL`] at most. After a non-empty result, call again for more. Without changes, a poll
    /// costs one `stat` per watched file and folder.
    ///
    /// An unreadable source is added to [`Self::problems`] and retried by the next call.
    pub fn poll(&mut self) -> Vec<Measurement> {
        self.intake.begin_batch(MAX_MEASUREMENTS_PER_POLL);
        self.metric_file.read(&mut self.intake);
        if let Some(event_files) = &mut self.event_files {
            event_files.read(&mut self.intake);
        }
        if let Some(stdout) = &mut self.stdout {
            stdout.read(&mut self.intake);
        }
        self.intake.take_batch()
    }

    /// Returns all remaining measurements after the program has ended. Rereads every file regardless of its time stamp,
    /// and accepts an unterminated last line. The result is unbounded; to keep it small, call [`Self::poll`] first
    /// until it returns nothing. May be called again.
    pub fn finish(&mut self) -> Vec<Measurement> {
        self.intake.begin_batch(usize::MAX);
        self.metric_file.finish(&mut self.intake);
        if let Some(event_files) = &mut self.event_files {
            event_files.finish(&mut self.intake);
        }
        if let Some(stdout) = &mut self.stdout {
            stdout.finish(&mut self.intake);
        }
        self.intake.take_batch()
    }

    /// Every tag seen with a number as its value, as the trainer wrote it, including the configured ones; used in the
    /// error message of a trial without reports. Limited to the first [`MAX_SEEN_TAGS`] of at most
    /// [`MAX_SEEN_TAG_BYTES`].
    pub fn seen_tags(&self) -> &BTreeSet<String> {
        self.intake.seen_tags()
    }

    /// Distinct read errors in order of occurrence, also logged as warnings. Limited to the first 64.
    pub fn problems(&self) -> &[CollectError] {
        self.intake.problems()
    }
}
