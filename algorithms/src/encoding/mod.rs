//! Points of a search space as vectors in the unit cube, and the inverse.
//!
//! The only module that applies a [`ScaleType`](crate::problem::ScaleType) (in `axis`). Not here: random points (see
//! [`crate::sampling`]) and distances between points, which belong to the models.
//!
//! | scale | feature `u(x)` | value `x(u)` |
//! | --- | --- | --- |
//! | linear | `(x - lo) / (hi - lo)` | `lo + u (hi - lo)` |
//! | log | `ln(x / lo) / L`, `L = ln(hi / lo)` | `lo exp(u L)` |
//! | reverse log | `1 - ln((lo + hi - x) / lo) / L` | `lo + hi - lo exp((1 - u) L)` |
//!
//! Features are ordered by the *name* of the parameter, and the levels of a categorical parameter are numbered by
//! *name*, so the order of a problem's definition has no effect. A parameter with one value is not a feature;
//! [`Encoding::decode`] adds its value.
//!
//! # Conditional parameters
//! An inactive feature keeps its place in the vector and has its *neutral* coordinate there: 0.5 for an ordered feature
//! (on a grid or not), the number of levels, which is the code of no level, for a categorical one. A vector whose
//! inactive coordinates are neutral is *canonical*; each point has one canonical vector. A model that compares vectors
//! coordinate by coordinate thus sees no distance between two points along features that are inactive in both. This is
//! a fixed feature map, under which every positive semi-definite kernel remains positive semi-definite.

mod activity;
mod axis;
mod bounds;
mod codec;
mod conditional;
mod numbering;
#[cfg(test)]
mod tests;

use activity::{Activity, ParentCondition};
use codec::Codec;

pub use self::axis::reverse_log_share_at_upper_end;
pub use self::bounds::{AtBound, Bound, at_bounds};
pub use self::numbering::PointNumbering;
use crate::problem::{ParameterSpec, ParameterValue, ParameterValues, SearchSpace, ValueError};

/// Integers with more values than this are [`FeatureKind::LargeGrid`].
///
/// Equals the published limit for discrete values, so that every discrete parameter is a [`FeatureKind::Grid`].
pub const MAX_GRID_POINTS: u64 = crate::problem::MAX_DISCRETE_VALUES as u64;

/// Component of a [`Key`] for an inactive feature. The widest integer has a value with this ordinal, but the ordinals
/// above it determine whether a feature is active, so no two points share a key.
const INACTIVE_ORDINAL: u64 = u64::MAX;

/// Values without an encoding: they are not a point of the space.
pub type EncodingError = ValueError;

/// Coordinate of an encoded point.
#[derive(Debug, Clone, PartialEq)]
pub struct Feature {
    /// Name of the parameter.
    pub name: String,
    /// Feasible coordinates.
    pub kind: FeatureKind,
}

/// Feasible coordinates of a feature.
#[derive(Debug, Clone, PartialEq)]
pub enum FeatureKind {
    /// All of `[0, 1]`, for a double.
    Continuous,
    /// Some points of `[0, 1]`, for a discrete parameter, or an integer or a double with at most [`MAX_GRID_POINTS`] values.
    Grid {
        /// Feasible coordinates: at least two, strictly increasing from exactly 0 to exactly 1.
        points: Vec<f64>,
    },
    /// Too many points of `[0, 1]` to list, for an integer with more than [`MAX_GRID_POINTS`] values, or a double whose
    /// range has more representable numbers than that and at most 2^32. Optimisers treat the feature as continuous and
    /// snap the result.
    LargeGrid,
    /// The integers from 0 to `levels - 1`, without order; `levels` itself means inactive.
    Categorical {
        /// Number of levels, at least two.
        levels: usize,
    },
}

impl FeatureKind {
    /// Whether the coordinates have no order.
    pub fn is_categorical(&self) -> bool {
        matches!(self, Self::Categorical { .. })
    }
}

/// The map between points of one search space and vectors with one coordinate per [`Feature`].
///
/// ```
/// use tunesmith_algorithms::encoding::Encoding;
/// use tunesmith_algorithms::problem::{ParameterKind, ParameterSpec, ParameterValue, ScaleType, SearchSpace};
///
/// let kind = ParameterKind::Double { min: 1e-4, max: 1.0, scale: ScaleType::UnitLog };
/// let space = SearchSpace::new(vec![ParameterSpec::new("learning_rate", kind)?])?;
/// let encoding = Encoding::new(&space);
/// let ParameterValue::Double(centre) = encoding.decode(&[0.5])["learning_rate"] else { panic!("expected a double") };
/// assert!((centre - 1e-2).abs() < 1e-15);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Encoding {
    features: Vec<Feature>,
    /// One per feature, in feature order.
    codecs: Vec<Codec>,
    activity: Activity,
    /// Parameters with one value, by name.
    fixed: Vec<Fixed>,
    cardinality: Option<u64>,
}

