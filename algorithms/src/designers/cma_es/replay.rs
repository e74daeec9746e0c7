//! State of the search, computed from the history.
//!
//! Completed trials are divided by number into generations of `lambda`, whatever distribution they were drawn from:
//! with several workers some come from the previous generation, and user-supplied trials from none. All count as steps
//! from the current mean. The replay does not wait for pending trials; when one completes, it is inserted by its number
//! and the replay changes from there on.
//!
//! Restarts: after a run has converged, the next one starts at a random point with twice the population (IPOP, Auger &
//! Hansen 2005, A Restart CMA Evolution Strategy With Increasing Population Size, CEC). A run ends when
//!
//! - the best values of its last `10 + ceil(30 n / lambda)` generations and all values of the last one are equal up to
//!   1e-12 of the range of all values so far (the source uses an absolute 1e-12, which depends on the unit),
//! - all standard deviations are below 1e-12 of their start, or one is above 1e4 of it,
//! - the condition of `C` exceeds 1e14, or a number is not finite.

use nalgebra::DVector;
use rand::RngExt;

use super::constants::Constants;
use super::distribution::Distribution;
use super::margin::keep_margin;
use super::memory::Memory;
use super::{INITIAL_STEP, SearchRange};
use crate::problem::TrialId;
use crate::rng::stream;

#[derive(Debug, Clone)]
pub(super) struct Completed {
    pub(super) id: TrialId,
    /// Encoded point, shape `[n]`.
    pub(super) point: Vec<f64>,
    /// Maximised; negative infinity for a failed trial.
    pub(super) value: f64,
}

/// State after whole generations.
#[derive(Debug, Clone)]
pub(super) struct Replay {
    state: State,
    range: ValueRange,
    pub(super) trials: usize,
}

impl Replay {
    pub(super) fn start(search: &SearchRange<'_>) -> Self {
        Self { state: State::new(search), range: ValueRange::EMPTY, trials: 0 }
    }

    /// Adds one more generation of `completed`; `None` if it is incomplete.
    pub(super) fn next(&self, search: &SearchRange<'_>, completed: &[Completed]) -> Option<Self> {
        let (generation, _) = completed[self.trials..].split_at_checked(self.state.constants.population())?;
        let Self { mut state, mut range, trials } = self.clone();
        generation.iter().for_each(|trial| range.add(trial.value));
        state.learn(search, generation, range);
        Some(Self { state, range, trials: trials + generation.len() })
    }
}

#[derive(Debug, Clone)]
pub(super) struct State {
    /// Distribution of the next trial.
    pub(super) distribution: Distribution,
    /// Distribution of the last generation's trials.
    previous: Option<Distribution>,
    pub(super) constants: Constants,
    /// Number of the run, from 0.
    pub(super) run: u32,
    /// Best value of each generation of the run.
    best: Vec<f64>,
}

impl State {
    /// State of the first run, before any trial.
    fn new(search: &SearchRange<'_>) -> Self {
        let n = search.ranges.len();
        let center = DVector::from_element(n, 0.5);
        let mut state = Self {
            distribution: Distribution::new(center, INITIAL_STEP),
            previous: None,
            constants: Constants::new(n, Constants::default_population(n)),
            run: 0,
            best: vec![],
        };
        state.keep_margin(search);
        state
    }

    /// State after the `completed` trials, ordered by number.
    pub(super) fn replay(search: &SearchRange<'_>, completed: &[Completed], memory: &Memory) -> Self {
        memory.continued(completed, || Replay::start(search), |replay| replay.next(search, completed)).state
    }

    /// Updates the state by one generation, as many trials as the population.
    fn learn(&mut self, search: &SearchRange<'_>, generation: &[Completed], range: ValueRange) {
        let mut ranked: Vec<&Completed> = generation.iter().collect();
        ranked.sort_by(|a, b| b.value.total_cmp(&a.value).then(a.id.cmp(&b.id)));
        let (best, worst) = (ranked[0].value, ranked[ranked.len() - 1].value);
        // A generation without values gives no information about directions.
        if best.is_finite() {
            let steps: Vec<DVector<f64>> = ranked.iter().map(|trial| self.step_to(search, trial)).collect();
            self.previous = Some(self.distribution.clone());
            self.distribution.update(&self.constants, &steps);
            self.keep_margin(search);
            self.best.push(best);
        }
        if self.has_ended(best - worst, range) {
            self.restart(search, generation[generation.len() - 1].id);
        }
    }

