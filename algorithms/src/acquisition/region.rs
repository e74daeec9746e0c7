//! Part of the encoded space open to the proposals of one search.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::encoding::{Encoding, FeatureKind};

/// Feasible coordinates of one feature.
#[derive(Debug, Clone, PartialEq)]
pub enum Axis {
    /// `[lower, upper]` inside `[0, 1]`.
    Interval {
        /// Lower end, inclusive.
        lower: f64,
        /// Upper end, inclusive.
        upper: f64,
    },
    /// Ordered coordinates, at least one, strictly increasing.
    Grid(Vec<f64>),
    /// Levels `0..n` of a category.
    Levels(usize),
}

/// Product of one axis per feature.
///
/// An axis applies where its feature is active. Inactive features have their neutral coordinates, whatever their axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Region {
    /// In the order of the features.
    pub axes: Vec<Axis>,
}

impl Region {
    /// The whole space.
    pub fn whole(encoding: &Encoding) -> Self {
        let axis = |kind: &FeatureKind| match kind {
            FeatureKind::Continuous | FeatureKind::LargeGrid => Axis::Interval { lower: 0.0, upper: 1.0 },
            FeatureKind::Grid { points } => Axis::Grid(points.clone()),
            FeatureKind::Categorical { levels } => Axis::Levels(*levels),
        };
        Self { axes: encoding.features().iter().map(|feature| axis(&feature.kind)).collect() }
    }

    /// Part inside the box of sides `sides[j]` around `center`.
    ///
    /// Grids keep their coordinates inside the box, and always the coordinate of the centre and its two neighbours:
    /// otherwise a box smaller than a step would fix an integer at its first good value. Categories are not restricted.
    pub fn around(&self, center: &[f64], sides: &[f64]) -> Self {
        let cut = |((axis, &center), &side): ((&Axis, &f64), &f64)| {
            let (low, high) = (center - 0.5 * side, center + 0.5 * side);
            match axis {
                Axis::Interval { lower, upper } => {
                    Axis::Interval { lower: low.clamp(*lower, *upper), upper: high.clamp(*lower, *upper) }
                }
                Axis::Grid(points) => {
                    let own = points.partition_point(|u| *u < center);
                    let is_near = |(index, u): &(usize, &f64)| index.abs_diff(own) <= 1 || (low..=high).contains(*u);
                    Axis::Grid(points.iter().enumerate().filter(is_near).map(|(_, u)| *u).collect())
                }
                Axis::Levels(levels) => Axis::Levels(*levels),
            }
        };
        Self { axes: self.axes.iter().zip(center).zip(sides).map(cut).collect() }
    }

    /// Part in which every parent has its value at `point`, so that the same features are active.
    pub fn branch_of(&self, encoding: &Encoding, point: &[f64]) -> Self {
        let own = |(j, axis): (usize, &Axis)| match axis {
            axis if !has_children(encoding, j) => axis.clone(),
            Axis::Interval { .. } => Axis::Interval { lower: point[j], upper: point[j] },
            Axis::Grid(_) | Axis::Levels(_) => Axis::Grid(vec![point[j]]),
        };
        Self { axes: self.axes.iter().enumerate().map(own).collect() }
    }

    /// Whether `point`, of the space of `encoding`, lies inside.
    pub fn contains(&self, encoding: &Encoding, point: &[f64]) -> bool {
        let inside = |j: usize| match &self.axes[j] {
            Axis::Interval { lower, upper } => (*lower..=*upper).contains(&point[j]),
            Axis::Grid(points) => points.contains(&point[j]),
            Axis::Levels(levels) => point[j] >= 0.0 && point[j] < *levels as f64,
        };
        let outside: Vec<usize> = (0..point.len()).filter(|&j| !inside(j)).collect();
        if outside.is_empty() || !encoding.is_conditional() {
            return outside.is_empty();
        }
        let active = encoding.active(point);
        outside.into_iter().all(|j| !active[j])
    }

    /// Moves each coordinate of `point` to the nearest one inside, and makes the point canonical. A feature activated
    /// by a moved parent starts from the middle.
    pub fn clip(&self, encoding: &Encoding, point: &mut [f64]) {
        let was_active = encoding.active(point);
        for (axis, u) in self.axes.iter().zip(&mut *point) {
            *u = axis.nearest(*u);
        }
        if encoding.is_conditional() {
            encoding.reactivate(point, &was_active, |j| self.axes[j].middle());
        }
    }
}

impl Axis {
    /// Coordinate of the axis nearest to `u`.
    pub fn nearest(&self, u: f64) -> f64 {
        match self {
            Self::Interval { lower, upper } => u.max(*lower).min(*upper),
            Self::Grid(points) => {
                let nearest = points.iter().copied().min_by(|a, b| (a - u).abs().total_cmp(&(b - u).abs()));
                nearest.unwrap_or(u)
            }
            Self::Levels(levels) => u.round().max(0.0).min(*levels as f64 - 1.0),
        }
    }

    /// Default start of a search: the coordinate nearest to 0.5, or the first level.
    pub(crate) fn middle(&self) -> f64 {
        if matches!(self, Self::Levels(_)) { 0.0 } else { self.nearest(0.5) }
    }

    /// Maps `uniform` in `[0, 1)` to a coordinate, evenly over the interval, the coordinates or the levels.
    pub fn at(&self, uniform: f64) -> f64 {
        let index = |count: usize| ((uniform * count as f64) as usize).min(count.saturating_sub(1));
        match self {
            Self::Interval { lower, upper } => lower + uniform * (upper - lower),
            Self::Grid(points) => points[index(points.len())],
            Self::Levels(levels) => index(*levels) as f64,
        }
    }

    /// Draws a random coordinate, uniform as in [`Self::at`].
    pub(super) fn draw(&self, rng: &mut ChaCha8Rng) -> f64 {
        self.at(rng.random::<f64>())
    }
}

/// Whether feature `j` is the parent of other features.
pub(super) fn has_children(encoding: &Encoding, j: usize) -> bool {
    encoding.is_conditional() && (0..encoding.dimensions()).any(|child| encoding.parent(child) == Some(j))
}