#[derive(Debug, Clone)]
struct Fixed {
    name: String,
    value: ParameterValue,
    /// Activation condition; `None` means always active.
    condition: Option<ParentCondition>,
}

impl Encoding {
    /// Encoding of `space`.
    pub fn new(space: &SearchSpace) -> Self {
        let mut by_name: Vec<usize> = (0..space.parameters().len()).collect();
        by_name.sort_by_key(|&index| space.parameters()[index].name());
        let mut encoding = Self {
            features: Vec::with_capacity(by_name.len()),
            codecs: Vec::with_capacity(by_name.len()),
            activity: Activity::default(),
            fixed: Vec::new(),
            cardinality: space.cardinality(),
        };
        let is_fixed = |parameter: &ParameterSpec| parameter.cardinality() == Some(1);
        let mut feature_of = vec![None; by_name.len()];
        for &index in &by_name {
            let parameter = &space.parameters()[index];
            if !is_fixed(parameter) {
                feature_of[index] = Some(encoding.features.len());
                let codec = Codec::new(parameter.kind());
                encoding.features.push(Feature { name: parameter.name().to_owned(), kind: codec.feature_kind() });
                encoding.codecs.push(codec);
            }
        }
        for &index in &by_name {
            let condition = encoding.condition(space, index, &feature_of);
            let parameter = &space.parameters()[index];
            if is_fixed(parameter) {
                let value = Codec::new(parameter.kind()).value_at(0);
                encoding.fixed.push(Fixed { name: parameter.name().to_owned(), value, condition });
            } else {
                encoding.activity.conditions.push(condition);
            }
        }
        encoding.activity.sort_top_down();
        encoding
    }

    /// Condition of the parameter at `index`. A parent with one value always has that value, so its own condition
    /// applies.
    fn condition(&self, space: &SearchSpace, index: usize, feature_of: &[Option<usize>]) -> Option<ParentCondition> {
        let mut child = index;
        loop {
            let parent = space.parent(child)?;
            if let Some(feature) = feature_of[parent] {
                let values = space.parameters()[child].condition()?.values();
                let mut ordinals: Vec<u64> =
                    values.iter().filter_map(|value| self.codecs[feature].ordinal(value)).collect();
                ordinals.sort_unstable();
                return Some(ParentCondition { parent: feature, ordinals });
            }
            child = parent;
        }
    }

    /// Features by name; empty if the space is a single point.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// Whether each feature is categorical.
    pub fn categorical(&self) -> Vec<bool> {
        self.features().iter().map(|feature| feature.kind.is_categorical()).collect()
    }

    /// Number of features.
    pub fn dimensions(&self) -> usize {
        self.features.len()
    }

    /// Number of distinct points of the space; `None` if it is infinite or above `u64::MAX`.
    pub fn cardinality(&self) -> Option<u64> {
        self.cardinality
    }

