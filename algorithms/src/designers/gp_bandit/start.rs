//! The first trials, before there is anything to model.
//!
//! The centre first; then a star: parameter j alone moves from the centre by 1/6 of its range, in the order of names.
//! The star serves the linear kernel term and the trust region, which want a direction; a measurement on our
//! development problems put it ahead of quasi-random starts, which are there for comparison. What is left over is
//! filled by the candidate farthest from all trials so far (maximin design, Johnson et al. 1990), where the prototype
//! took Sobol points. Steps of 0.12, 1/4 and 1/3 are no different on bbob in 2 and 5 dimensions, its mixed-integer
//! functions and tables of trained models (mean log10 gaps after 25, 50 and 100 evaluations within two standard errors of
//! those with 1/6).
//!
//! Up to 15 parameters all steps are taken from the centre, not from the best trial so far as in COBYLA's first simplex
//! (Powell 1994). Steps from the best are ahead at first on bbob in 5 and 10 dimensions (192 pairs of runs: mean log10 gap
//! after 25 evaluations -0.06 +- 0.02, after 100 +0.01 +- 0.04), but on the classic functions, many of them with several
//! optima, they rather choose a worse one (54 pairs: +0.16 +- 0.11, +0.10 +- 0.07; 5 better and 12 worse after 50).
//!
//! From 16 to 50 parameters, where a star takes long, it walks: each step is taken from the best trial so far. Against
//! no star (bbob, mean log10 gap after 15, 25, 50 and 100 evaluations): d = 20 +0.11, -0.14, -0.09, -0.04 (72 pairs of
//! runs); d = 40 +0.09, +0.11, -0.11 and -0.09 (48 pairs), each +- 0.04 to 0.07. A star from the centre is worse than none
//! in 20 dimensions (+0.22 +- 0.11 after 25, +0.12 +- 0.08 after 50). With several metrics or constraints there may be no best
//! trial, so that no star has more than 15 parameters.
//!
//! In a conditional space the centre has the middle of every active parameter. Next come the centres of the other
//! branches, one for each different set of children that a value of a parent has, so that every parameter is tried once
//! and branches can be compared; then the star around the first centre, along the parameters active there.

use std::collections::HashSet;

use nalgebra::DMatrix;

use super::options::Start;
use crate::acquisition::{Axis, Region};
use crate::encoding::{Encoding, Key};
use crate::numerics::latin_hypercube::stratified;
use crate::prior::{Beliefs, middle};
use crate::problem::TrialId;
use crate::rng::stream;
use crate::sampling::sobol_point;

/// Step of the star.
const STEP: f64 = 1.0 / 6.0;
/// Up to so many features the star stays around the centre.
const LARGEST_STAR: usize = 15;
/// Up to so many features there is a star that walks (a guess beyond 40).
const LARGEST_WALK: usize = 50;
/// Candidates for a filling point.
const FILLERS: usize = 256;
/// No more branches than this are visited by the start (a guess).
const MOST_BRANCHES: usize = 16;

impl Start {
    /// How many trials, completed or pending, the start takes in a space with so many `outputs`, metrics and
    /// constraints.
    pub(super) fn trials(self, encoding: &Encoding, outputs: usize) -> usize {
        let few = (encoding.dimensions() + 1).clamp(4, 6);
        match self {
            Self::SpaceFilling => few,
            Self::Star => {
                let star = Star::new(encoding, None);
                let walk = if star.walks() && outputs == 1 { star.steps.len() } else { 0 };
                few.max(star.points().len() + walk)
            }
        }
    }
}

/// What the start is told.
pub(super) struct Known<'a> {
    /// What users believe of the optimum.
    pub(super) beliefs: Option<&'a Beliefs>,
    /// Points never to be proposed.
    pub(super) used: &'a HashSet<Key>,
    /// Of all trials, completed or pending.
    pub(super) points: &'a [Vec<f64>],
    /// The best point so far, if there is one metric and no constraint.
    pub(super) best: Option<&'a [f64]>,
}

/// The next point of `start` that is unused, or the farthest of some random points from those known; `None` if all of
/// these are used.
pub(super) fn start_point(
    start: Start,
    encoding: &Encoding,
    known: &Known<'_>,
    seed: u64,
    trial: TrialId,
) -> Option<Vec<f64>> {
    let unused = |point: &Vec<f64>| encoding.key(&encoding.decode(point)).is_ok_and(|key| !known.used.contains(&key));
    let own = match start {
        Start::Star => {
            let star = Star::new(encoding, known.beliefs);
            let step = known.best.and_then(|best| star.walk(known.points.len(), best));
            star.points().into_iter().chain(step).find(unused)
        }
        Start::SpaceFilling => Some(sobol_point(encoding, seed, trial)).filter(unused),
    };
    own.or_else(|| farthest(encoding, &unused, known.points, seed, trial))
}

