//! The split of the history into good and bad trials.
//!
//! The good trials are the `min(ceil(0.1 n), 25)` best of `n` measured trials (the default of Optuna). The good trial
//! of rank `i` of `m` has weight `ln(m + 1) - ln i`, scaled to a mean of 1. This is the shape of the weights of CMA-ES.
//! Like the weights by improvement of Watanabe 2023 (arXiv 2304.11127) it gives better trials a larger weight, but it
//! does not depend on the values; see docs/experiments/042. Bad trials have weight 1.
//!
//! Of trials with exactly equal values only the first can be good; the others are bad. On a plateau, such as those of
//! the tables of trained models, the good group would otherwise fill with equal values and its kernels would shrink to
//! one point.

use super::mixture::Component;
use crate::designer::{DesignerError, History};
use crate::encoding::Encoding;
use crate::problem::{Goal, ParameterValues, TrialId, TrialOutcome};

/// Two groups of a history's trials, each in a fixed order.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    /// Best first.
    pub(super) good: Vec<Component>,
    /// All other trials: measured, failed and pending.
    pub(super) bad: Vec<Component>,
    /// Whether trials were excluded from the good group because of an equal value.
    pub(super) plateau: bool,
    /// Number of completed trials, including failed ones.
    pub(super) completed: usize,
}

struct Measured {
    id: TrialId,
    point: Vec<f64>,
    /// Maximised, finite.
    value: f64,
    stopped_early: bool,
}

impl Groups {
    /// Splits `history`. The good trials are the `min(ceil(g n), most)` best of `n` measured trials, using the first of
    /// each value. If all of them were stopped early, the best trial that was not replaces the last of them.
    ///
    /// # Errors
    /// [`DesignerError::ForeignTrial`] for a trial that is not a point of the space, or has more than one value.
    pub(super) fn new(encoding: &Encoding, goal: Goal, history: History<'_>) -> Result<Self, DesignerError> {
        let encode = |trial: TrialId, parameters: &ParameterValues| {
            encoding.encode(parameters).map_err(DesignerError::foreign(trial))
        };
        let mut measured = Vec::with_capacity(history.completed.len());
        let mut others = Vec::with_capacity(history.pending.len());
        for trial in history.completed {
            let point = encode(trial.id, &trial.parameters)?;
            match &trial.outcome {
                TrialOutcome::Measured { values, fidelity } => match values[..] {
                    [value] if value.is_finite() => measured.push(Measured {
                        id: trial.id,
                        point,
                        value: goal.to_maximized(value),
                        stopped_early: !fidelity.is_full(),
                    }),
                    [_] => others.push((trial.id, point)),
                    _ => {
                        let mismatch = format!("it has {} values for one metric", values.len());
                        return Err(DesignerError::foreign(trial.id)(mismatch));
                    }
                },
                TrialOutcome::Infeasible => others.push((trial.id, point)),
            }
        }
        for trial in history.pending {
            others.push((trial.id, encode(trial.id, &trial.parameters)?));
        }
        // Ties are broken by id, so that the order of the history has no effect.
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

    pub(super) fn add_pending(&mut self, encoding: &Encoding, point: Vec<f64>) {
        self.bad.push(component(encoding, point, 1.0));
    }
}

/// Number of good trials among `measured` trials.
fn good_count(measured: usize) -> usize {
    /// Maximum; a guess. More trials only blur the mixture.
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
