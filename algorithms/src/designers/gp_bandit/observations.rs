//! From a history to what the models are fitted to.

use std::collections::BTreeMap;

use nalgebra::DMatrix;
use sha2::{Digest, Sha256};

use super::fits::Fingerprint;
use crate::acquisition::TrialResult;
use crate::designer::{DesignerError, History};
use crate::encoding::{Encoding, EncodingError, FeatureKind, Key};
use crate::gp::TrainingSet;
use crate::output_warp::{failure_target, standardized, warp};
use crate::problem::{Goal, TrialId, TrialOutcome};
use crate::transfer::{Ground, Grounds};

/// Noise variance of the last value of a trial that was stopped early, relative to a finished one (a guess).
const STOPPED_EARLY_NOISE: f64 = 4.0;

/// One completed trial, encoded.
#[derive(Debug, Clone)]
struct Observation {
    id: TrialId,
    key: Key,
    point: Vec<f64>,
    /// Maximised, finite; `None` if infeasible.
    value: Option<f64>,
    stopped_early: bool,
}

/// A pending trial, encoded.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) id: TrialId,
    pub(super) key: Key,
    pub(super) point: Vec<f64>,
}

/// The history, encoded, in the order of the trials.
#[derive(Debug, Clone)]
pub(super) struct Observations {
    completed: Vec<Observation>,
    pub(super) pending: Vec<Pending>,
}

impl Observations {
    pub(super) fn new(encoding: &Encoding, goal: Goal, history: History<'_>) -> Result<Self, DesignerError> {
        let foreign =
            |trial| move |error: EncodingError| DesignerError::ForeignTrial { trial, reason: error.to_string() };
        let mut completed = Vec::with_capacity(history.completed.len());
        for trial in history.completed {
            let (value, stopped_early) = match &trial.outcome {
                TrialOutcome::Infeasible => (None, false),
                TrialOutcome::Measured { values, stopped_early } => match values[..] {
                    [value] if value.is_finite() => (Some(goal.to_maximized(value)), *stopped_early),
                    [_] => (None, false),
                    _ => {
                        let reason = format!("it has {} values for one metric", values.len());
                        return Err(DesignerError::ForeignTrial { trial: trial.id, reason });
                    }
                },
            };
            completed.push(Observation {
                id: trial.id,
                key: encoding.key(&trial.parameters).map_err(foreign(trial.id))?,
                point: encoding.encode(&trial.parameters).map_err(foreign(trial.id))?,
                value,
                stopped_early,
            });
        }
        let mut pending = Vec::with_capacity(history.pending.len());
        for trial in history.pending {
            pending.push(Pending {
                id: trial.id,
                key: encoding.key(&trial.parameters).map_err(foreign(trial.id))?,
                point: encoding.encode(&trial.parameters).map_err(foreign(trial.id))?,
            });
        }
        completed.sort_by_key(|observation| observation.id);
        pending.sort_by_key(|trial| trial.id);
        Ok(Self { completed, pending })
    }

