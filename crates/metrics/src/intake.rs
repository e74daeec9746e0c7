//! The state that all readers add to: new measurements, tags, problems.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tracing::warn;

use super::CollectError;
use super::report_line::{self, LineReport};
use tunesmith_domain::{Measurement, MetricValue, Source};

/// Maximum number of recorded tags. A guess.
pub const MAX_SEEN_TAGS: usize = 1_000;

/// Maximum length of a recorded tag in bytes. A guess.
pub const MAX_SEEN_TAG_BYTES: usize = 256;

/// Maximum number of recorded problems. A guess; a trial rarely has one.
const MAX_PROBLEMS: usize = 64;

/// Collects the findings of the readers and removes duplicates.
#[derive(Debug)]
pub(super) struct Intake {
    tag: String,
    /// (step, mark) of every known measurement, by source.
    known: BTreeMap<Source, HashSet<(i64, u64)>>,
    batch: Vec<Measurement>,
    limit: usize,
    seen_tags: BTreeSet<String>,
    problems: Vec<CollectError>,
}

/// A report of the metric, as read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Report {
    /// Training step; negative values are replaced by 0 (no step).
    pub step: i64,
    /// Seconds since 1970; values that are not finite are replaced by 0 (no time).
    pub wall_time_secs: f64,
    /// See [`Measurement::mark`].
    pub mark: u64,
    /// The value, finite or not.
    pub value: f64,
}

impl Intake {
    pub(super) fn new(tag: String, known: &[Measurement]) -> Self {
        let mut intake = Self {
            tag,
            known: BTreeMap::new(),
            batch: Vec::new(),
            limit: 0,
            seen_tags: BTreeSet::new(),
            problems: Vec::new(),
        };
        for measurement in known {
            intake.known.entry(measurement.source).or_default().insert((measurement.step, measurement.mark));
        }
        intake
    }

    pub(super) fn tag(&self) -> &str {
        &self.tag
    }

    pub(super) fn begin_batch(&mut self, limit: usize) {
        self.batch.clear();
        self.limit = limit;
    }

    /// Whether the batch has reached its limit. Readers then stop and continue from the same place at the next poll.
    pub(super) fn is_full(&self) -> bool {
        self.batch.len() >= self.limit
    }

    pub(super) fn take_batch(&mut self) -> Vec<Measurement> {
        std::mem::take(&mut self.batch)
    }

    /// Adds `report` unless it is known.
    pub(super) fn add(&mut self, source: Source, report: Report) {
        let step = report.step.max(0);
        if self.known.entry(source).or_default().insert((step, report.mark)) {
            self.batch.push(Measurement {
                step,
                wall_time_secs: if report.wall_time_secs.is_finite() { report.wall_time_secs } else { 0.0 },
                elapsed_secs: None,
                source,
                mark: report.mark,
                metrics: vec![MetricValue { metric: self.tag.clone(), value: report.value }],
            });
        }
    }

    /// Parses a line of output and records its tags.
    pub(super) fn read_line(&mut self, line: &[u8]) -> Option<LineReport> {
        let Self { tag, seen_tags, .. } = self;
        report_line::parse(line, tag, |name| note_tag(seen_tags, name))
    }

    /// Records `tag`, within the limits.
    pub(super) fn note_tag(&mut self, tag: &str) {
        note_tag(&mut self.seen_tags, tag);
    }

    /// Records and logs `problem` on its first occurrence.
    pub(super) fn note_problem(&mut self, problem: CollectError) {
        if self.problems.len() >= MAX_PROBLEMS {
            return;
        }
        let message = problem.to_string();
        if !self.problems.iter().any(|other| other.to_string() == message) {
            warn!(metric.tag = self.tag, "{message}");
            self.problems.push(problem);
        }
    }

    pub(super) fn seen_tags(&self) -> &BTreeSet<String> {
        &self.seen_tags
    }

    pub(super) fn problems(&self) -> &[CollectError] {
        &self.problems
    }
}

fn note_tag(seen_tags: &mut BTreeSet<String>, tag: &str) {
    if tag.len() <= MAX_SEEN_TAG_BYTES && seen_tags.len() < MAX_SEEN_TAGS && !seen_tags.contains(tag) {
        seen_tags.insert(tag.to_owned());
    }
}
