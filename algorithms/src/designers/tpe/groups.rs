//! The history as two groups of trials: the good and the others.
//!
//! Good are the `min(ceil(0.1 n), 25)` best of `n` measured trials (the default of Optuna; shares of 0.15 and 0.2
//! were not better in the measurements of the module `widths`). The trial of rank `i` of `m` weighs
//! `ln(m + 1) - ln i`, scaled to a mean of 1: the shape of the weights of CMA-ES, which keeps what Watanabe 2023 (arXiv
//! 2304.11127) found for weights by improvement, that better trials should count more, but does not
//! depend on the values (measured: against equal weights lower by 0.03). All others weigh 1.
//!
//! Of trials with exactly equal values the first alone can be good, the others say that going on there brings nothing.
//! On a plateau, such as the tables of trained models have, the good group would otherwise fill with equals and its
//! kernels shrink onto one point.

use super::mixture::Component;
use crate::designer::{DesignerError, History};
use crate::encoding::{Encoding, EncodingError};
use crate::problem::{Goal, ParameterValues, TrialId, TrialOutcome};

/// The trials of a history in two groups, each in a fixed order.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    /// The best first.
    pub(super) good: Vec<Component>,
    /// All others: measured ones, failed ones, pending ones.
    pub(super) bad: Vec<Component>,
    /// Whether there are trials that would be good if an equal one were not.
    pub(super) plateau: bool,
    /// How many trials are completed, failed ones included.
    pub(super) completed: usize,
}

/// A measured trial.
struct Measured {
    id: TrialId,
    point: Vec<f64>,
    /// Maximised, finite.
    value: f64,
    stopped_early: bool,
}

impl Groups {
    /// Splits `history`: good are the `min(ceil(g n), most)` best of `n` measured trials, the first of each value. If
    /// all of those were stopped early, the best trial that was not takes the last place among them.
    ///
    /// # Errors
    /// [`DesignerError::ForeignTrial`] for a trial that is no point of the space, or has more than one value.
    pub(super) fn new(encoding: &Encoding, goal: Goal, history: History<'_>) -> Result<Self, DesignerError> {
        let encode = |trial: TrialId, parameters: &ParameterValues| {
            let foreign = |error: EncodingError| DesignerError::ForeignTrial { trial, reason: error.to_string() };
            encoding.encode(parameters).map_err(foreign)
        };
        let mut measured = Vec::with_capacity(history.completed.len());
        let mut others = Vec::with_capacity(history.pending.len());
        for trial in history.completed {
            let point = encode(trial.id, &trial.parameters)?;
            match &trial.outcome {
                TrialOutcome::Measured { values, stopped_early } => match values[..] {
                    [value] if value.is_finite() => measured.push(Measured {
                        id: trial.id,
                        point,
                        value: goal.to_maximized(value),
                        stopped_early: *stopped_early,
                    }),
                    [_] => others.push((trial.id, point)),
                    _ => {
                        let reason = format!("it has {} values for one metric", values.len());
                        return Err(DesignerError::ForeignTrial { trial: trial.id, reason });
                    }
                },
                TrialOutcome::Infeasible => others.push((trial.id, point)),
            }
        }
        for trial in history.pending {
            others.push((trial.id, encode(trial.id, &trial.parameters)?));
        }
        // Of equal values the earlier trial is the better one, so that the order of the history means nothing.
        measured.sort_by(|a, b| b.value.total_cmp(&a.value).then(a.id.cmp(&b.id)));
        others.sort_by_key(|(id, _)| *id);
        let count = good_count(measured.len());
        let (mut good, mut bad): (Vec<Measured>, Vec<Measured>) = (vec![], vec![]);
        let mut plateau = false;
        for trial in measured {
            let is_repeat = good.last().is_some_and(|last| last.value == trial.value);
            if good.len() < count && !is_repeat {
                good.push(trial);
            } else {
                plateau |= good.len() < count;
                bad.push(trial);
            }
        }
        if good.iter().all(|trial| trial.stopped_early)
            && let Some(finished) = bad.iter().position(|trial| !trial.stopped_early)
        {
            let finished = bad.remove(finished);
            bad.extend((good.len() == count).then(|| good.pop()).flatten());
            good.push(finished);
        }
        let mut groups = Self { good: vec![], bad: vec![], plateau, completed: history.completed.len() };
        for (rank, trial) in good.into_iter().enumerate() {
            groups.good.push(component(encoding, trial.point, weight(rank, count)));
        }
        groups.bad.extend(bad.into_iter().map(|trial| component(encoding, trial.point, 1.0)));
        groups.bad.extend(others.into_iter().map(|(_, point)| component(encoding, point, 1.0)));
        Ok(groups)
    }

    /// Counts one more pending trial.
    pub(super) fn add_pending(&mut self, encoding: &Encoding, point: Vec<f64>) {
        self.bad.push(component(encoding, point, 1.0));
    }
}

/// How many of `measured` trials are good.
fn good_count(measured: usize) -> usize {
    /// Beyond this many the mixture only gets blurred.
    const MOST: usize = 25;
    measured.div_ceil(10).min(MOST)
}

/// Weight of the good trial at `rank`, from 0, of `count`.
fn weight(rank: usize, count: usize) -> f64 {
    let raw = |rank: usize| (count as f64 + 1.0).ln() - (rank as f64 + 1.0).ln();
    raw(rank) * count as f64 / (0..count).map(raw).sum::<f64>()
}

fn component(encoding: &Encoding, point: Vec<f64>, weight: f64) -> Component {
    Component { active: encoding.active(&point), point, weight }
}
