//! Shared state of all readers: new measurements, tags, problems.

use std::collections::{BTreeMap, BTreeSet};

use tracing::warn;

use super::CollectError;
use super::report_line::{self, LineReport, Unread};
use tunesmith_domain::{KnownReports, Measurement, MetricValue, ReportKey};

/// Maximum number of recorded tags; a guess.
pub const MAX_SEEN_TAGS: usize = 1_000;

/// Maximum length of a recorded tag in bytes; a guess.
pub const MAX_SEEN_TAG_BYTES: usize = 256;

/// Maximum length of a line excerpt in characters; a guess.
const MAX_EXCERPT_CHARS: usize = 120;

/// Maximum number of recorded problems; a guess, since a trial rarely has one.
const MAX_PROBLEMS: usize = 64;

/// Collects and deduplicates the readers' findings.
#[derive(Debug)]
pub(super) struct Intake {
    /// Wanted tags, at least one.
    tags: Vec<String>,
    known: KnownReports,
    batch: Vec<Measurement>,
    limit: usize,
    seen_tags: BTreeSet<String>,
    /// Indices of tags with a report.
    reported: BTreeSet<usize>,
    /// First unreadable line with each tag, by tag index.
    unread: BTreeMap<usize, (Unread, String)>,
    problems: Vec<CollectError>,
}

/// Report of metrics, as read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Report {
    /// Training step; negative values become 0 (no step).
    pub step: i64,
    /// Seconds since 1970; non-finite values become 0 (no time).
    pub wall_time_secs: f64,
    pub key: ReportKey,
    /// Values by tag index, at least one, finite or not.
    pub values: Vec<(usize, f64)>,
}

impl Intake {
    pub(super) fn new(tags: Vec<String>, known: &[Measurement]) -> Self {
        let mut intake = Self {
            tags,
            known: known.iter().collect(),
            batch: Vec::new(),
            limit: 0,
            seen_tags: BTreeSet::new(),
            reported: BTreeSet::new(),
            unread: BTreeMap::new(),
            problems: Vec::new(),
        };
        let metrics = known.iter().flat_map(|measurement| &measurement.metrics);
        intake.reported = metrics.filter_map(|metric| intake.index_of(&metric.metric)).collect();
        intake
    }

    pub(super) fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Index of `tag` among the wanted tags.
    pub(super) fn index_of(&self, tag: &str) -> Option<usize> {
        self.tags.iter().position(|known| known == tag)
    }

    pub(super) fn begin_batch(&mut self, limit: usize) {
        self.batch.clear();
        self.limit = limit;
    }

    /// Whether the batch is full. Readers then stop, and resume at the next poll.
    pub(super) fn is_full(&self) -> bool {
        self.batch.len() >= self.limit
    }

    pub(super) fn take_batch(&mut self) -> Vec<Measurement> {
        std::mem::take(&mut self.batch)
    }

    /// Adds `report` unless it is known.
    pub(super) fn add(&mut self, report: Report) {
        self.reported.extend(report.values.iter().map(|(index, _)| *index));
        let value = |&(index, value): &(usize, f64)| MetricValue { metric: self.tags[index].clone(), value };
        let measurement = Measurement {
            step: report.step.max(0),
            wall_time_secs: if report.wall_time_secs.is_finite() { report.wall_time_secs } else { 0.0 },
            elapsed_secs: None,
            key: report.key,
            metrics: report.values.iter().map(value).collect(),
        };
        if self.known.insert(&measurement) {
            self.batch.push(measurement);
        }
    }

    /// Parses a line of output and records its tags. Returns the reports by tag index.
    pub(super) fn read_line(&mut self, line: &str) -> Vec<(usize, LineReport)> {
        let Self { tags, seen_tags, unread, .. } = self;
        let seen_before = seen_tags.len();
        let parse = |(index, tag): (usize, &String)| {
            let reading = report_line::parse(line, tag, |name| note_tag(seen_tags, name));
            if let (None, Some(why)) = (&reading.report, reading.unread)
                && unread.get(&index).is_none_or(|(known, _)| *known == Unread::NotNumber && why != Unread::NotNumber)
            {
                unread.insert(index, (why, excerpt(line, tag)));
            }
            Some((index, reading.report?))
        };
        let reports = tags.iter().enumerate().filter_map(parse).collect();
        if self.seen_tags.len() > seen_before {
            self.note_longer_names();
        }
        reports
    }

    /// Records names that end with a tag after another word, once a tag has at least two.
    fn note_longer_names(&mut self) {
        if self.problems.iter().any(|problem| matches!(problem, CollectError::LongerNames { .. })) {
            return;
        }
        let found = self.tags.iter().find_map(|tag| {
            let names =
                self.seen_tags.iter().filter(|name| name.strip_suffix(tag.as_str()).is_some_and(is_before_name));
            let names: Vec<String> = names.filter(|name| !self.tags.contains(name)).take(3).cloned().collect();
            (names.len() > 1).then(|| CollectError::LongerNames { tag: tag.clone(), names })
        });
        found.into_iter().for_each(|problem| self.note_problem(problem));
    }

    /// Records unreadable lines of tags without any report.
    pub(super) fn note_unread_lines(&mut self) {
        for (index, (why, excerpt)) in std::mem::take(&mut self.unread) {
            if !self.is_reported(index) {
                let tag = self.tags[index].clone();
                self.note_problem(CollectError::UnreadLine { tag, excerpt, cure: why.cure() });
            }
        }
    }

    /// Whether any tag has a report.
    pub(super) fn has_reports(&self) -> bool {
        !self.reported.is_empty()
    }

    /// Whether the tag at `index` has a report.
    pub(super) fn is_reported(&self, index: usize) -> bool {
        self.reported.contains(&index)
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

/// Whether `text` before a name consists of words of a longer name.
fn is_before_name(text: &str) -> bool {
    text.ends_with(' ')
}

/// Part of `line` around `tag`.
fn excerpt(line: &str, tag: &str) -> String {
    let line = line.trim();
    if line.chars().count() <= MAX_EXCERPT_CHARS {
        return line.to_owned();
    }
    let at = line.find(tag).unwrap_or(0);
    let before = line[..at].char_indices().rev().take(MAX_EXCERPT_CHARS / 4).last().map_or(at, |(start, _)| start);
    let part: String = line[before..].chars().take(MAX_EXCERPT_CHARS).collect();
    let (front, back) = (if before > 0 { "…" } else { "" }, if before + part.len() < line.len() { "…" } else { "" });
    format!("{front}{part}{back}")
}

fn note_tag(seen_tags: &mut BTreeSet<String>, tag: &str) {
    if tag.len() <= MAX_SEEN_TAG_BYTES && seen_tags.len() < MAX_SEEN_TAGS && !seen_tags.contains(tag) {
        seen_tags.insert(tag.to_owned());
    }
}
