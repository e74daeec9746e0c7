//! The reports of the programs of an attempt, in the form in which a caller of an executor gets them.
//!
//! An engine whose programs write files that this process can read returns [`FileReports`]. Where an agent beside the
//! program sends the measurements to the server, they arrive there without the executor, and the executor returns
//! [`SentReports`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event_copies::EventCopies;
use tunesmith_domain::{Measurement, Source};
use tunesmith_files::{FileUser, Place};
use tunesmith_metrics::{Collector, CollectorConfig, EventFolder};

/// Marks of standard output are byte offsets. The attempt is stored above this number of bits.
const ATTEMPT_SHIFT: u32 = 48;

/// The folder of an attempt for copies of event files in an object store.
const EVENT_COPIES: &str = "events";

/// Which reports of a program are read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReportSources {
    /// The first metric's tag.
    pub tag: String,
    /// The tags of the other metrics. Absent in specifications of versions with one metric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_tags: Vec<String>,
    /// Whether lines of standard output are reports.
    pub stdout: bool,
    /// The only folder of event files whose metrics count, as the end of its path; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric_folder: Option<String>,
    /// The folder with event files, at any depth; `None` if there is none that programs write as files.
    pub event_dir: Option<PathBuf>,
    /// Whether no component of the path of that folder may be a link.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub event_dir_without_links: bool,
    /// The user whose rights apply to event files, where the server reads them; `None` for those of this process.
    #[serde(skip)]
    pub event_user: Option<Arc<FileUser>>,
    /// The address of the folder with event files in an object store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_url: Option<String>,
}

impl ReportSources {
    /// The place of the folder with event files.
    fn event_folder(&self) -> Option<EventFolder> {
        let place = |folder: &Path| {
            let place =
                if self.event_dir_without_links { Place::without_links(folder) } else { folder.to_owned().into() };
            place.with_rights_of(self.event_user.clone())
        };
        let folder = self.event_dir.as_deref()?;
        let (only, job) = (self.metric_folder.clone(), folder.parent().map(place));
        Some(EventFolder { only, job, ..place(folder).into() })
    }
}

/// The reports of one attempt. Calls block.
pub trait Reports: Send {
    /// Returns measurements that were not returned before; about 65,536 at most. If the result is not empty there may be more.
    fn poll(&mut self) -> Vec<Measurement>;

    /// Returns all remaining measurements after the program has ended. May be called again.
    fn finish(&mut self) -> Vec<Measurement>;

    /// The names of all metrics that were seen, whether or not they are wanted.
    fn seen_tags(&self) -> BTreeSet<String>;

    /// The errors of reading, each once, in the order of occurrence.
    fn problems(&self) -> Vec<String>;
}

/// Reports in files: the file of `hypertune`, event files and standard output.
#[derive(Debug)]
pub struct FileReports {
    collector: Collector,
    copies: Option<EventCopies>,
    attempt: u64,
}

impl FileReports {
    /// The reports of the attempt number `attempt`, whose files are in `directory`. `known` are the stored measurements of
    /// the trial, which are not returned again; `adopted` states whether some of them are of this attempt. Does no IO.
    pub fn new(
        sources: &ReportSources,
        directory: &Path,
        attempt: u64,
        adopted: bool,
        mut known: Vec<Measurement>,
    ) -> Self {
        known.retain_mut(|measurement| match measurement.source {
            Source::EventFile => true,
            Source::MetricFile => adopted,
            Source::StandardOutput => {
                let ours = measurement.mark >> ATTEMPT_SHIFT == attempt;
                measurement.mark &= (1 << ATTEMPT_SHIFT) - 1;
                ours
            }
            Source::Http => false,
        });
        let copies = sources.event_url.as_ref().map(|url| EventCopies::new(url, directory.join(EVENT_COPIES)));
        let copied = copies.as_ref().map(|_| attempt_place(directory).join(EVENT_COPIES));
        let event_dir = sources.event_folder().or_else(|| {
            let only = sources.metric_folder.clone();
            Some(EventFolder { has_escaped_names: true, only, ..copied?.into() })
        });
        let config = CollectorConfig {
            tags: std::iter::once(&sources.tag).chain(&sources.further_tags).cloned().collect(),
            metric_file: Place::new(directory, "metrics").join("output.metrics"),
            event_dir,
            stdout: sources.stdout.then(|| attempt_place(directory).join("stdout.log")),
        };
        Self { collector: Collector::new(config, &known), copies, attempt }
    }

    fn marked(&self, mut measurements: Vec<Measurement>) -> Vec<Measurement> {
        for measurement in &mut measurements {
            if measurement.source == Source::StandardOutput {
                measurement.mark |= self.attempt << ATTEMPT_SHIFT;
            }
        }
        measurements
    }
}

impl Reports for FileReports {
    fn poll(&mut self) -> Vec<Measurement> {
        self.copies.iter_mut().for_each(|copies| copies.update(false));
        let measurements = self.collector.poll();
        self.marked(measurements)
    }

    fn finish(&mut self) -> Vec<Measurement> {
        self.copies.iter_mut().for_each(|copies| copies.update(true));
        let measurements = self.collector.finish();
        self.marked(measurements)
    }

    fn seen_tags(&self) -> BTreeSet<String> {
        self.collector.seen_tags().clone()
    }

    fn problems(&self) -> Vec<String> {
        let copies = self.copies.iter().flat_map(|copies| copies.problems().iter().cloned());
        self.collector.problems().iter().map(ToString::to_string).chain(copies).collect()
    }
}

/// Reports that an agent sends to the server: none are left to read.
#[derive(Debug, Clone, Default)]
pub struct SentReports {
    /// The names of the metrics that the agent has seen.
    pub seen_tags: BTreeSet<String>,
    /// What the agent could not read.
    pub problems: Vec<String>,
}

impl Reports for SentReports {
    fn poll(&mut self) -> Vec<Measurement> {
        Vec::new()
    }

    fn finish(&mut self) -> Vec<Measurement> {
        Vec::new()
    }

    fn seen_tags(&self) -> BTreeSet<String> {
        self.seen_tags.clone()
    }

    fn problems(&self) -> Vec<String> {
        self.problems.clone()
    }
}

/// The file in the folder `directory` of an attempt that `hypertune` writes.
pub fn metric_file(directory: &Path) -> PathBuf {
    directory.join("metrics").join("output.metrics")
}

/// Returns the place of the folder of an attempt below its job: trial and attempt must not be links.
pub(crate) fn attempt_place(directory: &Path) -> Place {
    match (directory.parent().and_then(Path::parent), directory.parent(), directory.file_name()) {
        (Some(trials), Some(trial), Some(attempt)) => {
            Place::new(trials, trial.file_name().unwrap_or_default()).join(attempt)
        }
        _ => Place::from(directory.to_owned()),
    }
}
