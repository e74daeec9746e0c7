//! Encoded history of one output and its conversion to training data.

use std::collections::BTreeMap;

use nalgebra::DMatrix;
use sha2::{Digest, Sha256};

use super::evidence::{Evidence, slack_targets};
use super::fits::Fingerprint;
use super::outputs::Outputs;
use crate::acquisition::TrialResult;
use crate::designer::{DesignerError, History};
use crate::encoding::{Encoding, Key};
use crate::gp::TrainingSet;
use crate::output_warp::{Warp, failure_target, standardized};
use crate::problem::{Fidelity, ObservationNoise, TrialId, TrialOutcome};
use crate::stopped_early::{NOISE_FACTOR, prediction_noise};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Metric values, maximised.
    Objective,
    /// Values of one of the metrics of a hypervolume, maximised.
    OneOfSeveral,
    /// Constraint slacks, 0 or more where the constraint holds.
    Slack,
}

#[derive(Debug, Clone)]
struct Observation {
    id: TrialId,
    key: Key,
    point: Vec<f64>,
    /// Maximised, finite; `None` if infeasible.
    value: Option<f64>,
    stopped_early: bool,
    /// Standard deviation of a predicted value, otherwise 0.
    deviation: f64,
    /// Whether the trial was measured and violates no constraint.
    usable: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) id: TrialId,
    pub(super) key: Key,
    pub(super) point: Vec<f64>,
}

/// Encoded history of one output, in trial order.
#[derive(Debug, Clone)]
pub(super) struct Observations {
    kind: Kind,
    noise: ObservationNoise,
    completed: Vec<Observation>,
    pub(super) pending: Vec<Pending>,
}

impl Observations {
    /// One history for each of `outputs`: metrics, then constraints.
    pub(super) fn of_outputs(
        encoding: &Encoding,
        outputs: &Outputs,
        history: History<'_>,
    ) -> Result<Vec<Self>, DesignerError> {
        let mut completed = Vec::with_capacity(history.completed.len());
        for trial in history.completed {
            let (values, fidelity) = match &trial.outcome {
                TrialOutcome::Infeasible => (None, Fidelity::Full),
                TrialOutcome::Measured { values, .. } if values.len() != outputs.count() => {
                    let (metrics, constraints) = (outputs.metrics.len(), outputs.constraints.len());
                    let reason =
                        format!("it has {} values for {metrics} metrics and {constraints} constraints", values.len());
                    return Err(DesignerError::foreign(trial.id)(reason));
                }
                TrialOutcome::Measured { values, fidelity } => (outputs.read(values), *fidelity),
            };
            let slacks = |values: &Vec<f64>| values[outputs.metrics.len()..].iter().all(|slack| *slack >= 0.0);
            let observation = Observation {
                id: trial.id,
                key: encoding.key(&trial.parameters).map_err(DesignerError::foreign(trial.id))?,
                point: encoding.encode(&trial.parameters).map_err(DesignerError::foreign(trial.id))?,
                value: None,
                stopped_early: values.is_some() && !fidelity.is_full(),
                deviation: match fidelity {
                    Fidelity::Predicted { deviation } if outputs.metrics.len() == 1 => deviation,
                    _ => 0.0,
                },
                usable: values.as_ref().is_some_and(slacks),
            };
            completed.push((observation, values));
        }
        let mut pending = Vec::with_capacity(history.pending.len());
        for trial in history.pending {
            pending.push(Pending {
                id: trial.id,
                key: encoding.key(&trial.parameters).map_err(DesignerError::foreign(trial.id))?,
                point: encoding.encode(&trial.parameters).map_err(DesignerError::foreign(trial.id))?,
            });
        }
        completed.sort_by_key(|(observation, _)| observation.id);
        pending.sort_by_key(|trial| trial.id);
        let metric = if outputs.have_hypervolume() { Kind::OneOfSeveral } else { Kind::Objective };
        let of_output = |output: usize| Self {
            kind: if output < outputs.metrics.len() { metric } else { Kind::Slack },
            noise: outputs.noise,
            completed: completed
                .iter()
                .map(|(observation, values)| Observation {
                    value: values.as_ref().map(|values| values[output]),
                    deviation: if output == 0 { observation.deviation } else { 0.0 },
                    ..observation.clone()
                })
                .collect(),
            pending: pending.clone(),
        };
        Ok((0..outputs.count()).map(of_output).collect())
    }

