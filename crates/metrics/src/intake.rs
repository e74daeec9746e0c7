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
    /// The tags that are read, at least one.
    tags: Vec<String>,
    /// Step, mark and index of the first metric of every known measurement, by source.
    known: BTreeMap<Source, HashSet<(i64, u64, u32)>>,
    batch: Vec<Measurement>,
    limit: usize,
    seen_tags: BTreeSet<String>,
    problems: Vec<CollectError>,
}

/// A report of metrics, as read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Report {
    /// Training step; negative values are replaced by 0 (no step).
    pub step: i64,
    /// Seconds since 1970; values that are not finite are replaced by 0 (no time).
    pub wall_time_secs: f64,
    /// See [`Measurement::mark`].
    pub mark: u64,
    /// The values by index of their tags, at least one, finite or not.
    pub values: Vec<(usize, f64)>,
}

impl Intake {
    pub(super) fn new(tags: Vec<String>, known: &[Measurement]) -> Self {
        let mut intake = Self {
            tags,
            known: BTreeMap::new(),
            batch: Vec::new(),
            limit: 0,
            seen_tags: BTreeSet::new(),
            problems: Vec::new(),
        };
        for measurement in known {
            let first = measurement.metrics.first().and_then(|metric| intake.index_of(&metric.metric));
            let identity = (measurement.step, measurement.mark, first.map_or(u32::MAX, |index| index as u32));
            intake.known.entry(measurement.source).or_default().insert(identity);
        }
        intake
    }

    pub(super) fn tags(&self) -> &[String] {
        &self.tags
    }

    /// The place of `tag` among those that are read.
    pub(super) fn index_of(&self, tag: &str) -> Option<usize> {
        self.tags.iter().position(|known| known == tag)
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
        let first = report.values.first().map_or(u32::MAX, |(index, _)| *index as u32);
        if self.known.entry(source).or_default().insert((step, report.mark, first)) {
            let value = |&(index, value): &(usize, f64)| MetricValue { metric: self.tags[index].clone(), value };
            self.batch.push(Measurement {
                step,
                wall_time_secs: if report.wall_time_secs.is_finite() { report.wall_time_secs } else { 0.0 },
                elapsed_secs: None,
                source,
                mark: report.mark,
                metrics: report.values.iter().map(value).collect(),
            });
        }
    }

    /// Parses a line of output and records its tags. Returns the reports by index of their tags.
    pub(super) fn read_line(&mut self, line: &[u8]) -> Vec<(usize, LineReport)> {
        let Self { tags, seen_tags, .. } = self;
        let parse = |(index, tag): (usize, &String)| {
            let report = report_line::parse(line, tag, |name| note_tag(seen_tags, name))?;
            Some((index, report))
        };
        tags.iter().enumerate().filter_map(parse).collect()
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
            warn!(metric.tags = ?self.tags, "{message}");
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
