//! Encoding of a single parameter.

use super::axis::{Axis, clip};
use super::{FeatureKind, MAX_GRID_POINTS};
use crate::problem::{Doubles, ParameterKind, ParameterValue};

/// Keys distinguish doubles by their coordinate in units of `2^-40`: about twelve digits, coarser than the rounding
/// errors of the scales and much finer than any objective can be learned.
const DOUBLE_ORDINALS: f64 = (1_u64 << 40) as f64;

/// Map between the values of one parameter and its coordinate.
#[derive(Debug, Clone)]
pub(super) enum Codec {
    Double {
        min: f64,
        max: f64,
        axis: Axis,
        /// All values of a range so narrow that a search may try each of them.
        listed: Option<Doubles>,
    },
    Integer {
        min: i64,
        /// `max - min`.
        span: u64,
        axis: Axis,
        /// Range widened by half a step at both ends, for random draws.
        padded: Axis,
    },
    Discrete {
        values: Vec<f64>,
        axis: Axis,
    },
    Categorical {
        /// Sorted by name.
        levels: Vec<String>,
    },
}

impl Codec {
    pub(super) fn new(kind: &ParameterKind) -> Self {
        match kind {
            ParameterKind::Double { min, max, scale } => {
                let axis = Axis::new(*min, max - min, *scale);
                Self::Double { min: *min, max: *max, axis, listed: Doubles::between(*min, *max) }
            }
            ParameterKind::Integer { min, max, scale } => {
                let span = max.abs_diff(*min);
                let axis = Axis::new(*min as f64, span as f64, *scale);
                // A logarithmic range starts at 1 or above, so its widened lower bound is positive.
                let padded = Axis::new(*min as f64 - 0.5, span as f64 + 1.0, *scale);
                Self::Integer { min: *min, span, axis, padded }
            }
            ParameterKind::Discrete { values, scale } => {
                let (first, last) = (values[0], values[values.len() - 1]);
                Self::Discrete { axis: Axis::new(first, last - first, *scale), values: values.clone() }
            }
            ParameterKind::Categorical { values } => {
                let mut levels = values.clone();
                levels.sort();
                Self::Categorical { levels }
            }
        }
    }

    /// Kind of the feature; unspecified for a parameter with one value.
    pub(super) fn feature_kind(&self) -> FeatureKind {
        match self {
            Self::Double { listed: None, .. } => FeatureKind::Continuous,
            Self::Double { listed: Some(doubles), .. } if doubles.count() > MAX_GRID_POINTS => FeatureKind::LargeGrid,
            Self::Double { min, axis, listed: Some(doubles), .. } => {
                grid((0..doubles.count()).map(|number| axis.unit(doubles.value(number) - min)).collect())
            }
            Self::Integer { span, .. } if *span >= MAX_GRID_POINTS => FeatureKind::LargeGrid,
            Self::Integer { span, axis, .. } => grid((0..=*span).map(|offset| axis.unit(offset as f64)).collect()),
            Self::Discrete { values, axis } => grid(values.iter().map(|value| axis.unit(value - values[0])).collect()),
            Self::Categorical { levels } => FeatureKind::Categorical { levels: levels.len() },
        }
    }

    /// Number of values; `None` for a double of a wide range.
    pub(super) fn cardinality(&self) -> Option<u128> {
        match self {
            Self::Double { listed, .. } => listed.map(|doubles| u128::from(doubles.count())),
            Self::Integer { span, .. } => Some(u128::from(*span) + 1),
            Self::Discrete { values, .. } => Some(values.len() as u128),
            Self::Categorical { levels } => Some(levels.len() as u128),
        }
    }

    /// Coordinate of `value`; `None` if it is infeasible.
    pub(super) fn encode(&self, value: &ParameterValue, kind: &FeatureKind) -> Option<f64> {
        if let (Self::Double { min, max, axis, .. }, ParameterValue::Double(value), false) =
            (self, value, is_grid(kind))
        {
            return (min <= value && value <= max).then(|| axis.unit(value - min));
        }
        self.ordinal(value).map(|ordinal| self.coordinate_at(ordinal, kind))
    }

    /// Value nearest to coordinate `u`.
    pub(super) fn decode(&self, u: f64, kind: &FeatureKind) -> ParameterValue {
        match self {
            Self::Double { min, max, axis, .. } if !is_grid(kind) => {
                ParameterValue::Double(double_at(u, [*min, *max], axis))
            }
            _ => self.value_at(self.nearest_ordinal(u, kind)),
        }
    }

    pub(super) fn snap(&self, u: f64, kind: &FeatureKind) -> f64 {
        match self {
            Self::Double { listed: None, .. } => clip(u),
            _ => self.coordinate_at(self.nearest_ordinal(u, kind), kind),
        }
    }

    /// Implements [`super::Encoding::coordinate_from_uniform`].
    pub(super) fn coordinate_from_uniform(&self, uniform: f64, kind: &FeatureKind) -> f64 {
        let uniform = clip(uniform);
        let ordinal = match self {
            Self::Double { .. } if !is_grid(kind) => return uniform,
            Self::Double { .. } => self.nearest_ordinal(uniform, kind),
            // The widened range starts half a step below the lower bound.
            Self::Integer { padded, span, .. } => ((padded.offset(uniform) - 0.5).round() as u64).min(*span),
            Self::Discrete { values, .. } => pick(values.len(), uniform),
            Self::Categorical { levels } => pick(levels.len(), uniform),
        };
        self.coordinate_at(ordinal, kind)
    }

