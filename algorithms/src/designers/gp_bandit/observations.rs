//! From a history to what the models are fitted to.

use std::collections::BTreeMap;

use nalgebra::DMatrix;
use sha2::{Digest, Sha256};

use super::evidence::{Evidence, categorical, slack_targets};
use super::fits::Fingerprint;
use super::outputs::Outputs;
use crate::acquisition::TrialResult;
use crate::designer::{DesignerError, History};
use crate::encoding::{Encoding, EncodingError, Key};
use crate::gp::TrainingSet;
use crate::output_warp::{failure_target, standardized, warp};
use crate::problem::{TrialId, TrialOutcome};

/// Noise variance of the last value of a trial that was stopped early, relative to a finished one (a guess).
const STOPPED_EARLY_NOISE: f64 = 4.0;

/// What the values of some observations are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Of a metric, maximised.
    Objective,
    /// Slacks of a constraint: 0 or more where it holds.
    Slack,
}

/// One completed trial, encoded.
#[derive(Debug, Clone)]
struct Observation {
    id: TrialId,
    key: Key,
    point: Vec<f64>,
    /// Maximised, finite; `None` if infeasible.
    value: Option<f64>,
    stopped_early: bool,
    /// Whether it was measured and violates no constraint.
    usable: bool,
}

/// A pending trial, encoded.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) id: TrialId,
    pub(super) key: Key,
    pub(super) point: Vec<f64>,
}

/// The history of one output, encoded, in the order of the trials.
#[derive(Debug, Clone)]
pub(super) struct Observations {
    kind: Kind,
    completed: Vec<Observation>,
    pub(super) pending: Vec<Pending>,
}

impl Observations {
    /// The history once for each of `outputs`: metrics, then constraints.
    pub(super) fn of_outputs(
        encoding: &Encoding,
        outputs: &Outputs,
        history: History<'_>,
    ) -> Result<Vec<Self>, DesignerError> {
        let foreign =
            |trial| move |error: EncodingError| DesignerError::ForeignTrial { trial, reason: error.to_string() };
        let mut completed = Vec::with_capacity(history.completed.len());
        for trial in history.completed {
            let (values, stopped_early) = match &trial.outcome {
                TrialOutcome::Infeasible => (None, false),
                TrialOutcome::Measured { values, .. } if values.len() != outputs.count() => {
                    let (metrics, constraints) = (outputs.metrics.len(), outputs.constraints.len());
                    let reason =
                        format!("it has {} values for {metrics} metrics and {constraints} constraints", values.len());
                    return Err(DesignerError::ForeignTrial { trial: trial.id, reason });
                }
                TrialOutcome::Measured { values, stopped_early } => {
                    let values = outputs.read(values);
                    let stopped_early = *stopped_early && values.is_some();
                    (values, stopped_early)
                }
            };
            let slacks = |values: &Vec<f64>| values[outputs.metrics.len()..].iter().all(|slack| *slack >= 0.0);
            let observation = Observation {
                id: trial.id,
                key: encoding.key(&trial.parameters).map_err(foreign(trial.id))?,
                point: encoding.encode(&trial.parameters).map_err(foreign(trial.id))?,
                value: None,
                stopped_early,
                usable: values.as_ref().is_some_and(slacks),
            };
            completed.push((observation, values));
        }
        let mut pending = Vec::with_capacity(history.pending.len());
        for trial in history.pending {
            pending.push(Pending {
                id: trial.id,
                key: encoding.key(&trial.parameters).map_err(foreign(trial.id))?,
                point: encoding.encode(&trial.parameters).map_err(foreign(trial.id))?,
            });
        }
        completed.sort_by_key(|(observation, _)| observation.id);
        pending.sort_by_key(|trial| trial.id);
        let of_output = |output: usize| Self {
            kind: if output < outputs.metrics.len() { Kind::Objective } else { Kind::Slack },
            completed: completed
                .iter()
                .map(|(observation, values)| Observation {
                    value: values.as_ref().map(|values| values[output]),
                    ..observation.clone()
                })
                .collect(),
            pending: pending.clone(),
        };
        Ok((0..outputs.count()).map(of_output).collect())
    }

    /// The values of measured trials, in their order.
    pub(super) fn measured_values(&self) -> Vec<f64> {
        self.completed.iter().filter_map(|observation| observation.value).collect()
    }

    /// The same observations with other values of the measured trials, which are in their order.
    pub(super) fn with_measured_values(&self, values: Vec<f64>) -> Self {
        let mut changed = self.clone();
        let measured = changed.completed.iter_mut().filter_map(|observation| observation.value.as_mut());
        measured.zip(values).for_each(|(old, new)| *old = new);
        changed
    }

    /// Keys of all trials.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.completed.iter().map(|o| &o.key).chain(self.pending.iter().map(|p| &p.key))
    }

    /// Points of the completed trials.
    pub(super) fn points(&self) -> impl Iterator<Item = &Vec<f64>> {
        self.completed.iter().map(|observation| &observation.point)
    }

    /// Of the trials that ran to their end and violate no constraint, the point of the best, the first of equals.
    pub(super) fn best(&self) -> Option<&[f64]> {
        let candidates = self.completed.iter().filter(|trial| trial.usable && !trial.stopped_early);
        let by_value = |a: &(f64, &[f64]), b: &(f64, &[f64])| a.0.total_cmp(&b.0);
        let valued = candidates.filter_map(|trial| trial.value.map(|value| (value, trial.point.as_slice())));
        // `max_by` takes the last of equals.
        valued.rev().max_by(by_value).map(|(_, point)| point)
    }

    /// How many trials were measured.
    pub(super) fn measured(&self) -> usize {
        self.completed.iter().filter(|observation| observation.value.is_some()).count()
    }

    /// Whether results tell points apart: two different values, or a value and a failure.
    pub(super) fn are_informative(&self) -> bool {
        self.completed.windows(2).any(|pair| pair[0].value != pair[1].value)
    }

    /// What the trust region replays: the first `start_trials` measured trials, those that `is_global`, and all until the
    /// first usable result do not count as its own.
    pub(super) fn results(
        &self,
        start_trials: usize,
        is_global: impl Fn(TrialId) -> bool,
    ) -> impl Iterator<Item = TrialResult> {
        let (mut measured, mut usable) = (0, false);
        self.completed.iter().map(move |observation| {
            // Before the first usable result there was no box.
            let local = usable && measured >= start_trials && !is_global(observation.id);
            usable |= observation.usable;
            measured += usize::from(observation.value.is_some());
            let counts = !observation.stopped_early && observation.usable;
            TrialResult { value: observation.value.filter(|_| counts), local }
        })
    }

    /// How many trials are completed.
    pub(super) fn completed(&self) -> usize {
        self.completed.len()
    }

    /// Identifies all of the first `count` completed trials that [`Self::evidence_of_first`] depends on, and `purpose`.
    pub(super) fn fingerprint(&self, count: usize, purpose: &str) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update(format!("{purpose} {:?}", self.kind));
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
        if self.kind == Kind::Slack {
            // What a failed trial would have kept to is not known.
            rows.truncate(raw.len());
        }
        let failures = rows.len() - raw.len();
        let mut threshold = 0.0;
        let mut values = if self.kind == Kind::Slack {
            let (values, zero) = slack_targets(&raw);
            threshold = zero;
            values
        } else if warped {
            warp(&raw, failures > 0)
        } else {
            standardized(&raw)
        };
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
            threshold,
        }
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
