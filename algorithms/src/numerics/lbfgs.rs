//! Projected L-BFGS: minimisation of a smooth function in the box `[lower, upper]` from several starts.
//!
//! Notation: `x` point, `g` gradient (length k), `p` direction, `s`, `y` differences of points and gradients.
//!
//! Sources: Nocedal & Wright 2006, "Numerical Optimization", algorithm 7.4 (two-loop recursion) and Bertsekas 1982,
//! SIAM J. Control Optim. 20(2) (projection: coordinates at an active bound are excluded from the step). The starts are
//! independent runs whose evaluations are batched, one call per round (Irie et al. 2025: one stacked problem converges
//! more slowly, and separate calls waste the batch).
//!
//! Departures: backtracking to the Armijo condition only (pairs without positive curvature are skipped, so that the
//! Wolfe conditions are not needed), and a fixed length for the first step, for which no curvature is known.

use std::collections::VecDeque;

use argmin::core::{Error, Executor, IterState, KV, Problem, Solver, TerminationReason, TerminationStatus};

/// Number of pairs stored per start.
const MEMORY: usize = 8;
/// Minimum share of the predicted decrease for a step (the usual value in Nocedal & Wright).
const ARMIJO: f64 = 1e-4;
/// Maximum number of step lengths tried along one direction.
const MAX_BACKTRACKS: u32 = 12;

/// Function with its gradient, evaluated for batches of points.
pub trait Objective {
    /// Evaluates each of the points (length k), in order; `runs[i]` is the index of point i's start, for functions that
    /// depend on the start. A point that cannot be evaluated has infinite cost.
    fn evaluate(&self, runs: &[usize], points: &[Vec<f64>]) -> Vec<Evaluation>;
}

/// Value and gradient at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Value to minimise.
    pub cost: f64,
    /// Gradient, length k.
    pub gradient: Vec<f64>,
}

/// The state of argmin: the best point of all starts and its cost.
type BestState = IterState<Vec<f64>, (), (), (), (), f64>;

/// Bounds and tolerances; see the module documentation. One argmin iteration is one batch of evaluations.
#[derive(Debug, Clone)]
pub struct ProjectedLbfgs {
    lower: Vec<f64>,
    upper: Vec<f64>,
    first_step: f64,
    gradient_tolerance: f64,
    relative_decrease: f64,
    runs: Vec<Run>,
}

impl ProjectedLbfgs {
    /// Creates a solver for the box `[lower, upper]` (inclusive) from `starts`, clipped into it. `first_step` is the
    /// Euclidean length of each run's first step. A run ends when no free gradient entry exceeds `gradient_tolerance`,
    /// or a step lowers the cost by less than `relative_decrease` of it.
    pub fn new(
        lower: Vec<f64>,
        upper: Vec<f64>,
        starts: &[Vec<f64>],
        first_step: f64,
        gradient_tolerance: f64,
        relative_decrease: f64,
    ) -> Self {
        let mut solver = Self {
            lower,
            upper,
            first_step,
            gradient_tolerance,
            relative_decrease,
            runs: Vec::with_capacity(starts.len()),
        };
        solver.runs = starts.iter().map(|start| Run::new(solver.clip(start.clone()))).collect();
        solver
    }

    /// The current point of each start and its cost, which is infinite if the start cannot be evaluated.
    pub fn results(&self) -> impl Iterator<Item = (&[f64], f64)> {
        self.runs.iter().map(|run| (run.point.as_slice(), run.cost))
    }

    fn clip(&self, mut point: Vec<f64>) -> Vec<f64> {
        for (value, (lower, upper)) in point.iter_mut().zip(self.lower.iter().zip(&self.upper)) {
            *value = value.max(*lower).min(*upper);
        }
        point
    }

    /// Evaluates every unfinished run once and advances it.
    fn round<O: Objective>(&mut self, problem: &mut Problem<O>, state: BestState) -> Result<BestState, Error> {
        let active: Vec<usize> = (0..self.runs.len()).filter(|&index| !self.runs[index].done).collect();
        let points: Vec<Vec<f64>> = active.iter().map(|&index| self.runs[index].trial.clone()).collect();
        let evaluations =
            problem.bulk_problem("evaluations", points.len(), |objective| Ok(objective.evaluate(&active, &points)))?;
        for (index, evaluation) in active.into_iter().zip(evaluations) {
            let mut run = std::mem::take(&mut self.runs[index]);
            self.advance(&mut run, evaluation);
            self.runs[index] = run;
        }
        match self.runs.iter().min_by(|a, b| a.cost.total_cmp(&b.cost)) {
            Some(best) => Ok(state.param(best.point.clone()).cost(best.cost)),
            None => Ok(state),
        }
    }

