//! Initial design: the first trials, before the model has data.
//!
//! The design starts at the centre. Then each parameter in turn, in name order, moves from the centre by 1/6 of its
//! range. It suits the linear kernel term and the trust region, which need a direction, and performed better than
//! quasi-random designs. With more than seven parameters, each of seven steps moves a random half of them together, half
//! of those up and half down, as in a random balance design (Satterthwaite 1959): the model separates their effects
//! later. Each remaining trial is the candidate farthest from all trials so far (maximin design, Johnson et al. 1990).
//!
//! With three metrics the steps are longer: those of 1/6 show a small part of the front, and the model extrapolates from it
//! (measured, see docs/experiments/099).
//!
//! All steps start at the centre, not at the best trial so far as in the first simplex of COBYLA (Powell 1994). All of
//! these choices are measured, see docs/experiments/001 and 021.
//!
//! While all results are equal, from the third on, points of a Sobol sequence replace the design and its maximin points: steps
//! cover little of a plateau, and maximin points little but the bounds (measured, see docs/experiments/026).
//!
//! In a conditional space, the centre has the middle of every active parameter. Then come the centres of the other
//! branches, one for each distinct set of children of a parent's value, so that every parameter is tried once and
//! branches can be compared. The steps around the first centre follow, along the parameters active there.
//!
//! After failures, maximin points replace the points that are nearer to a failed trial than to any measured one. While
//! all trials have failed, every point is a maximin point (measured, see docs/experiments/017).
//!
//! In other spaces, categorical parameters of three or more levels have no steps, and neither have more than four
//! parameters of two levels: their levels are balanced over all points of the design ([`super::level_rows`]), which has
//! at least as many points as any of them has levels.

use std::collections::HashSet;

use nalgebra::DMatrix;
use rand::seq::SliceRandom;

use super::level_rows::{assign, block_lengths};
use crate::acquisition::{Axis, Region};
use crate::encoding::{Encoding, Key};
use crate::numerics::latin_hypercube::stratified;
use crate::prior::{PriorDensity, middle};
use crate::problem::TrialId;
use crate::rng::stream;
use crate::sampling::sobol_point;

/// Step length as a share of the range (measured, see docs/experiments/001).
const STEP: f64 = 1.0 / 6.0;
/// The same with three metrics (measured, see docs/experiments/099).
const STEP_OF_THREE_METRICS: f64 = 0.42;
/// Maximum number of steps (measured, see docs/experiments/022).
const MOST_STEPS: usize = 7;
/// Number of equal results that make a plateau (measured, see docs/experiments/026).
const PLATEAU_RESULTS: usize = 3;
/// Number of candidates for a maximin point.
const FILLERS: usize = 256;
/// Relative tolerance for equal squared distances.
const ROUNDING: f64 = 1e-9;
/// Maximum number of branches whose centres the design visits (a guess).
const MOST_BRANCHES: usize = 16;

/// Number of trials, completed or pending, of the design for a problem: one more than there are steps, at least 4 to 6
/// by the number of parameters, and at least the largest number of levels of a category. In conditional spaces it is the
/// number of branches (at most 16) plus the number of steps from the first centre.
pub(super) fn trials(encoding: &Encoding) -> usize {
    let few = (encoding.dimensions() + 1).clamp(4, 6);
    few.max(AxisDesign::new(encoding, None, 0).points().len())
}

/// Inputs of the next point of a design.
pub(super) struct DesignContext<'a> {
    pub(super) prior: Option<&'a PriorDensity>,
    /// Points never to propose.
    pub(super) used: &'a HashSet<Key>,
    pub(super) points: &'a [&'a [f64]],
    pub(super) failed: &'a [&'a [f64]],
    pub(super) measured: &'a [&'a [f64]],
    /// Whether all results are equal.
    pub(super) flat: bool,
    /// Number of metrics.
    pub(super) metrics: usize,
}

impl DesignContext<'_> {
    /// Whether the next point should be the one of a Sobol sequence. A prior is more likely to leave the plateau.
    fn is_on_plateau(&self) -> bool {
        self.flat && self.measured.len() >= PLATEAU_RESULTS && self.prior.is_none()
    }

    /// Whether the trial nearest to `point` failed.
    fn is_near_failure(&self, axes: &[Axis], point: &[f64]) -> bool {
        let nearest = |points: &[&[f64]]| {
            points.iter().map(|other| squared_distance(axes, other, point)).fold(f64::INFINITY, f64::min)
        };
        // Rounding may make equal distances of a regular design differ.
        !self.failed.is_empty() && nearest(self.failed) < nearest(self.measured) * (1.0 - ROUNDING)
    }
}

