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

/// Number of measurements at which [`Collector::poll`] stops, which bounds its memory. The lines of one metric file may
/// exceed it. A guess: about 10 MB.
pub const MAX_MEASUREMENTS_PER_POLL: usize = 65_536;

/// The places where one trial's reports are expected. They need not exist yet. Links below their folders are not
/// followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectorConfig {
    /// The attempt of the trial.
    pub attempt: u64,
    /// The tags of the metrics, at least one. Event files may also contain them as cleaned by tensorboardX (`x y` becomes
    /// `x_y`).
    pub tags: Vec<String>,
    /// The file in `CLOUD_ML_HP_METRIC_FILE`; one per attempt.
    pub metric_file: RootedPath,
    /// The trial's job-dir, if its files are in a local folder: searched for event files at any depth.
    pub event_dir: Option<EventFolder>,
    /// The log of the attempt's standard output, if its lines are to be read.
    pub stdout: Option<RootedPath>,
}

/// A folder with event files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFolder {
    pub place: RootedPath,
    /// Whether the files are copies, in whose names `%2F` stands for the slashes of their paths and `%25` for the percent sign.
    /// Folders whose names end with `%+` contain the rest of a long name.
    pub has_escaped_names: bool,
    /// The only folder whose metrics count, as the end of its path; `.` for the folder itself. `None` for all.
    pub only: Option<String>,
    /// The folder of the job, in which event files outside of the trials' folders are mentioned if the trial has none.
    pub job: Option<RootedPath>,
}

impl<P: Into<RootedPath>> From<P> for EventFolder {
    fn from(place: P) -> Self {
        Self { place: place.into(), has_escaped_names: false, only: None, job: None }
    }
}

/// Follows the reports of one trial.
///
/// No measurement is returned twice, by the rule of [`KnownReports`](tunesmith_domain::KnownReports).
#[derive(Debug)]
pub struct Collector {
    metric_file: MetricFile,
    event_files: Option<EventFiles>,
    stdout: Option<StandardOutput>,
    intake: Intake,
}

impl Collector {
    /// A collector that has not read anything. `known` are the stored measurements of the trial, which are not returned
    /// again, so that a restarted server continues where it stopped. Does no IO.
    pub fn new(config: CollectorConfig, known: &[Measurement]) -> Self {
        Self {
            metric_file: MetricFile::new(config.metric_file, config.attempt),
            event_files: config.event_dir.map(|folder| EventFiles::new(folder, &config.tags)),
            stdout: config.stdout.map(|place| StandardOutput::new(place, config.attempt)),
            intake: Intake::new(config.tags, known),
        }
    }

    /// Returns new measurements with at least one of the tags, file by file in the order in which they were written; about
    /// [`MAX_MEASUREMENTS_PER_POLL`] at most. If the result is not empty there may be more, and the next call continues
    /// from there. If nothing has changed, the cost is one `stat` per watched file and folder.
    ///
    /// A source that cannot be read is added to [`Self::problems`] and tried again at the next call.
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

    /// Returns all remaining measurements after the program has ended. Reads every file again regardless of its time
    /// stamp, and accepts a last line without line end. The result is not bounded; to keep it small, call
    /// [`Self::poll`] first until it returns nothing. May be called again.
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

    /// Every tag that was seen with a number as its value, including the configured ones, as the trainer wrote it. Used
    /// in the error message of a trial without reports. The first [`MAX_SEEN_TAGS`] of at most [`MAX_SEEN_TAG_BYTES`].
    pub fn seen_tags(&self) -> &BTreeSet<String> {
        self.intake.seen_tags()
    }

    /// The errors of reading, each once, in the order of occurrence; also logged as warnings. The first 64.
    pub fn problems(&self) -> &[CollectError] {
        self.intake.problems()
    }
}