    fn advance(&self, run: &mut Run, evaluation: Evaluation) {
        let usable = evaluation.cost.is_finite() && evaluation.gradient.iter().all(|g| g.is_finite());
        if run.gradient.is_empty() {
            if !usable {
                run.done = true;
                return;
            }
            run.point.clone_from(&run.trial);
            run.cost = evaluation.cost;
            run.gradient = evaluation.gradient;
            self.choose_direction(run);
            return;
        }
        let predicted: f64 =
            run.gradient.iter().zip(run.trial.iter().zip(&run.point)).map(|(g, (new, old))| g * (new - old)).sum();
        if !usable || evaluation.cost > run.cost + ARMIJO * predicted {
            self.backtrack(run);
            return;
        }
        let decrease = run.cost - evaluation.cost;
        run.remember(&evaluation.gradient);
        run.point.clone_from(&run.trial);
        run.cost = evaluation.cost;
        run.gradient = evaluation.gradient;
        if decrease <= self.relative_decrease * run.cost.abs().max(1.0) {
            run.done = true;
        } else {
            self.choose_direction(run);
        }
    }

    fn backtrack(&self, run: &mut Run) {
        run.backtracks += 1;
        if run.backtracks <= MAX_BACKTRACKS {
            run.step *= if run.backtracks == 1 { 0.5 } else { 0.25 };
            self.set_trial(run);
        } else if run.pairs.is_empty() {
            run.done = true;
        } else {
            run.pairs.clear();
            self.choose_direction(run);
        }
    }

    fn choose_direction(&self, run: &mut Run) {
        let free: Vec<bool> = (0..run.point.len())
            .map(|i| {
                let (x, g) = (run.point[i], run.gradient[i]);
                !(x <= self.lower[i] && g >= 0.0 || x >= self.upper[i] && g <= 0.0)
            })
            .collect();
        let masked = |values: &[f64]| -> Vec<f64> {
            values.iter().zip(&free).map(|(value, free)| if *free { *value } else { 0.0 }).collect()
        };
        let gradient = masked(&run.gradient);
        if gradient.iter().all(|g| g.abs() <= self.gradient_tolerance) {
            run.done = true;
            return;
        }
        run.direction = two_loop(&gradient, run.pairs.iter().map(|(s, y)| (masked(s), masked(y))));
        run.step = 1.0;
        if run.pairs.is_empty() || dot(&run.direction, &gradient) >= 0.0 {
            run.pairs.clear();
            run.direction = gradient.iter().map(|g| -g).collect();
            run.step = self.first_step / dot(&gradient, &gradient).sqrt();
        }
        run.backtracks = 0;
        self.set_trial(run);
    }

    fn set_trial(&self, run: &mut Run) {
        let moved = run.point.iter().zip(&run.direction).map(|(x, p)| x + run.step * p).collect();
        run.trial = self.clip(moved);
        if run.trial == run.point {
            run.done = true;
        }
    }
}

impl<O: Objective> Solver<O, BestState> for ProjectedLbfgs {
    fn name(&self) -> &str {
        "projected L-BFGS"
    }

    fn init(&mut self, problem: &mut Problem<O>, state: BestState) -> Result<(BestState, Option<KV>), Error> {
        self.round(problem, state).map(|state| (state, None))
    }

    fn next_iter(&mut self, problem: &mut Problem<O>, state: BestState) -> Result<(BestState, Option<KV>), Error> {
        self.round(problem, state).map(|state| (state, None))
    }

    fn terminate(&mut self, _state: &BestState) -> TerminationStatus {
        if self.runs.iter().all(|run| run.done) {
            return TerminationStatus::Terminated(TerminationReason::SolverConverged);
        }
        TerminationStatus::NotTerminated
    }
}

