//! Trials passed to a designer with a model: all of a short study, a bounded selection of a long one.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tunesmith_algorithms::designer::History;
use tunesmith_algorithms::problem::{
    CompletedTrial, ParameterValues, PendingTrial, ProblemStatement, TrialId, TrialOutcome,
};

use crate::number_set::NumberSet;

/// Number of parameter and metric values in a window. A guess: some 30 MB by name, and more trials than a model uses
/// (the Gaussian process some 600, an evolution strategy the latest generations).
const VALUES: usize = 200_000;

/// Bounds on the number of trials in a window.
const MIN_TRIALS: usize = 1_000;
const MAX_TRIALS: usize = 20_000;

/// Inverse share of a window: for each this many trials in it, one best earlier trial is retained.
const BEST_SHARE: usize = 10;

/// Estimated bytes per value, including its name.
const VALUE_BYTES: usize = 150;

/// Completed and pending trials of a study for its designer.
///
/// Retains the completed trials of the current and previous *window*, plus the best earlier ones by each metric.
/// Windows are fixed-length ranges of numbers, so that the selection does not change entirely with each new trial. It
/// depends only on the study's trials, not on when they were read.
pub(super) struct ModelTrials {
    problem: ProblemStatement,
    window: usize,
    completed: Vec<CompletedTrial>,
    /// Whether completed trials were evicted.
    is_partial: bool,
    /// All completed trials, including evicted ones.
    ended: NumberSet,
    /// Last trial number before the previous window.
    before: TrialId,
    /// Whether the earlier completed trials have been reduced to the best ones.
    is_ranked: bool,
    pending: Vec<PendingTrial>,
    /// Index into `pending`, by trial.
    pending_index: HashMap<TrialId, usize>,
}

impl ModelTrials {
    pub(super) fn new(problem: &ProblemStatement) -> Self {
        let values = problem.search_space().parameters().len() + problem.value_names().count();
        Self::with_window(problem, (VALUES / values.max(1)).clamp(MIN_TRIALS, MAX_TRIALS))
    }

    /// As [`Self::new`], with windows of `window` trials.
    pub(super) fn with_window(problem: &ProblemStatement, window: usize) -> Self {
        Self {
            problem: problem.clone(),
            window,
            completed: Vec::new(),
            is_partial: false,
            ended: NumberSet::default(),
            before: TrialId(0),
            is_ranked: true,
            pending: Vec::new(),
            pending_index: HashMap::new(),
        }
    }

