//! Timeline of the trials by client.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tunesmith_domain::TrialState;

use super::values::even_edges;
use super::{Columns, Rows};

/// Maximum number of lanes; further trials are counted, but not shown.
const LANES: usize = 100;

const BINS: usize = 200;

/// When the trials ran. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The number of trials that were started.
    pub started: usize,
    /// The lanes, by client: at most 100.
    pub lanes: Vec<Lane>,
    /// The number of trials in lanes that are not shown.
    pub not_shown: usize,
    /// The edges of bins of time, increasing.
    pub edges: Vec<f64>,
    /// The mean number of trials that ran at once in each bin, those that are not shown included.
    pub running: Vec<f64>,
}

/// The trials of a client that ran one after the other, in parallel lists. If there are more than the limit, spans of several
/// trials with short pauses between them are joined.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    /// The client; empty if the trials have no owner.
    pub client_id: String,
    /// The number of trials in the lane.
    pub total: usize,
    /// The first trial of each span.
    pub trials: Vec<u64>,
    /// The number of trials in each span.
    pub counts: Vec<u32>,
    /// The starts.
    pub starts: Vec<f64>,
    /// The ends; null while the trial runs.
    pub ends: Vec<Option<f64>>,
    /// Whether a trial of the span has failed.
    pub failed: Vec<bool>,
}

struct Span {
    row: usize,
    start: f64,
    end: Option<f64>,
    failed: bool,
    count: u32,
}

/// Timeline of `rows` at `now`, in microseconds since 1970, with about `limit` spans.
pub fn timeline(columns: &Columns, rows: &Rows, now: i64, limit: usize) -> Timeline {
    let mut spans: Vec<Span> = rows.iter().filter_map(|row| span(columns, row)).collect();
    spans.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.row.cmp(&b.row)));
    let started = spans.len();
    let now = seconds(now);
    let end_of = |span: &Span| span.end.unwrap_or(now).max(span.start);
    let first = spans.first().map_or(0.0, |span| span.start);
    let last = spans.iter().map(end_of).fold(first, f64::max);
    let edges = if started == 0 { Vec::new() } else { even_edges(first, last, BINS, false) };
    let running = running_at_once(&edges, spans.iter().map(|span| (span.start, end_of(span))));
    // Overlapping spans of a client are in different lanes.
    let mut lanes: BTreeMap<&str, Vec<Vec<Span>>> = BTreeMap::new();
    for span in spans {
        let of_client = lanes.entry(columns.client(span.row)).or_default();
        let is_free = |lane: &Vec<Span>| lane.last().is_none_or(|last| end_of(last) <= span.start);
        match of_client.iter().position(is_free) {
            Some(lane) => of_client[lane].push(span),
            None if of_client.len() <= LANES => of_client.push(vec![span]),
            // A lane beyond the limit, not shown.
            None => of_client[LANES].push(span),
        }
    }
    let mut all: Vec<(&str, Vec<Span>)> =
        lanes.into_iter().flat_map(|(client, lanes)| lanes.into_iter().map(move |lane| (client, lane))).collect();
    let not_shown = all.iter().skip(LANES).map(|(_, lane)| lane.len()).sum();
    all.truncate(LANES);
    let shown: usize = all.iter().map(|(_, lane)| lane.len()).sum();
    let gap = if shown > limit { (last - first) * all.len() as f64 / limit.max(1) as f64 } else { 0.0 };
    let lanes = all.into_iter().map(|(client, spans)| lane(columns, client, spans, gap, shown > limit)).collect();
    Timeline { started, lanes, not_shown, edges, running }
}

fn seconds(microseconds: i64) -> f64 {
    microseconds as f64 / 1e6
}

fn span(columns: &Columns, row: usize) -> Option<Span> {
    columns.state(row)?;
    let [_, start, end] = columns.times(row);
    let failed = columns.state(row) == Some(TrialState::Infeasible);
    Some(Span { row, start: seconds(start?), end: end.map(seconds), failed, count: 1 })
}