    /// Number of values of a feature while it is active, from 2 to 2^64; `None` for a double of a wide range.
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`].
    pub fn feature_cardinality(&self, feature: usize) -> Option<u128> {
        self.codecs[feature].cardinality()
    }

    /// Canonical vector of `values`, shape `[dimensions]`. Each coordinate is feasible for its feature, or neutral.
    ///
    /// # Errors
    /// The first missing, infeasible, inactive or unknown parameter.
    pub fn encode(&self, values: &ParameterValues) -> Result<Vec<f64>, EncodingError> {
        self.map_point(values, Codec::encode, |feature| self.neutral(feature))
    }

    /// Feasible point nearest to `vector`, coordinate by coordinate. Only active parameters have values; coordinates of
    /// inactive features are ignored.
    ///
    /// Coordinates are first clipped to their range. NaN counts as the lower end, so that the result is feasible;
    /// passing NaN is an error of the caller.
    ///
    /// # Panics
    /// If the length of `vector` is not [`Self::dimensions`].
    pub fn decode(&self, vector: &[f64]) -> ParameterValues {
        self.check_length(vector.len());
        let active = self.active(vector);
        self.build_point(
            |index| self.value(index, vector[index]),
            |condition| Activity::is_active(condition, &active, |parent| self.ordinal(parent, vector[parent])),
        )
    }

    /// Parameter value nearest to `coordinate` of its feature, as in [`Self::decode`].
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`].
    pub fn value(&self, feature: usize, coordinate: f64) -> ParameterValue {
        self.codecs[feature].decode(coordinate, &self.features[feature].kind)
    }

    /// Moves each coordinate to the nearest feasible one, or to the neutral one if it is inactive. Equivalent to
    /// decoding and encoding.
    ///
    /// # Panics
    /// If the length of `vector` is not [`Self::dimensions`].
    pub fn snap(&self, vector: &mut [f64]) {
        self.check_length(vector.len());
        for ((coordinate, codec), feature) in vector.iter_mut().zip(&self.codecs).zip(&self.features) {
            *coordinate = codec.snap(*coordinate, &feature.kind);
        }
        self.canonicalize(vector);
    }

    /// Coordinate for a number drawn uniformly from `[0, 1)`. Non-decreasing in `uniform`, except for levels, which
    /// have no order.
    ///
    /// Doubles are uniform on their scale. Integers are drawn on their scale from the range widened by half a step at
    /// both ends and rounded, so that the end values are as likely as their neighbours. Discrete values and levels are
    /// equally likely.
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`].
    pub fn coordinate_from_uniform(&self, feature: usize, uniform: f64) -> f64 {
        self.codecs[feature].coordinate_from_uniform(uniform, &self.features[feature].kind)
    }

    /// Value of the parameter `name` if it has only one and is therefore not a feature.
    pub fn fixed_value(&self, name: &str) -> Option<&ParameterValue> {
        self.fixed.iter().find(|fixed| fixed.name == name).map(|fixed| &fixed.value)
    }

    /// Key that is equal for two points if they are the same trial. Doubles are equal if their coordinates agree to
    /// about `2^-40`.
    ///
    /// # Errors
    /// The first missing, infeasible, inactive or unknown parameter.
    pub fn key(&self, values: &ParameterValues) -> Result<Key, EncodingError> {
        Ok(Key(self.map_point(values, Codec::code, |_| INACTIVE_ORDINAL)?.into()))
    }

    /// Point with the given ordinals (see [`Key::ordinals`]). Doubles decode to within `2^-41`. Ordinals that are too
    /// large count as the last value; ordinals of inactive features are ignored.
    ///
    /// # Panics
    /// If the length of `ordinals` is not [`Self::dimensions`].
    pub fn point_at(&self, ordinals: &[u64]) -> ParameterValues {
        self.check_length(ordinals.len());
        let active = self.active_by(|feature| ordinals[feature]);
        self.build_point(
            |index| self.codecs[index].value_at(ordinals[index]),
            |condition| Activity::is_active(condition, &active, |parent| ordinals[parent]),
        )
    }

    /// Point with `value` of each feature. `is_active` evaluates a condition.
    fn build_point(
        &self,
        value: impl Fn(usize) -> ParameterValue,
        is_active: impl Fn(Option<&ParentCondition>) -> bool,
    ) -> ParameterValues {
        let mut values = ParameterValues::new();
        let fixed = self.fixed.iter().filter(|fixed| is_active(fixed.condition.as_ref()));
        values.extend(fixed.map(|fixed| (fixed.name.clone(), fixed.value.clone())));
        let features = self.features.iter().zip(&self.activity.conditions).enumerate();
        let active = features.filter(|(_, (_, condition))| is_active(condition.as_ref()));
        values.extend(active.map(|(index, (feature, _))| (feature.name.clone(), value(index))));
        values
    }

    /// Checks that `values` is a point of the space, and applies `map` to the value of each active feature and
    /// `inactive` to the other features.
    fn map_point<T>(
        &self,
        values: &ParameterValues,
        map: impl Fn(&Codec, &ParameterValue, &FeatureKind) -> Option<T>,
        inactive: impl Fn(usize) -> T,
    ) -> Result<Vec<T>, EncodingError> {
        let missing = |name: &str| EncodingError::Missing { parameter: name.to_owned() };
        let infeasible = |name: &str, value: &ParameterValue| EncodingError::Infeasible {
            parameter: name.to_owned(),
            value: value.clone(),
        };
        let ordinal = |feature: usize| {
            let value = values.get(&self.features[feature].name);
            value.and_then(|value| self.codecs[feature].ordinal(value)).unwrap_or(INACTIVE_ORDINAL)
        };
        let active = self.active_by(ordinal);
        let mut mapped = Vec::with_capacity(self.features.len());
        let mut given = 0;
        for (index, (feature, codec)) in self.features.iter().zip(&self.codecs).enumerate() {
            if !active[index] {
                mapped.push(inactive(index));
                continue;
            }
            let value = values.get(&feature.name).ok_or_else(|| missing(&feature.name))?;
            mapped.push(map(codec, value, &feature.kind).ok_or_else(|| infeasible(&feature.name, value))?);
            given += 1;
        }
        for Fixed { name, value: only, condition } in &self.fixed {
            if Activity::is_active(condition.as_ref(), &active, ordinal) {
                let value = values.get(name).ok_or_else(|| missing(name))?;
                if value != only {
                    return Err(infeasible(name, value));
                }
                given += 1;
            }
        }
        if values.len() == given {
            return Ok(mapped);
        }
        self.superfluous(values, &active, ordinal).map_or(Ok(mapped), Err)
    }

    fn check_length(&self, length: usize) {
        assert_eq!(length, self.features.len(), "a point has one coordinate per feature");
    }
}

/// Identity of a point, for sets of used points. See [`Encoding::key`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Box<[u64]>);

impl Key {
    /// One number per feature: the ordinal of its value, from 0 in increasing order (levels by name); `round(u * 2^40)`
    /// for doubles; `u64::MAX` for inactive features.
    pub fn ordinals(&self) -> &[u64] {
        &self.0
    }
}
