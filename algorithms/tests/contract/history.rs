//! Histories that designers must handle.

use std::num::NonZeroUsize;

use crate::designer::{Designer, History, SuggestRequest};
use crate::designers::RandomSearch;
use crate::problem::{CompletedTrial, Fidelity, PendingTrial, ProblemStatement, TrialId, TrialOutcome};

/// Number of trials of a history, unless a finite space is too small.
const TRIALS: usize = 12;

/// Number of unused points of a finite space, reserved for the suggestions under test.
const SPARED: usize = 2;

/// Trials of a study, numbered from 1 without gaps.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnedHistory {
    pub(crate) completed: Vec<CompletedTrial>,
    pub(crate) pending: Vec<PendingTrial>,
}

impl OwnedHistory {
    pub(crate) fn as_history(&self) -> History<'_> {
        History { completed: &self.completed, pending: &self.pending }
    }

    pub(crate) fn len(&self) -> usize {
        self.completed.len() + self.pending.len()
    }

    pub(crate) fn next_id(&self) -> TrialId {
        TrialId::FIRST.offset(self.len() as u64)
    }

    pub(super) fn reversed(&self) -> Self {
        let mut reversed = self.clone();
        reversed.completed.reverse();
        reversed.pending.reverse();
        reversed
    }

    pub(super) fn negated(&self) -> Self {
        let mut negated = self.clone();
        for trial in &mut negated.completed {
            if let TrialOutcome::Measured { values, .. } = &mut trial.outcome {
                values.iter_mut().for_each(|value| *value = -*value);
            }
        }
        negated
    }

    /// The same trials with the values of metrics, and those of constraints, in reverse order.
    pub(super) fn with_outputs_backwards(&self, metrics: usize) -> Self {
        let mut turned = self.clone();
        for trial in &mut turned.completed {
            if let TrialOutcome::Measured { values, .. } = &mut trial.outcome {
                values[..metrics].reverse();
                values[metrics..].reverse();
            }
        }
        turned
    }
}

/// Extends `outcome`, which has the value of the first metric, by a value for each further metric and constraint of
/// `problem`.
pub(super) fn with_all_values(problem: &ProblemStatement, mut outcome: TrialOutcome) -> TrialOutcome {
    if let TrialOutcome::Measured { values, .. } = &mut outcome {
        let first = values[0];
        let count = problem.metrics().len() + problem.constraints().len();
        values.extend((1..count).map(|place| (first * (place + 1) as f64 + place as f64).cos()));
    }
    outcome
}

/// Outcome of the trial at an index; `None` if it is pending.
type Outcomes<'a> = &'a dyn Fn(usize) -> Option<TrialOutcome>;

/// Named histories of `problem` with the irregularities of real studies.
pub(crate) fn awkward_histories(problem: &ProblemStatement) -> Vec<(&'static str, OwnedHistory)> {
    let shapes: [(&str, usize, Outcomes<'_>); 9] = [
        ("no trial at all", 0, &|_| None),
        ("one measured trial", 1, &|index| Some(measured(wave(index)))),
        ("only pending trials", TRIALS, &|_| None),
        ("only infeasible trials", TRIALS, &|_| Some(TrialOutcome::Infeasible)),
        ("only trials stopped early", TRIALS, &|index| Some(stopped(wave(index)))),
        ("only measured trials", TRIALS, &|index| Some(measured(wave(index)))),
        ("equal values", TRIALS, &|_| Some(measured(0.25))),
        ("values from one end of the doubles to the other", TRIALS, &|index| {
            Some(measured([f64::MAX, f64::MIN, 0.0, 1e-300, 1.0][index % 5]))
        }),
        ("values that differ in the last digit", TRIALS, &|index| Some(measured(1e6 + [0.0, 2e-10, 4e-10][index % 3]))),
    ];
    let mut histories: Vec<_> =
        shapes.into_iter().map(|(name, most, outcome)| (name, history(problem, most, outcome))).collect();
    histories.push(("a bit of everything", everyday_history(problem)));
    histories
}

/// A mixture of measured, failed, stopped and pending trials.
pub(super) fn everyday_history(problem: &ProblemStatement) -> OwnedHistory {
    history(problem, TRIALS, &|index| match index % 4 {
        0 => Some(measured(wave(index))),
        1 => Some(TrialOutcome::Infeasible),
        2 => Some(stopped(wave(index))),
        _ => None,
    })
}

fn measured(value: f64) -> TrialOutcome {
    TrialOutcome::measured(vec![value])
}

fn stopped(value: f64) -> TrialOutcome {
    TrialOutcome::Measured { values: vec![value], fidelity: Fidelity::Partial }
}

fn wave(index: usize) -> f64 {
    (index as f64 * 1.7).sin()
}

/// At most `most` trials at random points.
fn history(problem: &ProblemStatement, most: usize, outcome: Outcomes<'_>) -> OwnedHistory {
    let count = NonZeroUsize::new(TRIALS).unwrap_or(NonZeroUsize::MIN);
    let points = RandomSearch::new(problem, 20_170_813)
        .suggest(History::default(), SuggestRequest { first_trial_id: TrialId::FIRST, count })
        .expect("random search accepts every problem");
    let spared = problem
        .search_space()
        .cardinality()
        .map_or(usize::MAX, |cardinality| usize::try_from(cardinality).unwrap_or(usize::MAX).saturating_sub(SPARED));
    let mut history = OwnedHistory::default();
    for (index, point) in points.into_iter().take(most.min(spared)).enumerate() {
        let id = TrialId::FIRST.offset(index as u64);
        match outcome(index) {
            Some(outcome) => {
                let outcome = with_all_values(problem, outcome);
                history.completed.push(CompletedTrial { id, parameters: point.parameters, outcome });
            }
            None => history.pending.push(PendingTrial { id, parameters: point.parameters }),
        }
    }
    history
}