    /// Component of a key; `None` if `value` is infeasible.
    pub(super) fn code(&self, value: &ParameterValue, kind: &FeatureKind) -> Option<u64> {
        match self {
            Self::Double { listed: None, .. } => self.encode(value, kind).map(|u| (u * DOUBLE_ORDINALS).round() as u64),
            _ => self.ordinal(value),
        }
    }

    /// Value with the code `ordinal`, or the last value if `ordinal` is too large.
    pub(super) fn value_at(&self, ordinal: u64) -> ParameterValue {
        let index = |length: usize| usize::try_from(ordinal).map_or(length - 1, |ordinal| ordinal.min(length - 1));
        match self {
            Self::Double { listed: Some(doubles), .. } => ParameterValue::Double(doubles.value(ordinal)),
            Self::Double { min, max, axis, listed: None } => {
                ParameterValue::Double((min + axis.offset(ordinal as f64 / DOUBLE_ORDINALS)).clamp(*min, *max))
            }
            Self::Integer { min, span, .. } => ParameterValue::Integer(min.saturating_add_unsigned(ordinal.min(*span))),
            Self::Discrete { values, .. } => ParameterValue::Discrete(values[index(values.len())]),
            Self::Categorical { levels } => ParameterValue::Categorical(levels[index(levels.len())].clone()),
        }
    }

    /// Position of `value` among the feasible values, from 0; `None` if it is infeasible, or a double of a wide range.
    pub(super) fn ordinal(&self, value: &ParameterValue) -> Option<u64> {
        match (self, value) {
            (Self::Double { listed: Some(doubles), .. }, ParameterValue::Double(value)) => doubles.number(*value),
            (Self::Integer { min, span, .. }, ParameterValue::Integer(value)) => {
                (value >= min).then(|| value.abs_diff(*min)).filter(|offset| offset <= span)
            }
            (Self::Discrete { values, .. }, ParameterValue::Discrete(value)) => {
                let index = values.partition_point(|other| other < value);
                (values.get(index) == Some(value)).then_some(index as u64)
            }
            (Self::Categorical { levels }, ParameterValue::Categorical(value)) => {
                levels.binary_search(value).ok().map(|index| index as u64)
            }
            _ => None,
        }
    }

    /// Coordinate of the value at `ordinal`, which must be in range; 0 for a double of a wide range, which has no
    /// ordinals.
    pub(super) fn coordinate_at(&self, ordinal: u64, kind: &FeatureKind) -> f64 {
        match (self, kind) {
            (_, FeatureKind::Grid { points }) => points[ordinal as usize],
            (Self::Integer { axis, .. }, _) => axis.unit(ordinal as f64),
            (Self::Double { min, axis, listed: Some(doubles), .. }, _) => axis.unit(doubles.value(ordinal) - min),
            _ => ordinal as f64,
        }
    }

    /// Ordinal of the value nearest to coordinate `u`; on ties the lower one.
    pub(super) fn nearest_ordinal(&self, u: f64, kind: &FeatureKind) -> u64 {
        match (self, kind) {
            (_, FeatureKind::Grid { points }) => nearest(points, u) as u64,
            (Self::Integer { axis, span, .. }, _) => (axis.offset(u).round() as u64).min(*span),
            (Self::Categorical { levels }, _) => (u.round().max(0.0) as u64).min(levels.len() as u64 - 1),
            (Self::Double { min, max, axis, listed: Some(doubles) }, _) => {
                doubles.number(double_at(u, [*min, *max], axis)).unwrap_or(0)
            }
            (Self::Double { listed: None, .. } | Self::Discrete { .. }, _) => 0,
        }
    }
}

/// Double at coordinate `u` of `axis`, with a short text if one is within the rounding error.
fn double_at(u: f64, [min, max]: [f64; 2], axis: &Axis) -> f64 {
    // The ends are exact: lower end plus width may miss the upper one.
    if u >= 1.0 {
        max
    } else if u > 0.0 {
        axis.shortened(min, (min + axis.offset(u)).clamp(min, max)).clamp(min, max)
    } else {
        min
    }
}

fn is_grid(kind: &FeatureKind) -> bool {
    matches!(kind, FeatureKind::Grid { .. })
}

/// Grid of non-decreasing coordinates from 0 to 1.
///
/// Coordinates that coincide in double precision (of 1e-300 next to 1e300, say) move to neighbouring doubles, so that
/// each value has its own coordinate.
fn grid(mut points: Vec<f64>) -> FeatureKind {
    for index in 1..points.len() {
        points[index] = points[index].max(points[index - 1].next_up());
    }
    if let Some(last) = points.last_mut() {
        *last = 1.0;
    }
    for index in (1..points.len()).rev() {
        points[index - 1] = points[index - 1].min(points[index].next_down());
    }
    FeatureKind::Grid { points }
}

/// Index of the point nearest to `u`, on ties the lower one; `points` is increasing and not empty.
fn nearest(points: &[f64], u: f64) -> usize {
    let u = clip(u);
    let above = points.partition_point(|&point| point < u);
    if above == 0 {
        return 0;
    }
    if above == points.len() || u - points[above - 1] <= points[above] - u { above - 1 } else { above }
}

/// Index selected by `uniform` in `[0, 1)` among `length` equally likely indices.
fn pick(length: usize, uniform: f64) -> u64 {
    ((uniform * length as f64) as u64).min(length as u64 - 1)
}