/// Start and end times of the trials, in seconds since 1970; `now`, in microseconds, is the end of running trials.
pub fn running_times(columns: &Columns, now: i64) -> impl Iterator<Item = (f64, f64)> {
    let now = seconds(now);
    (0..columns.len()).filter_map(|row| span(columns, row)).map(move |span| {
        let end = span.end.unwrap_or(now);
        (span.start, end.max(span.start))
    })
}

/// Mean number of concurrent `spans` in each bin of the evenly spaced `edges`. Ignores time outside the edges.
pub fn running_at_once(edges: &[f64], spans: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
    let bins = edges.len().saturating_sub(1);
    let Some(first) = edges.first().copied().filter(|_| bins > 0) else { return Vec::new() };
    let width = (edges[bins] - first) / bins as f64;
    // Whole bins are added as a change at their ends, so that long spans cost as much as short ones.
    let (mut parts, mut changes) = (vec![0.0; bins], vec![0.0; bins + 1]);
    for (start, end) in spans {
        let at = |time: f64| ((time - first) / width).clamp(0.0, bins as f64);
        let (start, end) = (at(start), at(end));
        let (from, to) = (start as usize, end as usize);
        if from == to {
            if from < bins {
                parts[from] += end - start;
            }
            continue;
        }
        parts[from] += (from + 1) as f64 - start;
        if to < bins {
            parts[to] += end - to as f64;
        }
        changes[from + 1] += 1.0;
        changes[to] -= 1.0;
    }
    let mut whole = 0.0;
    parts
        .iter()
        .zip(&changes)
        .map(|(part, change)| {
            whole += change;
            part + whole
        })
        .collect()
}

/// Maximum number of concurrent `spans` in each bin of the evenly spaced `edges`. Spans that only touch are not
/// concurrent; an empty span counts at its time.
pub fn most_at_once(edges: &[f64], spans: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
    let bins = edges.len().saturating_sub(1);
    let Some(first) = edges.first().copied().filter(|_| bins > 0) else { return Vec::new() };
    let last = edges[bins];
    // Changes of the number by time; ends precede starts at equal times.
    let mut changes: Vec<(f64, i64)> = Vec::new();
    for (start, end) in spans {
        let is_at_a_time = end <= start;
        if start > last || (end <= first && !(is_at_a_time && start >= first)) {
            continue;
        }
        changes.push((start.max(first), 1));
        // An empty span counts at its time and ends after it.
        changes.push((if is_at_a_time { start.next_up() } else { end }, -1));
    }
    changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut changes = changes.into_iter().peekable();
    let mut running = 0;
    (0..bins)
        .map(|bin| {
            let (begin, end) = (edges[bin], edges[bin + 1]);
            while let Some((_, change)) = changes.next_if(|(time, change)| *time <= begin && *change < 0) {
                running += change;
            }
            let mut most = running;
            while let Some((_, change)) = changes.next_if(|(time, _)| *time < end || (bin + 1 == bins && *time <= end))
            {
                running += change;
                most = most.max(running);
            }
            most as f64
        })
        .collect()
}

/// Lane of `spans`. If `joins`, joins those separated by at most `gap`.
fn lane(columns: &Columns, client: &str, spans: Vec<Span>, gap: f64, joins: bool) -> Lane {
    let total = spans.len();
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if joins && last.end.is_some_and(|end| span.start - end <= gap) => {
                last.end = span.end;
                last.failed |= span.failed;
                last.count += 1;
            }
            _ => joined.push(span),
        }
    }
    let mut lane = Lane { client_id: client.to_owned(), total, ..Lane::default() };
    for span in joined {
        lane.trials.push(columns.number(span.row));
        lane.counts.push(span.count);
        lane.starts.push(span.start);
        lane.ends.push(span.end);
        lane.failed.push(span.failed);
    }
    lane
}
