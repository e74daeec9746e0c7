//! Stored form of a summary: a length-prefixed JSON document, followed by the point digests.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tunesmith_algorithms::problem::TrialId;

use super::super::figures::{CountedTrials, EndedFigures};
use super::super::optimal::Front;
use super::super::trend::Trend;
use super::Summary;
use crate::number_set::NumberSet;

/// Format version; summaries of other versions are recomputed.
const VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SummaryRecord {
    v: u32,
    create_time: Timestamp,
    revision: u64,
    ended: EndedFigures,
    /// Values of each trial on the front, as bits: JSON has no infinity.
    front: Vec<(u64, Vec<u64>)>,
    front_of_stopped: Vec<(u64, Vec<u64>)>,
    /// Trial numbers per bin, and the best value of each bin as bits.
    trend: (u64, Vec<u64>),
    trend_of_stopped: (u64, Vec<u64>),
    /// Counted trials as run-length encoded words of a [`NumberSet`]: number of words, and the word.
    counted: Vec<(u64, u64)>,
}

pub(super) fn encode(summary: &Summary) -> Vec<u8> {
    let CountedTrials { ended, counted, points } = &summary.trials;
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for word in counted.words() {
        match runs.last_mut() {
            Some((length, last)) if last == word => *length += 1,
            _ => runs.push((1, *word)),
        }
    }
    let bits = |values: &Vec<f64>| values.iter().map(|value| value.to_bits()).collect();
    let front = |front: &Front| front.0.iter().map(|(id, values)| (id.0, bits(values))).collect();
    let trend = |trend: &Trend| (trend.width, bits(&trend.bins));
    let record = SummaryRecord {
        v: VERSION,
        create_time: summary.create_time,
        revision: summary.revision,
        ended: ended.clone(),
        front: front(&summary.front),
        front_of_stopped: front(&summary.front_of_stopped),
        trend: trend(&summary.trend),
        trend_of_stopped: trend(&summary.trend_of_stopped),
        counted: runs,
    };
    let json = serde_json::to_vec(&record).expect("the record has only text keys and serialises to memory");
    let mut body = (json.len() as u64).to_le_bytes().to_vec();
    body.extend(json);
    body.extend(points.iter().flat_map(|point| point.to_le_bytes()));
    body
}

/// Inverse of [`encode`]; `None` for another format.
pub(super) fn decode(body: &[u8]) -> Option<Summary> {
    let (length, rest) = body.split_first_chunk::<8>()?;
    let (json, points) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let record: SummaryRecord = serde_json::from_slice(json).ok()?;
    if record.v != VERSION {
        return None;
    }
    let mut words = Vec::new();
    for (length, word) in record.counted {
        words.resize(words.len().checked_add(usize::try_from(length).ok()?)?, word);
    }
    let (points, []) = points.as_chunks::<8>() else { return None };
    let points: HashSet<u64> = points.iter().map(|point| u64::from_le_bytes(*point)).collect();
    let values = |bits: Vec<u64>| bits.into_iter().map(f64::from_bits).collect::<Vec<f64>>();
    let front = |trials: Vec<(u64, Vec<u64>)>| {
        Front(trials.into_iter().map(|(id, bits)| (TrialId(id), values(bits))).collect::<BTreeMap<_, _>>())
    };
    let trend = |(width, bins): (u64, Vec<u64>)| Some(Trend { width, bins: values(bins) }).filter(|_| width > 0);
    Some(Summary {
        create_time: record.create_time,
        revision: record.revision,
        stored: Some(record.revision),
        trials: CountedTrials { ended: record.ended, counted: NumberSet::from_words(words), points },
        front: front(record.front),
        front_of_stopped: front(record.front_of_stopped),
        trend: trend(record.trend)?,
        trend_of_stopped: trend(record.trend_of_stopped)?,
    })
}
