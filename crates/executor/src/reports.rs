//! Reports of the programs of an attempt, as returned by executors.
//!
//! Engines whose programs write files readable by this process return [`FileReports`]. With agents, measurements reach
//! the server without the executor, which returns [`SentReports`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event_copies::EventCopies;
use tunesmith_domain::Measurement;
use tunesmith_files::{FileUser, RootedPath};
use tunesmith_metrics::{Collector, CollectorConfig, EventFolder};

/// Folder of an attempt with copies of event files from an object store.
const EVENT_COPIES: &str = "events";

/// Sources of a program's reports.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReportSources {
    /// Tag of the first metric.
    pub tag: String,
    /// Tags of the other metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_tags: Vec<String>,
    /// Whether standard output is a source.
    pub stdout: bool,
    /// Path suffix of the only event file folder whose metrics count; `None` for all folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric_folder: Option<String>,
    /// Folder searched for event files at any depth; `None` if programs write none as files.
    pub event_dir: Option<PathBuf>,
    /// Whether to reject links in the path of that folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub event_dir_without_links: bool,
    /// User whose permissions apply when the server reads event files; `None` for those of this process.
    #[serde(skip)]
    pub event_user: Option<Arc<FileUser>>,
    /// Local folders excluded from the search for event files, by device and inode.
    #[serde(skip)]
    pub event_closed: Arc<[(u64, u64)]>,
    /// Address of the event file folder in an object store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_url: Option<String>,
}

impl ReportSources {
    /// Folder with event files, with its access restrictions.
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

/// Reports of one attempt. Calls block.
pub trait Reports: Send {
    /// Whether [`Self::poll`] reads files; false where all measurements reach the service in another way.
    fn has_files(&self) -> bool {
        true
    }

    /// Returns measurements not returned before; about 65,536 at most. After a non-empty result, there may be more.
    fn poll(&mut self) -> Vec<Measurement>;

    /// Returns all remaining measurements after the program has ended. May be called again.
    fn finish(&mut self) -> Vec<Measurement>;

    /// All metric tags seen, wanted or not.
    fn seen_tags(&self) -> BTreeSet<String>;

    /// Distinct read errors in order of occurrence.
    fn problems(&self) -> Vec<String>;
}

/// Reports in files: the `hypertune` file, event files and standard output.
#[derive(Debug)]
pub struct FileReports {
    collector: Collector,
    copies: Option<EventCopies>,
}

impl FileReports {
    /// Reports of the attempt number `attempt`, with files in `directory`. `known` are the trial's stored measurements,
    /// which are not returned again. Does no IO.
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

/// Reports that an agent sends to the server, with nothing left to read.
#[derive(Debug, Clone, Default)]
pub struct SentReports {
    /// Metric tags seen by the agent.
    pub seen_tags: BTreeSet<String>,
    /// Read errors of the agent.
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

/// `hypertune` metric file in the attempt's folder `directory`.
pub fn metric_file(directory: &Path) -> PathBuf {
    directory.join("metrics").join("output.metrics")
}

/// Attempt's folder below its job; trial and attempt must not be links.
pub(crate) fn attempt_place(directory: &Path) -> RootedPath {
    match (directory.parent().and_then(Path::parent), directory.parent(), directory.file_name()) {
        (Some(trials), Some(trial), Some(attempt)) => {
            RootedPath::new(trials, trial.file_name().unwrap_or_default()).join(attempt)
        }
        _ => RootedPath::from(directory.to_owned()),
    }
}