    /// Values of the measured trials, in trial order.
    pub(super) fn measured_values(&self) -> Vec<f64> {
        self.completed.iter().filter_map(|observation| observation.value).collect()
    }

    /// Trials with a value, their points and their values.
    pub(super) fn measured_trials(&self) -> (Vec<TrialId>, Vec<&[f64]>, Vec<f64>) {
        let (mut ids, mut points, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for observation in &self.completed {
            if let Some(value) = observation.value {
                ids.push(observation.id);
                points.push(observation.point.as_slice());
                values.push(value);
            }
        }
        (ids, points, values)
    }

    /// The same observations without the completed `trials`.
    pub(super) fn without(&self, trials: &[TrialId]) -> Self {
        let completed =
            self.completed.iter().filter(|observation| !trials.contains(&observation.id)).cloned().collect();
        Self { completed, pending: self.pending.clone(), ..*self }
    }

    /// The same observations with `values` for the measured trials, in trial order.
    pub(super) fn with_measured_values(&self, values: Vec<f64>) -> Self {
        let mut changed = self.clone();
        let measured = changed.completed.iter_mut().filter_map(|observation| observation.value.as_mut());
        measured.zip(values).for_each(|(old, new)| *old = new);
        changed
    }

    pub(super) fn without_failures(&self) -> Self {
        let completed = self.completed.iter().filter(|observation| observation.value.is_some()).cloned().collect();
        Self { completed, pending: self.pending.clone(), ..*self }
    }

    pub(super) fn failures_among_last(&self, count: usize) -> usize {
        self.completed.iter().rev().take(count).filter(|observation| observation.value.is_none()).count()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.completed.iter().map(|o| &o.key).chain(self.pending.iter().map(|p| &p.key))
    }

    /// Keys of the points not to try again: those of all trials, or with high noise those of pending and failed trials.
    pub(super) fn closed_keys(&self) -> impl Iterator<Item = &Key> {
        let repeats = self.noise == ObservationNoise::High;
        let completed = self.completed.iter().filter(move |o| !repeats || o.value.is_none());
        completed.map(|o| &o.key).chain(self.pending.iter().map(|p| &p.key))
    }

    pub(super) fn points(&self) -> impl Iterator<Item = &Vec<f64>> + Clone {
        self.completed.iter().map(|observation| &observation.point)
    }

    pub(super) fn measured_and_failed_points(&self) -> (Vec<&[f64]>, Vec<&[f64]>) {
        let points = |measured: bool| -> Vec<&[f64]> {
            let chosen = self.completed.iter().filter(|trial| trial.value.is_some() == measured);
            chosen.map(|trial| trial.point.as_slice()).collect()
        };
        (points(true), points(false))
    }

    pub(super) fn measured(&self) -> usize {
        self.completed.iter().filter(|observation| observation.value.is_some()).count()
    }

    /// Whether the results differ: two different values, or a value and a failure.
    pub(super) fn are_informative(&self) -> bool {
        self.completed.windows(2).any(|pair| pair[0].value != pair[1].value)
    }

    /// Results for the trust region to replay. The first `design_trials` measured trials, those that are `is_global`,
    /// and all until the first usable result were not proposed from the box.
    pub(super) fn results(
        &self,
        design_trials: usize,
        is_global: impl Fn(TrialId) -> bool,
    ) -> impl Iterator<Item = TrialResult> {
        let (mut measured, mut usable) = (0, false);
        self.completed.iter().map(move |observation| {
            // There was no box before the first usable result.
            let local = usable && measured >= design_trials && !is_global(observation.id);
            usable |= observation.usable;
            measured += usize::from(observation.value.is_some());
            let counts = !observation.stopped_early && observation.usable;
            TrialResult { value: observation.value.filter(|_| counts), local }
        })
    }

    pub(super) fn completed(&self) -> usize {
        self.completed.len()
    }

    /// Identifies `purpose` and everything in the first `count` completed trials that [`Self::evidence_of_first`] uses.
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
            hash.update(observation.deviation.to_bits().to_le_bytes());
        }
        hash.finalize().into()
    }

    /// Merges the trials of each point and warps their values.
    pub(super) fn evidence(&self, encoding: &Encoding) -> Evidence {
        self.evidence_of_first(self.completed.len(), encoding)
    }

    /// [`Self::evidence`] of the first `count` completed trials.
    pub(super) fn evidence_of_first(&self, count: usize, encoding: &Encoding) -> Evidence {
        let mut groups: BTreeMap<TrialId, Vec<&Observation>> = BTreeMap::new();
        let mut first_of: BTreeMap<&Key, TrialId> = BTreeMap::new();
        for observation in &self.completed[..count] {
            let first = *first_of.entry(&observation.key).or_insert(observation.id);
            groups.entry(first).or_default().push(observation);
        }
        let mut rows: Vec<Row> = groups.into_values().map(Row::merge).collect();
        // Measured rows first, each part in trial order.
        rows.sort_by_key(|row| row.value.is_none());
        let raw: Vec<f64> = rows.iter().filter_map(|row| row.value).collect();
        if self.kind == Kind::Slack {
            // The slack of a failed trial is unknown.
            rows.truncate(raw.len());
        }
        let failures = rows.len() - raw.len();
        let mut threshold = 0.0;
        let mut added_noise = vec![0.0; rows.len()];
        let mut values = match self.kind {
            Kind::Slack => {
                let (values, zero) = slack_targets(&raw);
                threshold = zero;
                values
            }
            Kind::Objective => {
                let (warp, values) = Warp::fit(&raw, failures > 0);
                for ((added, row), value) in added_noise.iter_mut().zip(&rows).zip(&raw) {
                    *added = prediction_noise(&warp, *value, row.deviation);
                }
                values
            }
            Kind::OneOfSeveral => standardized(&raw, failures > 0),
        };
        if failures > 0 {
            let failed = failure_target(&values);
            values.resize(rows.len(), failed);
            // The feasible share of a prior sample, not of the few failures so far (Vizier's infeasible warper).
            let feasible_share = (0.5 + raw.len() as f64) / (1.0 + rows.len() as f64);
            let shift = failed * (1.0 - feasible_share);
            values.iter_mut().for_each(|value| *value -= shift);
        }
        Evidence {
            data: TrainingSet {
                points: DMatrix::from_fn(rows.len(), encoding.dimensions(), |row, j| rows[row].point[j]),
                values,
                noise_weights: rows.iter().map(|row| row.noise_weight).collect(),
                added_noise,
                noise: self.noise,
                categorical: encoding.categorical(),
            },
            trials: rows[..raw.len()].iter().map(|row| row.trials.clone()).collect(),
            measured: raw.len(),
            finished: rows.iter().map(|row| row.value.is_some() && !row.stopped_early).collect(),
            threshold,
        }
    }
}

