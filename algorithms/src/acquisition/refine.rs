//! Local search from the best candidates, over all kinds of features together.
//!
//! Interval features move by projected L-BFGS, all starts in one batch. Then each grid or categorical feature in turn
//! moves to its best value with the others fixed. Both steps repeat until no discrete feature moves. Discrete features
//! are searched on their grid because expected improvement, for example, peaks *between* the grid points already tried,
//! so that a rounded continuous optimum would repeat them.
//!
//! In a conditional space, continuous steps move active features only. Another value of a parent may activate features.
//! They start from the best observed point that has them or from the middle, whichever has the larger value; the next
//! cycle refines them.
//!
//! Source: Optuna's alternating scheme (`optuna/_gp/optim_mixed.py`). Departure: grids of more than 16 values are
//! probed at distances 1, 2, 4 ... from the current value in one batch, where Optuna runs a line search.

use nalgebra::DMatrix;

use super::branches::{branch_coordinates, switch};
use super::interface::{Acquisition, AcquisitionValue};
use super::region::{Axis, has_children};
use super::search::Search;
use crate::numerics::lbfgs::{Evaluation, Objective, ProjectedLbfgs, minimize};

/// A run ends when the relative increase of a step falls below this: about a thousandth of a length scale from the
/// optimum.
const RELATIVE_INCREASE: f64 = 1e-6;
/// Alternations between continuous and discrete features.
const CYCLES: usize = 4;
/// Number of fantasy samples that compare the values of a discrete feature; the final choice uses all of them.
const COMPARISON_SAMPLES: usize = 32;
/// Largest grid whose values are all tried.
const FULL_GRID: usize = 16;

/// Effort of one search; a larger one gains nothing, see docs/experiments/007.
struct Effort {
    /// Batches of L-BFGS evaluations per cycle.
    rounds: u64,
    /// Starts that continue after the first cycle.
    finalists: usize,
}

impl Effort {
    const ALONE: Self = Self { rounds: 25, finalists: 3 };
    /// With pending trials, whose many fantasy samples make each evaluation expensive (measured in batches of 8, see
    /// docs/experiments/008).
    const BESIDE_PENDING: Self = Self { rounds: 12, finalists: 1 };
}

/// Improves each of `points` (canonical, inside the region of `search`) and returns them with their values.
pub(super) fn refine(
    acquisition: &dyn Acquisition,
    search: &Search<'_>,
    mut points: Vec<Vec<f64>>,
) -> Vec<(Vec<f64>, f64)> {
    let axes = &search.region.axes;
    let is_parent: Vec<bool> = (0..axes.len()).map(|j| has_children(search.encoding, j)).collect();
    let discrete: Vec<usize> =
        (0..axes.len()).filter(|&j| is_parent[j] || !matches!(axes[j], Axis::Interval { .. })).collect();
    let effort = if acquisition.has_pending() { Effort::BESIDE_PENDING } else { Effort::ALONE };
    let mut left_behind = Vec::new();
    for cycle in 0..CYCLES {
        refine_continuous(acquisition, search, effort.rounds, &mut points);
        let mut moved = false;
        for &j in &discrete {
            moved |= improve_coordinate(acquisition, search, j, is_parent[j], &mut points);
        }
        if !moved {
            break;
        }
        if cycle == 0 && points.len() > effort.finalists {
            let values = acquisition.values(&rows(&points, axes.len()));
            let mut order: Vec<usize> = (0..points.len()).collect();
            order.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
            points = order.into_iter().map(|index| std::mem::take(&mut points[index])).collect();
            left_behind = points.split_off(effort.finalists);
        }
    }
    points.append(&mut left_behind);
    let values = acquisition.values(&rows(&points, axes.len()));
    points.into_iter().zip(values).collect()
}

/// Stacks points of length `d` as the rows of a matrix.
pub(super) fn rows(points: &[Vec<f64>], d: usize) -> DMatrix<f64> {
    DMatrix::from_fn(points.len(), d, |row, column| points[row][column])
}