/// The centre, the centres of other branches and steps along the features active at the first. Where there are beliefs,
/// the centre is their mode, and a step no longer than their spread.
pub(super) struct Star<'a> {
    encoding: &'a Encoding,
    beliefs: Option<&'a Beliefs>,
    axes: Vec<Axis>,
    middles: Vec<f64>,
    /// At least one.
    centers: Vec<Vec<f64>>,
    /// Features active at the first centre.
    active: Vec<bool>,
    /// Their indices.
    steps: Vec<usize>,
}

impl<'a> Star<'a> {
    pub(super) fn new(encoding: &'a Encoding, beliefs: Option<&'a Beliefs>) -> Self {
        let axes = Region::whole(encoding).axes;
        let middles: Vec<f64> = (0..axes.len()).map(|j| middle(beliefs, encoding, j)).collect();
        let mut center = middles.clone();
        encoding.snap(&mut center);
        let centers = branch_centers(encoding, &middles, center);
        let active = encoding.active(&centers[0]);
        let steps = (0..axes.len()).filter(|&j| active[j]).collect();
        Self { encoding, beliefs, axes, middles, centers, active, steps }
    }

    /// Whether its steps are taken from the best trial.
    fn walks(&self) -> bool {
        (LARGEST_STAR + 1..=LARGEST_WALK).contains(&self.steps.len())
    }

    /// The centres and, in spaces that are not too large, the steps from the first.
    pub(super) fn points(&self) -> Vec<Vec<f64>> {
        let mut points = self.centers.clone();
        if self.steps.len() <= LARGEST_STAR {
            for &j in &self.steps {
                let point = self.step(&self.centers[0], j);
                // The step of a parent may lead to the centre of another branch.
                if !points.contains(&point) {
                    points.push(point);
                }
            }
        }
        points
    }

    /// Where it walks, the step that comes after `known` trials: from `best`, or from the first centre if `best` is of
    /// another branch; `None` if there are no more.
    pub(super) fn walk(&self, known: usize, best: &[f64]) -> Option<Vec<f64>> {
        let j = *self.steps.get(known.checked_sub(self.centers.len())?)?;
        let origin = if self.encoding.active(best) == self.active { best } else { &self.centers[0] };
        self.walks().then(|| self.step(origin, j))
    }

    /// The point a step from `origin`, where the same features are active as at the first centre, along feature `j`.
    fn step(&self, origin: &[f64], j: usize) -> Vec<f64> {
        let Self { encoding, axes, .. } = self;
        let length = self.beliefs.and_then(|beliefs| beliefs.spread(j)).map_or(STEP, |spread| spread.min(STEP));
        let mut point = origin.to_vec();
        point[j] = match &axes[j] {
            Axis::Levels(_) => f64::from(u8::from(origin[j] == 0.0)),
            Axis::Interval { .. } if origin[j] + length <= 1.0 => origin[j] + length,
            Axis::Interval { .. } => origin[j] - length,
            // On a coarse grid the nearest value may be the origin itself: then its neighbour.
            Axis::Grid(grid) => match axes[j].nearest(origin[j] + length) {
                nearest if nearest > origin[j] => nearest,
                _ => grid.iter().copied().find(|u| *u > origin[j]).unwrap_or(grid[grid.len() - 2]),
            },
        };
        activate(encoding, &self.middles, &self.active, &mut point);
        encoding.snap(&mut point);
        point
    }
}

/// `center`, and for each parent and each other set of children that one of its values has, the centre of that branch.
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
            // A value without children, if there is one: the smallest ordinal that is left out.
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

/// Makes `point` canonical after a step from one where the features `active` were so; new ones start from the middle.
fn activate(encoding: &Encoding, middles: &[f64], active: &[bool], point: &mut [f64]) {
    if encoding.is_conditional() {
        encoding.reactivate(point, active, |j| middles[j]);
    }
}

/// Of some random unused points the one whose nearest neighbour among `points` is farthest.
pub(super) fn farthest(
    encoding: &Encoding,
    unused: &dyn Fn(&Vec<f64>) -> bool,
    points: &[Vec<f64>],
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
    let distance = |a: &[f64], b: &[f64]| -> f64 {
        let one = |((a, b), axis): ((&f64, &f64), &Axis)| match axis {
            Axis::Levels(_) => 0.25 * f64::from(a != b),
            _ => (a - b) * (a - b),
        };
        a.iter().zip(b).zip(&whole.axes).map(one).sum()
    };
    let mut best: Option<(f64, Vec<f64>)> = None;
    for row in fillers.row_iter() {
        let mut filler: Vec<f64> = row.iter().copied().collect();
        encoding.snap(&mut filler);
        let nearest = points.iter().map(|point| distance(point, &filler)).fold(f64::INFINITY, f64::min);
        if best.as_ref().is_none_or(|(distance, _)| nearest > *distance) && unused(&filler) {
            best = Some((nearest, filler));
        }
    }
    best.map(|(_, point)| point)
}