    /// Keys of all trials.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.completed.iter().map(|o| &o.key).chain(self.pending.iter().map(|p| &p.key))
    }

    /// Points of all trials.
    pub(super) fn points(&self) -> impl Iterator<Item = &Vec<f64>> {
        self.completed.iter().map(|o| &o.point).chain(self.pending.iter().map(|p| &p.point))
    }

    /// How many trials were measured.
    pub(super) fn measured(&self) -> usize {
        self.completed.iter().filter(|observation| observation.value.is_some()).count()
    }

    /// Whether results tell points apart: two different values, or a value and a failure.
    pub(super) fn are_informative(&self) -> bool {
        self.completed.windows(2).any(|pair| pair[0].value != pair[1].value)
    }

    /// What the trust region replays: the first `start_trials` measured trials, and those that `is_global`, do not
    /// count as its own.
    pub(super) fn results(
        &self,
        start_trials: usize,
        is_global: impl Fn(TrialId) -> bool,
    ) -> impl Iterator<Item = TrialResult> {
        let mut measured = 0;
        self.completed.iter().map(move |observation| {
            let local = measured >= start_trials && !is_global(observation.id);
            measured += usize::from(observation.value.is_some());
            TrialResult { value: observation.value.filter(|_| !observation.stopped_early), local }
        })
    }

    /// How many trials are completed.
    pub(super) fn completed(&self) -> usize {
        self.completed.len()
    }

    /// Identifies all of the first `count` completed trials that [`Self::evidence_of_first`] depends on, and `purpose`.
    pub(super) fn fingerprint(&self, count: usize, purpose: &str) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update(purpose);
        for observation in &self.completed[..count] {
            for u in &observation.point {
                hash.update(u.to_bits().to_le_bytes());
            }
            // A value is never NaN.
            hash.update(observation.value.unwrap_or(f64::NAN).to_bits().to_le_bytes());
            hash.update([u8::from(observation.stopped_early)]);
        }
        hash.finalize().into()
    }

    /// Merges the trials of each point and transforms their values: warps them, or only standardises them.
    pub(super) fn evidence(&self, encoding: &Encoding, warped: bool) -> Evidence {
        self.evidence_of_first(self.completed.len(), encoding, warped)
    }

    /// As [`Self::evidence`], as it was or would have been after the first `count` completed trials.
    pub(super) fn evidence_of_first(&self, count: usize, encoding: &Encoding, warped: bool) -> Evidence {
        let mut groups: BTreeMap<TrialId, Vec<&Observation>> = BTreeMap::new();
        let mut first_of: BTreeMap<&Key, TrialId> = BTreeMap::new();
        for observation in &self.completed[..count] {
            let first = *first_of.entry(&observation.key).or_insert(observation.id);
            groups.entry(first).or_default().push(observation);
        }
        let mut rows: Vec<Row> = groups.into_values().map(Row::merge).collect();
        // Measured rows first, each part in the order of the trials.
        rows.sort_by_key(|row| row.value.is_none());
        let raw: Vec<f64> = rows.iter().filter_map(|row| row.value).collect();
        let failures = rows.len() - raw.len();
        let mut values = if warped { warp(&raw, failures > 0) } else { standardized(&raw) };
        if failures > 0 {
            let failed = failure_target(&values);
            values.resize(rows.len(), failed);
            // The mean of a prior sample, not that of the few failures met so far (Vizier's infeasible warper).
            let feasible_share = (0.5 + raw.len() as f64) / (1.0 + rows.len() as f64);
            let shift = failed * (1.0 - feasible_share);
            values.iter_mut().for_each(|value| *value -= shift);
        }
        Evidence {
            data: TrainingSet {
                points: DMatrix::from_fn(rows.len(), encoding.dimensions(), |row, j| rows[row].point[j]),
                values,
                noise_weights: rows.iter().map(|row| row.noise_weight).collect(),
                categorical: categorical(encoding),
            },
            measured: raw.len(),
            finished: rows.iter().map(|row| row.value.is_some() && !row.stopped_early).collect(),
        }
    }
}

/// Which features are categories.
pub(super) fn categorical(encoding: &Encoding) -> Vec<bool> {
    encoding.features().iter().map(|feature| matches!(feature.kind, FeatureKind::Categorical { .. })).collect()
}

/// What is known, one row per different point.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    /// Measured points first, then failed ones at a pessimistic value.
    pub(super) data: TrainingSet,
    /// How many rows are measured.
    pub(super) measured: usize,
    /// Whether the row is measured by a trial that ran to its end.
    pub(super) finished: Vec<bool>,
}

impl Evidence {
    /// What the measured values are built upon.
    pub(super) fn ground(&self, grounds: &Grounds) -> Option<Ground> {
        let measured = self.data.points.rows(0, self.measured).clone_owned();
        grounds.below(&measured, &self.data.values[..self.measured])
    }

    /// How many points failed.
    pub(super) fn failures(&self) -> usize {
        self.data.values.len() - self.measured
    }

    /// Rows that may be the incumbent: finished ones, or all measured ones if none is finished.
    pub(super) fn eligible(&self) -> Vec<usize> {
        let finished: Vec<usize> = (0..self.measured).filter(|&row| self.finished[row]).collect();
        if finished.is_empty() { (0..self.measured).collect() } else { finished }
    }

    /// Point of a row.
    pub(super) fn point(&self, row: usize) -> Vec<f64> {
        self.data.points.row(row).iter().copied().collect()
    }
}

/// The trials of one point.
struct Row {
    point: Vec<f64>,
    value: Option<f64>,
    stopped_early: bool,
    noise_weight: f64,
}

impl Row {
    /// Mean and weight of `trials` (at least one, same point). Failures count only if nothing was measured, and trials
    /// stopped early only if none was finished.
    fn merge(trials: Vec<&Observation>) -> Self {
        let values = |stopped_early: bool| -> Vec<f64> {
            let kept = trials.iter().filter(|trial| trial.stopped_early == stopped_early);
            kept.filter_map(|trial| trial.value).collect()
        };
        let (finished, stopped) = (values(false), values(true));
        let (used, factor) = if finished.is_empty() { (&stopped, STOPPED_EARLY_NOISE) } else { (&finished, 1.0) };
        let count = used.len() as f64;
        Self {
            point: trials[0].point.clone(),
            // Divided before the sum: huge values must not overflow.
            value: (!used.is_empty()).then(|| used.iter().map(|value| value / count).sum()),
            stopped_early: finished.is_empty(),
            noise_weight: if used.is_empty() { 1.0 } else { factor / count },
        }
    }
}
