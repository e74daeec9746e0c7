//! Maximiser of acquisition functions: screen candidates, refine the best, snap to the space, drop used points.
//!
//! Small spaces are enumerated instead, so that the result is exact (with pending trials, up to the choice of the
//! points scored over all fantasy samples).

use std::collections::HashSet;

use nalgebra::DMatrix;

use super::candidates::{CANDIDATES, candidates};
use super::interface::{Acquisition, Screening, in_blocks};
use super::prior_candidates::draw_from_prior;
use super::refine::{refine, rows};
use super::region::{Axis, Region};
use super::search::Search;
use crate::encoding::FeatureKind;
use crate::problem::ParameterValue;

/// Number of candidates to refine, besides the best anchor.
const STARTS: usize = 6;
/// [`STARTS`] with pending trials, whose many fantasy samples make refinement expensive. Points of a batch need not be
/// exact maxima.
const STARTS_BESIDE_PENDING: usize = 3;
/// Number of fantasy samples that select the candidates to refine.
const SCREENING_SAMPLES: usize = 16;
/// With pending trials, the number of points of a longer list scored over all fantasy samples.
const SCREENED_TO: usize = 256;
/// Starts whose largest coordinate difference is at most this count as one.
const START_DISTANCE: f64 = 0.05;
/// Maximum number of large grids whose neighbours are tried in all combinations; with more, only the nearest values are
/// tried.
const SNAPPED_FEATURES: usize = 5;
/// Maximum number of branches of a conditional space that get a start although their candidates are not among the best.
const BRANCH_STARTS: usize = 6;

/// Screened candidates of one region, for several searches while trials become pending.
#[derive(Debug, Clone)]
pub struct Candidates {
    region: Region,
    screening: Screening,
}