fn refine_continuous(acquisition: &dyn Acquisition, search: &Search<'_>, rounds: u64, points: &mut [Vec<f64>]) {
    let (region, scales) = (search.region, search.scales);
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
    let active: Vec<Vec<bool>> = points.iter().map(|point| search.encoding.active(point)).collect();
    let movable: Vec<Vec<bool>> =
        points.iter().zip(&active).map(|(point, active)| movable(search, point, active)).collect();
    let starts: Vec<Vec<f64>> =
        points.iter().map(|point| free.iter().map(|&j| point[j] / scales[j]).collect()).collect();
    let objective = Slices { acquisition, bases: points, movable: &movable, free: &free, scales };
    let solver = ProjectedLbfgs::new(lower, upper, &starts, 0.1, 1e-4, RELATIVE_INCREASE);
    let results = minimize(objective, solver, rounds);
    for (((point, (refined, cost)), active), movable) in points.iter_mut().zip(results).zip(&active).zip(&movable) {
        if cost.is_finite() {
            for (&j, scaled) in free.iter().zip(refined).filter(|(j, _)| movable[**j]) {
                // Scaling back may leave the interval by a rounding error.
                point[j] = region.axes[j].nearest(scaled * scales[j]);
            }
            // A parent too long to list moves as if it were continuous, possibly to another branch.
            search.encoding.reactivate(point, active, |j| region.axes[j].middle());
        }
    }
}

/// Features that a continuous step from `point` may move: the active ones, except parents that are too long to list and
/// have a value that activates a child. A step would leave that branch.
fn movable(search: &Search<'_>, point: &[f64], active: &[bool]) -> Vec<bool> {
    let axes = &search.region.axes;
    let needed = |j: usize| {
        has_children(search.encoding, j) && branch_coordinates(search.encoding, &axes[j], j).contains(&point[j])
    };
    let is_interval = |j: usize| matches!(axes[j], Axis::Interval { .. });
    (0..point.len()).map(|j| active[j] && !(is_interval(j) && needed(j))).collect()
}

/// Acquisition function of the scaled interval features. All other features, and immovable ones, have the values of
/// each start.
struct Slices<'a> {
    acquisition: &'a dyn Acquisition,
    bases: &'a [Vec<f64>],
    movable: &'a [Vec<bool>],
    free: &'a [usize],
    scales: &'a [f64],
}

impl Objective for Slices<'_> {
    fn evaluate(&self, runs: &[usize], points: &[Vec<f64>]) -> Vec<Evaluation> {
        let mut full = DMatrix::from_fn(points.len(), self.scales.len(), |row, j| self.bases[runs[row]][j]);
        for (row, point) in points.iter().enumerate() {
            for (&j, scaled) in self.free.iter().zip(point).filter(|(j, _)| self.movable[runs[row]][**j]) {
                full[(row, j)] = scaled * self.scales[j];
            }
        }
        let evaluation = |(at, run): (AcquisitionValue, &usize)| {
            let slope = |j: usize| if self.movable[*run][j] { -at.gradient[j] * self.scales[j] } else { 0.0 };
            Evaluation { cost: -at.value, gradient: self.free.iter().map(|&j| slope(j)).collect() }
        };
        self.acquisition.values_and_gradients(&full).into_iter().zip(runs).map(evaluation).collect()
    }
}

/// Moves coordinate `j` of each point to the best value found on its axis. Returns whether any point moved.
fn improve_coordinate(
    acquisition: &dyn Acquisition,
    search: &Search<'_>,
    j: usize,
    is_parent: bool,
    points: &mut [Vec<f64>],
) -> bool {
    let mut trials = Vec::new();
    let mut owners = Vec::new();
    for (owner, point) in points.iter().enumerate() {
        // The current value comes first, so that only a strict improvement moves the point.
        trials.push(point.clone());
        owners.push(owner);
        if search.encoding.is_conditional() && !search.encoding.active(point)[j] {
            continue;
        }
        let axis = &search.region.axes[j];
        let mut others = alternatives(axis, point[j]);
        if let (true, Axis::Interval { .. }) = (is_parent, axis) {
            others = branch_coordinates(search.encoding, axis, j);
            others.retain(|u| *u != point[j]);
        }
        for value in others {
            let mut trial = point.clone();
            trial[j] = value;
            if is_parent {
                let found = switch(search, point, trial);
                owners.extend(found.iter().map(|_| owner));
                trials.extend(found);
            } else {
                owners.push(owner);
                trials.push(trial);
            }
        }
    }
    let Some(first) = points.first() else { return false };
    let values = acquisition.values_over(&rows(&trials, first.len()), COMPARISON_SAMPLES);
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

/// Values of a discrete axis to try instead of `current`.
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
