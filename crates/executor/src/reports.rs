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
use tunesmith_domain::Measurement;
use tunesmith_files::{FileUser, RootedPath};
use tunesmith_metrics::{Collector, CollectorConfig, EventFolder};

/// The folder of an attempt for copies of event files in an object store.
const EVENT_COPIES: &str = "events";

/// Which reports of a program are read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReportSources {
    /// The first metric's tag.
    pub tag: String,
    /// The tags of the other metrics.
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
    /// The folders of this machine that are not searched for event files, by device and inode.
    #[serde(skip)]
    pub event_closed: Arc<[(u64, u64)]>,
    /// The address of the folder with event files in an object store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_url: Option<String>,
}

impl ReportSources {
    /// The place of the folder with event files.
    fn event_folder(&self) -> Option<EventFolder> {
        let place = |folder: &Path| {
            let place =
                if self.event_dir_without_links { RootedPath::without_links(folder) } else { folder.to_owned().into() };
            place.with_rights_of(self.event_user.clone()).outside_of(Arc::clone(&self.event_closed))
        };
        let folder = self.event_dir.as_deref()?;
        let (only, job) = (self.metric_folder.clone(), folder.parent().map(place));
        Some(EventFolder { only, job, ..place(folder).into() })
    }
}

/// The reports of one attempt. Calls block.
pub trait Reports: Send {
    /// Whether [`Self::poll`] reads files; false where all measurements reach the service in another way.
    fn has_files(&self) -> bool {
        true
    }

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
}

impl FileReports {
    /// The reports of the attempt number `attempt`, whose files are in `directory`. `known` are the stored measurements of
    /// the trial, which are not returned again. Does no IO.
    pub fn new(sources: &ReportSources, directory: &Path, attempt: u64, known: &[Measurement]) -> Self {
        let copies = sources.event_url.as_ref().map(|url| EventCopies::new(url, directory.join(EVENT_COPIES)));
        let copied = copies.as_ref().map(|_| attempt_place(directory).join(EVENT_COPIES));
        let event_dir = sources.event_folder().or_else(|| {
            let only = sources.metric_folder.clone();
            Some(EventFolder { has_escaped_names: true, only, ..copied?.into() })
        });
        let config = CollectorConfig {
            attempt,
            tags: std::iter::once(&sources.tag).chain(&sources.further_tags).cloned().collect(),
            metric_file: RootedPath::new(directory, "metrics").join("output.metrics"),
            event_dir,
            stdout: sources.stdout.then(|| attempt_place(directory).join("stdout.log")),
        };
        Self { collector: Collector::new(config, known), copies }
    }
}

impl Reports for FileReports {
    fn poll(&mut self) -> Vec<Measurement> {
        self.copies.iter_mut().for_each(|copies| copies.update(false));
        self.collector.poll()
    }

    fn finish(&mut self) -> Vec<Measurement> {
        self.copies.iter_mut().for_each(|copies| copies.update(true));
        self.collector.finish()
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
pub(crate) fn attempt_place(directory: &Path) -> RootedPath {
    match (directory.parent().and_then(Path::parent), directory.parent(), directory.file_name()) {
        (Some(trials), Some(trial), Some(attempt)) => {
            RootedPath::new(trials, trial.file_name().unwrap_or_default()).join(attempt)
        }
        _ => RootedPath::from(directory.to_owned()),
    }
}