struct Row {
    /// Trials that give the value.
    trials: Vec<TrialId>,
    point: Vec<f64>,
    value: Option<f64>,
    stopped_early: bool,
    /// Mean standard deviation of predicted values, otherwise 0.
    deviation: f64,
    noise_weight: f64,
}

impl Row {
    /// Merges `trials` (at least one, same point) into their mean and weight. Failures count only if no trial was
    /// measured, and trials stopped early only if none was finished.
    fn merge(trials: Vec<&Observation>) -> Self {
        let values = |stopped_early: bool| -> Vec<(&Observation, f64)> {
            let kept = trials.iter().filter(|trial| trial.stopped_early == stopped_early);
            kept.filter_map(|trial| trial.value.map(|value| (*trial, value))).collect()
        };
        let (finished, stopped) = (values(false), values(true));
        let (used, factor) = if finished.is_empty() { (&stopped, NOISE_FACTOR) } else { (&finished, 1.0) };
        let count = used.len() as f64;
        Self {
            trials: used.iter().map(|(trial, _)| trial.id).collect(),
            point: trials[0].point.clone(),
            // Dividing first prevents overflow of the sum.
            value: (!used.is_empty()).then(|| used.iter().map(|(_, value)| value / count).sum()),
            stopped_early: finished.is_empty(),
            // The errors of predictions for one point are alike, so their mean errs as much as each of them.
            deviation: used.iter().map(|(trial, _)| trial.deviation / count).sum(),
            noise_weight: if used.is_empty() { 1.0 } else { factor / count },
        }
    }
}