impl Search<'_> {
    /// Finds the best unused feasible point; `None` if all points found are used.
    pub fn maximize(&self, acquisition: &dyn Acquisition) -> Option<Vec<f64>> {
        self.maximize_among(acquisition, &mut self.candidates(acquisition))
    }

    /// Candidates from which [`Self::maximize`] starts.
    pub fn candidates(&self, acquisition: &dyn Acquisition) -> Candidates {
        let mut points = candidates(self.encoding, self.region, self.anchors, self.seed, self.trial, CANDIDATES);
        if let Some(prior) = self.prior {
            draw_from_prior(prior, self.encoding, self.region, self.seed, self.trial, &mut points);
        }
        Candidates { region: self.region.clone(), screening: acquisition.screening(points, SCREENING_SAMPLES) }
    }

    /// Whether `candidates` belong to the searched region.
    pub fn accepts(&self, candidates: &Candidates) -> bool {
        *self.region == candidates.region
    }

    /// [`Self::maximize`] from [accepted](Self::accepts) candidates, screened by `acquisition`, possibly before the
    /// last trials became pending.
    pub fn maximize_among(&self, acquisition: &dyn Acquisition, candidates: &mut Candidates) -> Option<Vec<f64>> {
        let values = acquisition.screened(&mut candidates.screening, SCREENING_SAMPLES);
        let candidates = &candidates.screening.points;
        let wanted = if acquisition.has_pending() { STARTS_BESIDE_PENDING } else { STARTS };
        let order = best_first(&values);
        let point = |row: usize| -> Vec<f64> { candidates.row(row).iter().copied().collect() };
        let mut starts: Vec<Vec<f64>> = Vec::with_capacity(STARTS + 1);
        for &row in &order {
            let candidate = point(row);
            if starts.iter().all(|start| max_distance(start, &candidate) > START_DISTANCE) {
                starts.push(candidate);
            }
            if starts.len() == wanted {
                break;
            }
        }
        self.add_branches(&mut starts, order.iter().map(|&row| point(row)));
        if let Some(anchor) = self.anchors.first() {
            let mut anchor = anchor.clone();
            self.region.clip(self.encoding, &mut anchor);
            starts.push(anchor);
        }
        let refined = refine(acquisition, self, starts);
        self.best_unused(acquisition, refined.into_iter().map(|(point, _)| point).collect())
            .or_else(|| self.best_unused(acquisition, order.into_iter().map(point).collect()))
    }

    /// Adds to `starts` the first of the `candidates`, best first, for each set of active features without a start.
    fn add_branches(&self, starts: &mut Vec<Vec<f64>>, candidates: impl Iterator<Item = Vec<f64>>) {
        if !self.encoding.is_conditional() {
            return;
        }
        let most = starts.len() + BRANCH_STARTS;
        let mut branches: HashSet<Vec<bool>> = starts.iter().map(|start| self.encoding.active(start)).collect();
        for candidate in candidates {
            if starts.len() == most {
                break;
            }
            if branches.insert(self.encoding.active(&candidate)) {
                starts.push(candidate);
            }
        }
    }

    /// Point with the largest value among `points`, which must be unused and feasible; the first of equals.
    pub fn best_of(&self, acquisition: &dyn Acquisition, points: &DMatrix<f64>) -> Option<Vec<f64>> {
        if acquisition.has_pending() && points.nrows() > SCREENED_TO {
            let mut rows = best_first(&screen_in(acquisition, points, SCREENING_SAMPLES));
            rows.truncate(SCREENED_TO);
            return self.best_of(acquisition, &points.select_rows(&rows));
        }
        let best = *best_first(&screen(acquisition, points)).first()?;
        Some(points.row(best).iter().copied().collect())
    }

    /// Snaps each point to the space, drops used points, and returns the best of the others.
    fn best_unused(&self, acquisition: &dyn Acquisition, points: Vec<Vec<f64>>) -> Option<Vec<f64>> {
        let snapped: Vec<Vec<f64>> = points
            .into_iter()
            .flat_map(|point| self.neighbors(point))
            .filter(|point| self.encoding.key(&self.encoding.decode(point)).is_ok_and(|key| !self.used.contains(&key)))
            .collect();
        self.best_of(acquisition, &rows(&snapped, self.region.axes.len()))
    }

    /// Feasible points around `point`: both neighbours along each large grid, the nearest value along other axes.
    fn neighbors(&self, point: Vec<f64>) -> Vec<Vec<f64>> {
        let mut nearest = point.clone();
        self.encoding.snap(&mut nearest);
        let large = |j: &usize| self.encoding.features()[*j].kind == FeatureKind::LargeGrid;
        let large: Vec<usize> = (0..point.len()).filter(large).collect();
        let mut found = vec![nearest];
        if large.len() > SNAPPED_FEATURES {
            return found;
        }
        for j in large {
            let mut others = Vec::new();
            for snapped in &found {
                if let Some(u) = self.other_side(snapped, j, point[j]) {
                    let mut other = snapped.clone();
                    other[j] = u;
                    others.push(other);
                }
            }
            found.append(&mut others);
        }
        found
    }

    /// Coordinate of the integer on the other side of `u` from `snapped[j]`.
    fn other_side(&self, snapped: &[f64], j: usize, u: f64) -> Option<f64> {
        let mut values = self.encoding.decode(snapped);
        let value = values.get_mut(&self.encoding.features()[j].name)?;
        let ParameterValue::Integer(nearest) = *value else { return None };
        let step = if u > snapped[j] { 1 } else { -1 };
        *value = ParameterValue::Integer(nearest.checked_add(step)?);
        let other = self.encoding.encode(&values).ok()?[j];
        match &self.region.axes[j] {
            Axis::Interval { lower, upper } if (lower..=upper).contains(&&other) => Some(other),
            _ => None,
        }
    }
}

/// Value at each row of `points` (m x d), in blocks that stay in the cache.
pub fn screen(acquisition: &dyn Acquisition, points: &DMatrix<f64>) -> Vec<f64> {
    screen_in(acquisition, points, usize::MAX)
}

/// [`screen`] over the first `samples` fantasy samples.
fn screen_in(acquisition: &dyn Acquisition, points: &DMatrix<f64>, samples: usize) -> Vec<f64> {
    in_blocks(points, |block| acquisition.values_over(block, samples))
}

/// Indices of `values` in decreasing order of value; equal values keep their order.
fn best_first(values: &[f64]) -> Vec<usize> {
    // A finite model returns no NaN; it would sort last.
    let ordered = |value: f64| if value.is_nan() { f64::NEG_INFINITY } else { value };
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| ordered(values[b]).total_cmp(&ordered(values[a])).then(a.cmp(&b)));
    order
}

fn max_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}
