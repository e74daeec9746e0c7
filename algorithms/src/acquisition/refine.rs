//! Local search from the best candidates, over all kinds of features at once.
//!
//! Interval features move by projected L-BFGS, all starts in one batch; then each grid or categorical feature in turn
//! is set to its best value with the others fixed; and so on until no discrete feature moves any more. Discrete
//! features are searched on their grid: expected improvement, for one, peaks *between* the grid points already tried, so
//! that a rounded continuous optimum would propose them again.
//!
//! Source: Optuna's alternating scheme (`optuna/_gp/optim_mixed.py`). Departure: grids of more than 16 values are
//! probed at distances 1, 2, 4 ... from the current value in one batch, where Optuna runs a line search.

use nalgebra::DMatrix;

use super::function::AcquisitionFunction;
use super::region::{Axis, Region};
use crate::optimizers::{Evaluation, Objective, ProjectedLbfgs, minimize};

/// Batches of L-BFGS evaluations per cycle.
const ROUNDS: u64 = 25;
/// A run ends when a step raises the criterion by less, relative to it: a thousandth of a length scale away.
const RELATIVE_INCREASE: f64 = 1e-6;
/// Starts that go on after the first cycle.
const FINALISTS: usize = 3;
/// Alternations between continuous and discrete features.
const CYCLES: usize = 4;
/// Grids up to this size are tried completely.
const FULL_GRID: usize = 16;

/// Improves each of `starts` (points inside `region`); `scales[j]` is a natural step of feature j.
pub(super) fn refine(
    acquisition: &AcquisitionFunction,
    region: &Region,
    scales: &[f64],
    mut points: Vec<Vec<f64>>,
) -> Vec<(Vec<f64>, f64)> {
    let discrete: Vec<usize> =
        (0..region.axes.len()).filter(|&j| !matches!(region.axes[j], Axis::Interval { .. })).collect();
    let d = region.axes.len();
    let mut left_behind = Vec::new();
    for cycle in 0..CYCLES {
        refine_continuous(acquisition, region, scales, &mut points);
        let mut moved = false;
        for &j in &discrete {
            moved |= improve_coordinate(acquisition, &region.axes[j], j, &mut points);
        }
        if !moved {
            break;
        }
        if cycle == 0 && points.len() > FINALISTS {
            let values = acquisition.values(&rows(&points, d));
            let mut order: Vec<usize> = (0..points.len()).collect();
            order.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
            points = order.into_iter().map(|index| std::mem::take(&mut points[index])).collect();
            left_behind = points.split_off(FINALISTS);
        }
    }
    points.append(&mut left_behind);
    let values = acquisition.values(&rows(&points, d));
    points.into_iter().zip(values).collect()
}

/// Stacks points of length `d` as the rows of a matrix.
pub(super) fn rows(points: &[Vec<f64>], d: usize) -> DMatrix<f64> {
    DMatrix::from_fn(points.len(), d, |row, column| points[row][column])
}

fn refine_continuous(acquisition: &AcquisitionFunction, region: &Region, scales: &[f64], points: &mut [Vec<f64>]) {
    let mut free = Vec::new();
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    for (j, axis) in region.axes.iter().enumerate() {
        if let Axis::Interval { lower: low, upper: high } = axis {
            free.push(j);
            lower.push(low / scales[j]);
            upper.push(high / scales[j]);
        }
    }
    if free.is_empty() || points.is_empty() {
        return;
    }
    let starts: Vec<Vec<f64>> =
        points.iter().map(|point| free.iter().map(|&j| point[j] / scales[j]).collect()).collect();
    let objective = Slices { acquisition, bases: points, free: &free, scales };
    let results = minimize(objective, ProjectedLbfgs::new(lower, upper, &starts, 0.1, 1e-4, RELATIVE_INCREASE), ROUNDS);
    for (point, (refined, cost)) in points.iter_mut().zip(results) {
        if cost.is_finite() {
            for (&j, scaled) in free.iter().zip(refined) {
                // Scaling back may leave the interval by a rounding error.
                point[j] = region.axes[j].nearest(scaled * scales[j]);
            }
        }
    }
}

/// The acquisition as a function of the interval features, scaled; the others are those of each start.
struct Slices<'a> {
    acquisition: &'a AcquisitionFunction,
    bases: &'a [Vec<f64>],
    free: &'a [usize],
    scales: &'a [f64],
}

impl Objective for Slices<'_> {
    fn evaluate(&self, runs: &[usize], points: &[Vec<f64>]) -> Vec<Evaluation> {
        let mut full = DMatrix::from_fn(points.len(), self.scales.len(), |row, j| self.bases[runs[row]][j]);
        for (row, point) in points.iter().enumerate() {
            for (&j, scaled) in self.free.iter().zip(point) {
                full[(row, j)] = scaled * self.scales[j];
            }
        }
        let evaluation = |at: super::AcquisitionValue| Evaluation {
            cost: -at.value,
            gradient: self.free.iter().map(|&j| -at.gradient[j] * self.scales[j]).collect(),
        };
        self.acquisition.values_and_gradients(&full).into_iter().map(evaluation).collect()
    }
}

/// Sets coordinate `j` of each point to the best value found on its axis. Returns whether any moved.
fn improve_coordinate(acquisition: &AcquisitionFunction, axis: &Axis, j: usize, points: &mut [Vec<f64>]) -> bool {
    let mut trials = Vec::new();
    let mut owners = Vec::new();
    for (owner, point) in points.iter().enumerate() {
        // The current value comes first, so that only a strict improvement moves.
        let others = alternatives(axis, point[j]);
        for value in std::iter::once(point[j]).chain(others) {
            let mut trial = point.clone();
            trial[j] = value;
            trials.push(trial);
            owners.push(owner);
        }
    }
    let Some(first) = points.first() else { return false };
    let values = acquisition.values(&rows(&trials, first.len()));
    let mut best = vec![f64::NEG_INFINITY; points.len()];
    let mut moved = false;
    for ((trial, owner), value) in trials.into_iter().zip(owners).zip(values) {
        if value > best[owner] {
            moved |= best[owner] > f64::NEG_INFINITY;
            best[owner] = value;
            points[owner] = trial;
        }
    }
    moved
}

/// The values of a discrete axis to try instead of `current`.
fn alternatives(axis: &Axis, current: f64) -> Vec<f64> {
    match axis {
        Axis::Interval { .. } => Vec::new(),
        Axis::Levels(levels) => (0..*levels).map(|level| level as f64).filter(|level| *level != current).collect(),
        Axis::Grid(grid) if grid.len() <= FULL_GRID => grid.iter().copied().filter(|u| *u != current).collect(),
        Axis::Grid(grid) => {
            let here = grid.partition_point(|u| *u < current);
            let distances = std::iter::successors(Some(1_usize), |distance| Some(2 * distance));
            let near = |distance: usize| [here.checked_sub(distance), Some(here + distance)];
            let indices = distances.take_while(|distance| *distance < grid.len()).flat_map(near).flatten();
            indices.filter_map(|index| grid.get(index).copied()).collect()
        }
    }
}