/// Next unused point of the design, or a maximin point if there is none; `None` if all candidates are used.
pub(super) fn design_point(
    encoding: &Encoding,
    context: &DesignContext<'_>,
    seed: u64,
    trial: TrialId,
) -> Option<Vec<f64>> {
    let unused = |point: &Vec<f64>| encoding.key(&encoding.decode(point)).is_ok_and(|key| !context.used.contains(&key));
    if !context.failed.is_empty() && context.measured.is_empty() {
        return maximin_point(encoding, &unused, context.points, seed, trial);
    }
    let whole = Region::whole(encoding);
    let promising = |point: &Vec<f64>| unused(point) && !context.is_near_failure(&whole.axes, point);
    let spread = context.is_on_plateau().then(|| sobol_point(encoding, seed, trial)).filter(promising);
    if spread.is_some() {
        return spread;
    }
    let length = if context.metrics == 3 { STEP_OF_THREE_METRICS } else { STEP };
    let axes = AxisDesign { length, ..AxisDesign::new(encoding, context.prior, seed) };
    let own = axes.points().into_iter().find(promising);
    let far = |allowed: &dyn Fn(&Vec<f64>) -> bool| maximin_point(encoding, allowed, context.points, seed, trial);
    own.or_else(|| far(&promising)).or_else(|| far(&unused))
}

/// The centre, the centres of other branches, and steps of the features active at the first centre.
///
/// With a prior, the centre is its mode, and a step is at most as long as its spread.
pub(super) struct AxisDesign<'a> {
    encoding: &'a Encoding,
    prior: Option<&'a PriorDensity>,
    seed: u64,
    /// Length of a step as a share of the range.
    length: f64,
    axes: Vec<Axis>,
    middles: Vec<f64>,
    /// At least one.
    centers: Vec<Vec<f64>>,
    /// Features active at the first centre.
    active: Vec<bool>,
    /// Indices of the features moved by each step.
    steps: Vec<Vec<usize>>,
    /// Block length of each feature.
    blocks: Vec<Option<usize>>,
}

impl<'a> AxisDesign<'a> {
    pub(super) fn new(encoding: &'a Encoding, prior: Option<&'a PriorDensity>, seed: u64) -> Self {
        let axes = Region::whole(encoding).axes;
        let middles: Vec<f64> = (0..axes.len()).map(|j| middle(prior, encoding, j)).collect();
        let mut center = middles.clone();
        encoding.snap(&mut center);
        let centers = branch_centers(encoding, &middles, center);
        let active = encoding.active(&centers[0]);
        let blocks = if encoding.is_conditional() { vec![None; axes.len()] } else { block_lengths(&axes) };
        let stepped = (0..axes.len()).filter(|&j| active[j] && blocks[j].is_none()).collect();
        let steps = steps(stepped, seed);
        Self { encoding, prior, seed, length: STEP, axes, middles, centers, active, steps, blocks }
    }

    /// The centres and the steps from the first centre. Repeated with other levels until every level of every parameter
    /// is contained, except in conditional spaces.
    pub(super) fn points(&self) -> Vec<Vec<f64>> {
        let mut points = self.centers.clone();
        for step in &self.steps {
            let point = self.step(step);
            // A parent's step may end at the centre of another branch.
            if !points.contains(&point) {
                points.push(point);
            }
        }
        self.balance_levels(&mut points);
        points
    }

    fn balance_levels(&self, points: &mut Vec<Vec<f64>>) {
        let different = points.len();
        let rows = self.blocks.iter().flatten().copied().fold(different, usize::max);
        points.extend((different..rows).map(|row| points[row % different].clone()).collect::<Vec<_>>());
        for (j, levels) in self.blocks.iter().enumerate() {
            if let Some(levels) = *levels {
                let preferred = self.prior.and_then(|prior| prior.mode(j));
                assign(points, (self.encoding, self.seed), j, levels, preferred);
            }
        }
    }

    /// Point one step from the first centre along `features`, alternately up and down.
    fn step(&self, features: &[usize]) -> Vec<f64> {
        let mut point = self.centers[0].clone();
        for (place, &j) in features.iter().enumerate() {
            let direction = if place.is_multiple_of(2) { 1.0 } else { -1.0 };
            point[j] = self.moved(j, point[j], direction);
        }
        activate(self.encoding, &self.middles, &self.active, &mut point);
        self.encoding.snap(&mut point);
        point
    }

    /// Coordinate of feature `j` one step from `origin` in `direction`, 1 or -1; in the other one at the end of the range.
    fn moved(&self, j: usize, origin: f64, direction: f64) -> f64 {
        let length = self.prior.and_then(|prior| prior.spread(j)).map_or(self.length, |spread| spread.min(self.length));
        let target = origin + direction * length;
        match &self.axes[j] {
            Axis::Levels(_) => f64::from(u8::from(origin == 0.0)),
            Axis::Interval { .. } if (0.0..=1.0).contains(&target) => target,
            Axis::Interval { .. } => origin - direction * length,
            Axis::Grid(grid) => {
                let ahead = |u: &f64| direction * (u - origin) > 0.0;
                // On a coarse grid the nearest value may be the origin itself; then use its neighbour.
                Some(self.axes[j].nearest(target)).filter(ahead).unwrap_or_else(|| {
                    let distance = |u: &f64| (u - origin).abs();
                    let others = grid.iter().copied().filter(|u| *u != origin);
                    let order = |a: &f64, b: &f64| ahead(b).cmp(&ahead(a)).then(distance(a).total_cmp(&distance(b)));
                    others.min_by(order).unwrap_or(origin)
                })
            }
        }
    }
}

