//! Reads what a running trainer reports under the metric's tag into [`Measurement`]s.
//!
//! Three sources are watched: the file of the `hypertune` package, TensorFlow event files below the trial's job-dir,
//! and standard output. What a trainer writes is untrusted: half lines, foreign formats, binary garbage and lengths out
//! of all proportion are expected, cost no more than a note in [`Collector::problems`], and never hide what the other
//! sources say.
//!
//! Not here: reports over HTTP, when to poll, what becomes of a trial without a usable value. All file IO **blocks**:
//! asynchronous callers wrap each call in `spawn_blocking`.

mod error;
mod event_files;
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
use std::path::PathBuf;

pub use error::CollectError;
pub use intake::{MAX_SEEN_TAG_BYTES, MAX_SEEN_TAGS};

use self::event_files::EventFiles;
use self::hypertune::MetricFile;
use self::intake::Intake;
use self::stdout::StandardOutput;
use tunesmith_domain::Measurement;

/// How many measurements end a [`Collector::poll`], so that its memory is bounded; a metric file of somebody's own
/// making may pass it once. A guess: some 10 MB.
pub const MAX_MEASUREMENTS_PER_POLL: usize = 65_536;

/// Where one trial's reports are expected. Paths need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectorConfig {
    /// The metric's tag; event files may also bear it as tensorboardX cleans it (`x y` becomes `x_y`).
    pub tag: String,
    /// The file that `CLOUD_ML_HP_METRIC_FILE` names; one per trial.
    pub metric_file: PathBuf,
    /// The trial's job-dir, if it is a local folder: searched for event files at any depth.
    pub event_dir: Option<PathBuf>,
    /// The log that holds the trial's standard output, if its lines are to be read. Every attempt of the trial must
    /// append to it, since a report is known by its place in the file.
    pub stdout: Option<PathBuf>,
}

/// Follows the reports of one trial.
///
/// No measurement is returned twice, by the identity of source, step and mark that [`Measurement`] documents; those of
/// sources that the collector does not read are ignored.
#[derive(Debug)]
pub struct Collector {
    metric_file: MetricFile,
    event_files: Option<EventFiles>,
    stdout: Option<StandardOutput>,
    intake: Intake,
}

impl Collector {
    /// A collector that has read nothing yet. `known` are the measurements already stored: none of them is returned
    /// again, so that a restarted server goes on where it was. Costs 16 bytes of memory for each. Touches no file.
    pub fn new(config: CollectorConfig, known: &[Measurement]) -> Self {
        Self {
            metric_file: MetricFile::new(config.metric_file),
            event_files: config.event_dir.map(|folder| EventFiles::new(folder, &config.tag)),
            stdout: config.stdout.map(StandardOutput::new),
            intake: Intake::new(config.tag, known),
        }
    }

    /// The measurements that bear the tag and were not returned before: about [`MAX_MEASUREMENTS_PER_POLL`] at most, file by
    /// file in the order they were written. An empty answer means that everything there is was read; after any other
    /// answer there may be more, and the next call goes on from there. Without news it costs a `stat` per watched file
    /// and folder.
    ///
    /// A source that cannot be read is noted in [`Self::problems`] and tried again at the next call.
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

    /// All measurements not returned before, for when the program has ended: looks at every file again whatever its
    /// time stamp says, and takes a last line that was never ended. The answer is not bounded; call [`Self::poll`]
    /// until it has no more to keep it small. May be called again.
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

    /// Every tag seen with a number as its value, the configured one included, as the trainer wrote it: what to name
    /// when the trial ends without a report. The first [`MAX_SEEN_TAGS`] of at most [`MAX_SEEN_TAG_BYTES`] each.
    pub fn seen_tags(&self) -> &BTreeSet<String> {
        self.intake.seen_tags()
    }

    /// What stood in the way of reading, each thing once, in the order met; also logged as warnings. The first 64.
    pub fn problems(&self) -> &[CollectError] {
        self.intake.problems()
    }
}