/// Runs `solver` for at most `max_rounds` batches of evaluations. Returns the point and cost of each start, in order; the
/// cost is infinite if the start cannot be evaluated.
pub fn minimize<O: Objective>(objective: O, solver: ProjectedLbfgs, max_rounds: u64) -> Vec<(Vec<f64>, f64)> {
    let untouched: Vec<_> = solver.results().map(|(point, cost)| (point.to_vec(), cost)).collect();
    // The search must not read a clock.
    let executor = Executor::new(objective, solver).timer(false);
    match executor.configure(|state: BestState| state.max_iters(max_rounds)).run() {
        Ok(outcome) => outcome.solver.results().map(|(point, cost)| (point.to_vec(), cost)).collect(),
        // The solver never fails; argmin's signature requires this case.
        Err(error) => {
            tracing::warn!(error = %error, "the L-BFGS solver stopped with an error");
            untouched
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Run {
    /// Best point so far, its cost and gradient (empty before the first evaluation).
    point: Vec<f64>,
    cost: f64,
    gradient: Vec<f64>,
    /// Next point to evaluate: `point + step * direction`, clipped.
    trial: Vec<f64>,
    direction: Vec<f64>,
    step: f64,
    backtracks: u32,
    /// `(s, y)`, oldest first.
    pairs: VecDeque<(Vec<f64>, Vec<f64>)>,
    done: bool,
}

impl Run {
    fn new(start: Vec<f64>) -> Self {
        Self { point: start.clone(), cost: f64::INFINITY, trial: start, ..Self::default() }
    }

    fn remember(&mut self, new_gradient: &[f64]) {
        let s: Vec<f64> = self.trial.iter().zip(&self.point).map(|(new, old)| new - old).collect();
        let y: Vec<f64> = new_gradient.iter().zip(&self.gradient).map(|(new, old)| new - old).collect();
        if dot(&s, &y) <= 1e-10 * (dot(&s, &s) * dot(&y, &y)).sqrt() {
            return;
        }
        if self.pairs.len() == MEMORY {
            self.pairs.pop_front();
        }
        self.pairs.push_back((s, y));
    }
}

/// `-H g` for the inverse Hessian estimate `H` of `pairs` (oldest first). Pairs without positive curvature are skipped.
fn two_loop(gradient: &[f64], pairs: impl Iterator<Item = (Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let pairs: Vec<_> = pairs
        .map(|(s, y)| {
            let curvature = dot(&s, &y);
            (s, y, curvature)
        })
        .filter(|(s, y, curvature)| *curvature > 1e-10 * (dot(s, s) * dot(y, y)).sqrt())
        .collect();
    let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut weights = Vec::with_capacity(pairs.len());
    for (s, y, curvature) in pairs.iter().rev() {
        let weight = dot(s, &direction) / curvature;
        add_scaled(&mut direction, -weight, y);
        weights.push(weight);
    }
    if let Some((_, y, curvature)) = pairs.last() {
        let scale = curvature / dot(y, y);
        direction.iter_mut().for_each(|p| *p *= scale);
    }
    for ((s, y, curvature), weight) in pairs.iter().zip(weights.iter().rev()) {
        let correction = weight - dot(y, &direction) / curvature;
        add_scaled(&mut direction, correction, s);
    }
    direction
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add_scaled(target: &mut [f64], scale: f64, other: &[f64]) {
    for (target, other) in target.iter_mut().zip(other) {
        *target += scale * other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rosenbrock;

    impl Objective for Rosenbrock {
        fn evaluate(&self, _runs: &[usize], points: &[Vec<f64>]) -> Vec<Evaluation> {
            let one = |p: &Vec<f64>| {
                let (x, y) = (p[0], p[1]);
                let gap = y - x * x;
                Evaluation {
                    cost: (1.0 - x).powi(2) + 100.0 * gap * gap,
                    gradient: vec![-2.0 * (1.0 - x) - 400.0 * x * gap, 200.0 * gap],
                }
            };
            points.iter().map(one).collect()
        }
    }

    fn solve(upper: f64, starts: &[Vec<f64>]) -> Vec<(Vec<f64>, f64)> {
        let solver = ProjectedLbfgs::new(vec![-2.0; 2], vec![upper; 2], starts, 0.1, 1e-8, 0.0);
        minimize(Rosenbrock, solver, 200)
    }

    #[test]
    fn each_start_converges_to_the_minimum_inside_the_box() {
        for (point, cost) in solve(2.0, &[vec![-1.2, 1.0], vec![0.0, 0.0], vec![9.0, -9.0]]) {
            assert!(cost < 1e-12, "{point:?} {cost}");
        }
    }

    #[test]
    fn solution_on_a_bound_is_optimal_along_the_other_coordinates() {
        // With x at most 0.5 the minimum is x = 0.5, y = 0.25.
        for (point, _) in solve(0.5, &[vec![-1.2, 0.4], vec![0.0, 0.0]]) {
            assert!((point[0] - 0.5).abs() < 1e-9 && (point[1] - 0.25).abs() < 1e-6, "{point:?}");
        }
    }

    #[test]
    fn start_that_cannot_be_evaluated_has_infinite_cost() {
        struct Nowhere;
        impl Objective for Nowhere {
            fn evaluate(&self, _runs: &[usize], points: &[Vec<f64>]) -> Vec<Evaluation> {
                points.iter().map(|_| Evaluation { cost: f64::NAN, gradient: vec![0.0] }).collect()
            }
        }
        let solver = ProjectedLbfgs::new(vec![0.0], vec![1.0], &[vec![0.5]], 0.1, 1e-8, 0.0);
        assert_eq!(minimize(Nowhere, solver, 10), vec![(vec![0.5], f64::INFINITY)]);
    }
}