/// Features moved by each step: one of `features` each, or a random half of them if there are too many.
fn steps(features: Vec<usize>, seed: u64) -> Vec<Vec<usize>> {
    if features.len() <= MOST_STEPS {
        return features.into_iter().map(|j| vec![j]).collect();
    }
    let half = |step: usize| {
        let mut half = features.clone();
        half.shuffle(&mut stream(seed, TrialId(step as u64), "joint step"));
        half.truncate(features.len() / 2);
        half
    };
    (0..MOST_STEPS).map(half).collect()
}

/// `center`, followed by the centre of one branch for each parent and each other set of children of its values.
fn branch_centers(encoding: &Encoding, middles: &[f64], center: Vec<f64>) -> Vec<Vec<f64>> {
    let mut sets: HashSet<Vec<bool>> = HashSet::from([encoding.active(&center)]);
    let mut centers = vec![center];
    let mut next = 0;
    while next < centers.len() {
        let origin = centers[next].clone();
        let active = encoding.active(&origin);
        for parent in (0..middles.len()).filter(|&j| active[j]) {
            let children = (0..middles.len()).filter(|&j| encoding.parent(j) == Some(parent));
            let mut ordinals: Vec<u64> = children.flat_map(|j| encoding.parent_ordinals(j)).copied().collect();
            ordinals.sort_unstable();
            ordinals.dedup();
            // A childless value, if any: the smallest missing ordinal.
            let childless = (0_u64..).zip(&ordinals).find(|(place, ordinal)| place != *ordinal);
            let childless = childless.map_or(ordinals.len() as u64, |(place, _)| place);
            if !ordinals.is_empty() && encoding.feature_cardinality(parent).is_some_and(|n| u128::from(childless) < n) {
                ordinals.push(childless);
            }
            for ordinal in ordinals {
                let mut point = origin.clone();
                point[parent] = encoding.coordinate_at(parent, ordinal);
                activate(encoding, middles, &active, &mut point);
                if centers.len() < MOST_BRANCHES && sets.insert(encoding.active(&point)) {
                    centers.push(point);
                }
            }
        }
        next += 1;
    }
    centers
}

/// Makes `point` canonical after a step from a point with the features `active`. Newly active features start at the middle.
fn activate(encoding: &Encoding, middles: &[f64], active: &[bool], point: &mut [f64]) {
    if encoding.is_conditional() {
        encoding.reactivate(point, active, |j| middles[j]);
    }
}

/// Squared distance of two points. Different levels of a category are half a range apart.
fn squared_distance(axes: &[Axis], a: &[f64], b: &[f64]) -> f64 {
    let one = |((a, b), axis): ((&f64, &f64), &Axis)| match axis {
        Axis::Levels(_) => 0.25 * f64::from(a != b),
        _ => (a - b) * (a - b),
    };
    a.iter().zip(b).zip(axes).map(one).sum()
}

/// Smallest of `distances`, infinite without any; `None` as soon as one is at most `least`.
fn distance_above(least: f64, distances: impl Iterator<Item = f64>) -> Option<f64> {
    let mut smallest = f64::INFINITY;
    for distance in distances {
        if distance <= least {
            return None;
        }
        smallest = smallest.min(distance);
    }
    Some(smallest)
}

/// Random unused point whose nearest neighbour among `points` is farthest; `None` if all candidates are used.
pub(super) fn maximin_point(
    encoding: &Encoding,
    unused: &dyn Fn(&Vec<f64>) -> bool,
    points: &[&[f64]],
    seed: u64,
    trial: TrialId,
) -> Option<Vec<f64>> {
    let whole = Region::whole(encoding);
    let mut fillers = DMatrix::zeros(FILLERS, encoding.dimensions());
    for (j, feature) in encoding.features().iter().enumerate() {
        let mut rng = stream(seed, trial, &format!("fill/{}", feature.name));
        for (row, uniform) in stratified(&mut rng, FILLERS).into_iter().enumerate() {
            fillers[(row, j)] = encoding.coordinate_from_uniform(j, uniform);
        }
    }
    let mut best: Option<(f64, Vec<f64>)> = None;
    for row in fillers.row_iter() {
        let mut filler: Vec<f64> = row.iter().copied().collect();
        encoding.snap(&mut filler);
        let least = best.as_ref().map_or(f64::NEG_INFINITY, |(distance, _)| *distance);
        let nearest = distance_above(least, points.iter().map(|point| squared_distance(&whole.axes, point, &filler)));
        if let Some(nearest) = nearest.filter(|_| unused(&filler)) {
            best = Some((nearest, filler));
        }
    }
    best.map(|(_, point)| point)
}
