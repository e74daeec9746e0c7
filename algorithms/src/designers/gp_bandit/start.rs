//! The first trials, before there is anything to model.
//!
//! The centre first; then a star: parameter j alone moves from the centre by 1/6 of its range, in the order of names.
//! The star serves the linear kernel term and the trust region, which want a direction; a measurement on our
//! development problems put it ahead of quasi-random starts, which are there for comparison. What is left over is
//! filled by the candidate farthest from all trials so far (maximin design, Johnson et al. 1990), where the prototype
//! took Sobol points.

use std::collections::HashSet;

use nalgebra::DMatrix;

use super::options::Start;
use crate::acquisition::{Axis, Region};
use crate::encoding::{Encoding, Key};
use crate::numerics::latin_hypercube::stratified;
use crate::problem::TrialId;
use crate::rng::stream;
use crate::sampling::sobol_point;

/// Step of the star.
const STEP: f64 = 1.0 / 6.0;
/// Beyond this many features a star costs more trials than it is worth (untested there).
const LARGEST_STAR: usize = 15;
/// Candidates for a filling point.
const FILLERS: usize = 256;

impl Start {
    /// How many trials, completed or pending, the start takes in a space of `dimensions` features.
    pub(super) fn trials(self, dimensions: usize) -> usize {
        let few = (dimensions + 1).clamp(4, 6);
        if self == Self::SpaceFilling || dimensions > LARGEST_STAR { few } else { few.max(dimensions + 1) }
    }
}

/// The next point of `start` that is not in `used`, or the farthest of some random points from `points`; `None` if
/// all of those are used.
pub(super) fn start_point(
    start: Start,
    encoding: &Encoding,
    used: &HashSet<Key>,
    points: &[Vec<f64>],
    seed: u64,
    trial: TrialId,
) -> Option<Vec<f64>> {
    let unused = |point: &Vec<f64>| encoding.key(&encoding.decode(point)).is_ok_and(|key| !used.contains(&key));
    let own = match start {
        Start::Star => star(encoding),
        Start::SpaceFilling => vec![sobol_point(encoding, seed, trial)],
    };
    own.into_iter().find(unused).or_else(|| farthest(encoding, &unused, points, seed, trial))
}

/// The centre and, in spaces that are not too large, the star around it.
pub(super) fn star(encoding: &Encoding) -> Vec<Vec<f64>> {
    let whole = Region::whole(encoding);
    let middle = |axis: &Axis| if matches!(axis, Axis::Levels(_)) { 0.0 } else { 0.5 };
    let mut center: Vec<f64> = whole.axes.iter().map(middle).collect();
    encoding.snap(&mut center);
    let mut points = vec![center.clone()];
    if encoding.dimensions() > LARGEST_STAR {
        return points;
    }
    for (j, axis) in whole.axes.iter().enumerate() {
        let mut point = center.clone();
        point[j] = match axis {
            Axis::Levels(_) => 1.0,
            Axis::Interval { .. } => 0.5 + STEP,
            // On a coarse grid the nearest value may be the centre itself: then its neighbour.
            Axis::Grid(grid) => match axis.nearest(center[j] + STEP) {
                nearest if nearest > center[j] => nearest,
                _ => grid.iter().copied().find(|u| *u > center[j]).unwrap_or(grid[0]),
            },
        };
        encoding.snap(&mut point);
        points.push(point);
    }
    points
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
