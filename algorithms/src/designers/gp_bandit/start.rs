//! The first trials, before there is anything to model.
//!
//! The centre first; then a star: parameter j alone moves from the centre by 1/6 of its range, in the order of names.
//! The star serves the linear kernel term and the trust region, which want a direction; a measurement on our
//! development problems put it ahead of quasi-random starts, which are there for comparison. What is left over is
//! filled by the candidate farthest from all trials so far (maximin design, Johnson et al. 1990), where the prototype
//! took Sobol points.
//!
//! All steps are taken from the centre, not from the best trial so far as in COBYLA's first simplex (Powell 1994).
//! Steps from the best are ahead at first on bbob in 5 and 10 dimensions (192 pairs of runs: mean log10 gap after 25
//! evaluations -0.06 +- 0.02, after 100 +0.01 +- 0.04), but on the classic functions, many of them with several optima, they
//! rather choose a worse one (54 pairs: +0.16 +- 0.11, +0.10 +- 0.07; 5 better and 12 worse after 50).
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
/// Beyond this many features a star costs more trials than it is worth: in 20 dimensions (bbob, 48 pairs of runs) the mean
/// log10 gap with a star is +0.22 +- 0.11 after 25 evaluations, +0.12 +- 0.08 after 50 and 0.00 +- 0.11 after 100.
const LARGEST_STAR: usize = 15;
/// Candidates for a filling point.
const FILLERS: usize = 256;
/// No more branches than this are visited by the start (a guess).
const MOST_BRANCHES: usize = 16;

impl Start {
    /// How many trials, completed or pending, the start takes in a space.
    pub(super) fn trials(self, encoding: &Encoding) -> usize {
        let few = (encoding.dimensions() + 1).clamp(4, 6);
        match self {
            Self::SpaceFilling => few,
            Self::Star => few.max(star(encoding, None).len()),
        }
    }
}

/// The next point of `start` that is not in `used`, or the farthest of some random points from `points`; `None` if
/// all of those are used.
pub(super) fn start_point(
    (start, beliefs): (Start, Option<&Beliefs>),
    encoding: &Encoding,
    used: &HashSet<Key>,
    points: &[Vec<f64>],
    seed: u64,
    trial: TrialId,
) -> Option<Vec<f64>> {
    let unused = |point: &Vec<f64>| encoding.key(&encoding.decode(point)).is_ok_and(|key| !used.contains(&key));
    let own = match start {
        Start::Star => star(encoding, beliefs),
        Start::SpaceFilling => vec![sobol_point(encoding, seed, trial)],
    };
    own.into_iter().find(unused).or_else(|| farthest(encoding, &unused, points, seed, trial))
}

/// The centre, the centres of other branches and, in spaces that are not too large, the star around the first. Where
/// there are `beliefs`, the centre is their mode, and a step no longer than their spread.
pub(super) fn star(encoding: &Encoding, beliefs: Option<&Beliefs>) -> Vec<Vec<f64>> {
    let axes = Region::whole(encoding).axes;
    let middles: Vec<f64> = (0..axes.len()).map(|j| middle(beliefs, encoding, j)).collect();
    let mut center = middles.clone();
    encoding.snap(&mut center);
    let mut points = branch_centers(encoding, &middles, center);
    let center = points[0].clone();
    let active = encoding.active(&center);
    let steps: Vec<usize> = (0..axes.len()).filter(|&j| active[j]).collect();
    if steps.len() > LARGEST_STAR {
        return points;
    }
    let step = |j: usize| beliefs.and_then(|beliefs| beliefs.spread(j)).map_or(STEP, |spread| spread.min(STEP));
    for j in steps {
        let mut point = center.clone();
        point[j] = match &axes[j] {
            Axis::Levels(_) => f64::from(u8::from(center[j] == 0.0)),
            Axis::Interval { .. } if center[j] + step(j) <= 1.0 => center[j] + step(j),
            Axis::Interval { .. } => center[j] - step(j),
            // On a coarse grid the nearest value may be the centre itself: then its neighbour.
            Axis::Grid(grid) => match axes[j].nearest(center[j] + step(j)) {
                nearest if nearest > center[j] => nearest,
                _ => grid.iter().copied().find(|u| *u > center[j]).unwrap_or(grid[grid.len() - 2]),
            },
        };
        activate(encoding, &middles, &active, &mut point);
        encoding.snap(&mut point);
        // The step of a parent may lead to the centre of another branch.
        if !points.contains(&point) {
            points.push(point);
        }
    }
    points
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