    pub(super) fn as_history(&self) -> History<'_> {
        History { completed: &self.completed, pending: &self.pending }
    }

    pub(super) fn into_completed(self) -> Vec<CompletedTrial> {
        self.completed
    }

    /// Whether the designer sees only a selection.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    pub(super) fn len(&self) -> usize {
        self.completed.len() + self.pending.len()
    }

    pub(super) fn bytes(&self) -> usize {
        let values = self.problem.search_space().parameters().len() + self.problem.value_names().count();
        self.len() * (values + 1) * VALUE_BYTES
    }

    /// Adds a completed trial; returns whether it is new.
    pub(super) fn complete(
        &mut self,
        id: TrialId,
        parameters: &ParameterValues,
        outcome: impl FnOnce() -> TrialOutcome,
    ) -> bool {
        self.no_longer_pending(id);
        if !self.ended.insert(id) {
            return false;
        }
        self.is_ranked &= id > self.before;
        self.completed.push(CompletedTrial { id, parameters: parameters.clone(), outcome: outcome() });
        self.pass(id);
        true
    }

    /// Adds a pending trial; returns whether it is new. Later changes while pending do not affect the designer.
    pub(super) fn add_pending(&mut self, id: TrialId, parameters: &ParameterValues) -> bool {
        self.pass(id);
        let Entry::Vacant(slot) = self.pending_index.entry(id) else { return false };
        slot.insert(self.pending.len());
        self.pending.push(PendingTrial { id, parameters: parameters.clone() });
        true
    }

    /// Records that a trial has this number, and moves the windows.
    pub(super) fn pass(&mut self, id: TrialId) {
        let window = self.window as u64;
        let before = (id.0 / window).saturating_sub(1) * window;
        if before > self.before.0 {
            self.before = TrialId(before);
            self.is_ranked = false;
        }
        // Bounds the backlog of unranked trials.
        if !self.is_ranked && self.completed.len() > 4 * self.window {
            self.rank();
        }
    }

    /// Evicts completed trials before the previous window that are not among the best. Call before using the history.
    pub(super) fn rank(&mut self) {
        if self.is_ranked {
            return;
        }
        self.is_ranked = true;
        let before = self.before;
        let (mut older, recent): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.completed).into_iter().partition(|trial| trial.id <= before);
        let metrics = self.problem.metrics().len();
        let best = (self.window / BEST_SHARE / metrics).max(1);
        let mut is_best = NumberSet::default();
        for metric in 0..metrics {
            older.sort_by(|a, b| self.compare(metric, a, b));
            older.iter().take(best).for_each(|trial| {
                is_best.insert(trial.id);
            });
        }
        let count = older.len();
        older.retain(|trial| is_best.contains(trial.id));
        self.is_partial |= older.len() < count;
        self.completed = older;
        self.completed.extend(recent);
    }

    /// Orders two trials by a metric, better ones first, then those violating a constraint, then failed ones.
    fn compare(&self, metric: usize, a: &CompletedTrial, b: &CompletedTrial) -> Ordering {
        let rank = |trial: &CompletedTrial| match &trial.outcome {
            TrialOutcome::Infeasible => (2, f64::INFINITY),
            TrialOutcome::Measured { values, .. } => {
                let constraints = self.problem.constraints().iter();
                let mut limited = constraints.zip(&values[self.problem.metrics().len().min(values.len())..]);
                let is_violated = limited.any(|(constraint, value)| !constraint.holds(*value));
                let loss = values.get(metric).map(|value| self.problem.metrics()[metric].goal.loss(*value));
                (u8::from(is_violated), loss.filter(|loss| !loss.is_nan()).unwrap_or(f64::INFINITY))
            }
        };
        let ((a_class, a_loss), (b_class, b_loss)) = (rank(a), rank(b));
        a_class.cmp(&b_class).then(a_loss.total_cmp(&b_loss)).then(a.id.cmp(&b.id))
    }

    pub(super) fn pending_parameters(&self, id: TrialId) -> Option<&ParameterValues> {
        self.pending_index.get(&id).map(|index| &self.pending[*index].parameters)
    }

    /// Removes a pending trial.
    pub(super) fn no_longer_pending(&mut self, id: TrialId) {
        if let Some(index) = self.pending_index.remove(&id) {
            self.pending.swap_remove(index);
            if let Some(moved) = self.pending.get(index) {
                self.pending_index.insert(moved.id, index);
            }
        }
    }

    /// Removes a deleted or retried completed trial. Returns false if an evicted trial may now be among the best, which
    /// requires rereading all.
    #[must_use]
    pub(super) fn no_longer_completed(&mut self, id: TrialId) -> bool {
        if !self.ended.remove(id) {
            return true;
        }
        let count = self.completed.len();
        self.completed.retain(|trial| trial.id != id);
        !self.is_partial || id > self.before || self.completed.len() == count
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_contract::samples;

    use super::*;

    fn outcome(value: f64) -> TrialOutcome {
        TrialOutcome::measured(vec![value, -value])
    }

    /// Retained ones among `numbers`, completed in this order with values from `value`.
    fn kept(numbers: impl Iterator<Item = u64>, value: impl Fn(u64) -> f64) -> Vec<u64> {
        let mut trials = ModelTrials::with_window(&samples::study("p/l/s").problem, 40);
        for number in numbers {
            assert!(trials.complete(TrialId(number), &ParameterValues::new(), || outcome(value(number))));
        }
        trials.rank();
        let mut kept: Vec<u64> = trials.as_history().completed.iter().map(|trial| trial.id.0).collect();
        kept.sort_unstable();
        kept
    }

    #[test]
    fn long_study_has_its_last_windows_and_the_best_before_in_any_order_of_completion() {
        let goal = samples::study("p/l/s").problem.metrics()[0].goal;
        // Trials 7 and 30 are the best, then those with low numbers.
        let value = |number: u64| goal.loss(if number == 7 || number == 30 { -1.0 } else { number as f64 });
        assert_eq!(kept(1..=79, value), (1..=79).collect::<Vec<_>>());
        let expected: Vec<u64> = [7, 30].into_iter().chain(41..=115).collect();
        assert_eq!(kept(1..=115, value), expected);
        assert_eq!(kept((1..=115).rev(), value), expected);
        assert_eq!(kept((1..=115).map(|number| 1 + number * 37 % 115), value), expected);
    }

    #[test]
    fn removed_trials_are_replaced_by_reading_again_only_if_one_may_take_their_place() {
        let goal = samples::study("p/l/s").problem.metrics()[0].goal;
        let mut trials = ModelTrials::with_window(&samples::study("p/l/s").problem, 40);
        for number in 1..=119 {
            trials.complete(TrialId(number), &ParameterValues::new(), || outcome(goal.loss(number as f64)));
        }
        trials.rank();
        assert!(trials.is_partial());
        assert!(trials.no_longer_completed(TrialId(50)), "it is recent");
        assert!(trials.no_longer_completed(TrialId(10)), "it was dropped");
        assert!(!trials.no_longer_completed(TrialId(1)), "it was the best");
        assert!(trials.no_longer_completed(TrialId(1)), "it was removed before");
    }
}