    /// Step to a trial. Of a grid point only the cell is known: a trial drawn from this distribution or the previous
    /// one is redrawn to recover the step that led to the cell.
    fn step_to(&self, search: &SearchRange<'_>, trial: &Completed) -> DVector<f64> {
        /// Number of proposals of a trial to compare.
        const PROPOSALS: usize = 4;
        let evaluated = DVector::from_column_slice(&trial.point);
        if search.ranges.iter().any(|range| range.is_grid()) {
            for from in [Some(&self.distribution), self.previous.as_ref()].into_iter().flatten() {
                let drawn = search.proposals(from, trial.id).take(PROPOSALS).find(|point| {
                    let mut snapped: Vec<f64> = point.iter().copied().collect();
                    search.encoding.snap(&mut snapped);
                    let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
                    snapped.iter().zip(&trial.point).all(close)
                });
                if let Some(point) = drawn {
                    return self.distribution.step_to(&point);
                }
            }
        }
        self.distribution.step_to(&evaluated)
    }

    fn has_ended(&self, spread: f64, range: ValueRange) -> bool {
        const FLAT: f64 = 1e-12;
        const SMALLEST: f64 = 1e-12;
        const LARGEST: f64 = 1e4;
        const LARGEST_CONDITION: f64 = 1e14;
        if !self.distribution.is_sound() || self.distribution.condition() > LARGEST_CONDITION {
            return true;
        }
        let n = self.constants.dimensions;
        let deviations = || (0..n).map(|j| self.distribution.deviation(j) / INITIAL_STEP);
        if deviations().all(|ratio| ratio < SMALLEST) || deviations().any(|ratio| ratio > LARGEST) {
            return true;
        }
        let window = 10 + (30 * n).div_ceil(self.constants.population());
        let Some(start) = self.best.len().checked_sub(window) else { return false };
        let recent = &self.best[start..];
        let highest = recent.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let lowest = recent.iter().copied().fold(f64::INFINITY, f64::min);
        // `<=` instead of `<`: a failure in the generation makes the spread infinite, and a study of equal values has
        // range 0.
        highest - lowest <= FLAT * range.length() && spread <= FLAT * range.length()
    }

    /// Starts the next run, with twice the population, from a random point determined by the seed and the last trial.
    fn restart(&mut self, search: &SearchRange<'_>, last: TrialId) {
        let n = self.constants.dimensions;
        let mut rng = stream(search.seed, last, "cma_es/restart");
        let mean = DVector::from_fn(n, |_, _| rng.random::<f64>());
        *self = Self {
            distribution: Distribution::new(mean, INITIAL_STEP),
            previous: None,
            constants: Constants::new(n, self.constants.population() * 2),
            run: self.run + 1,
            best: vec![],
        };
        self.keep_margin(search);
    }

    fn keep_margin(&mut self, search: &SearchRange<'_>) {
        let alpha = 1.0 / (self.constants.population() * self.constants.dimensions) as f64;
        keep_margin(&mut self.distribution, search.ranges, alpha);
    }
}

/// Range of the values of all trials so far.
#[derive(Debug, Clone, Copy)]
struct ValueRange {
    lowest: f64,
    highest: f64,
}

impl ValueRange {
    const EMPTY: Self = Self { lowest: f64::INFINITY, highest: f64::NEG_INFINITY };

    fn add(&mut self, value: f64) {
        if value.is_finite() {
            self.lowest = self.lowest.min(value);
            self.highest = self.highest.max(value);
        }
    }

    /// Finite; 0 without a value.
    fn length(self) -> f64 {
        (self.highest - self.lowest).clamp(0.0, f64::MAX)
    }
}
