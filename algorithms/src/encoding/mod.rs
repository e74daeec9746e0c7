//! Points of a search space as vectors in the unit cube, and back.
//!
//! The only place that applies a [`ScaleType`](crate::problem::ScaleType) (in its module `axis`). Not here: drawing points
//! (see [`crate::sampling`]) and any distance between them, which belongs to the models.
//!
//! | scale | feature `u(x)` | value `x(u)` |
//! | --- | --- | --- |
//! | linear | `(x - lo) / (hi - lo)` | `lo + u (hi - lo)` |
//! | log | `ln(x / lo) / L`, `L = ln(hi / lo)` | `lo exp(u L)` |
//! | reverse log | `1 - ln((lo + hi - x) / lo) / L` | `lo + hi - lo exp((1 - u) L)` |
//!
//! Features come in the order of parameter *names* and levels of a categorical parameter are numbered in the order of
//! *their* names, so neither order in a problem's definition changes what an algorithm sees. A parameter with one
//! value is no feature; it is put back by [`Encoding::decode`].
//!
//! # Conditional parameters
//! A feature that is inactive, because of the values of those above it, keeps its place in the vector and has its
//! *neutral* coordinate there: 0.5 if it is ordered (be it on its grid or not), the number of levels, a code of no
//! level, if it is categorical. A vector whose inactive coordinates are neutral is *canonical*; each point has one
//! canonical vector. A model that compares vectors coordinate by coordinate thus sees no distance between two points
//! along features that both lack: a fixed feature map, under which every positive semi-definite kernel stays one.

mod activity;
mod axis;
mod codec;
mod conditional;
#[cfg(test)]
mod conditional_tests;
mod numbering;
#[cfg(test)]
mod tests;

use activity::{Activity, Gate};
use codec::Codec;

pub use self::numbering::PointNumbering;
use crate::problem::{ParameterSpec, ParameterValue, ParameterValues, SearchSpace, ValueError};

/// Integers with more values than this are [`FeatureKind::LargeGrid`].
///
/// It equals the published limit for discrete values, so that every discrete parameter is a [`FeatureKind::Grid`].
pub const MAX_GRID_POINTS: u64 = crate::problem::MAX_DISCRETE_VALUES as u64;

/// Stands in a [`Key`] for an inactive feature. The widest integer has a value with this ordinal, but whether a feature
/// is active is decided by the ordinals above it, so no two points share a key.
const INACTIVE_ORDINAL: u64 = u64::MAX;

/// Why some values have no encoding: they are not a point of the space.
pub type EncodingError = ValueError;

/// One coordinate of an encoded point.
#[derive(Debug, Clone, PartialEq)]
pub struct Feature {
    /// Name of its parameter.
    pub name: String,
    /// Which coordinates are feasible.
    pub kind: FeatureKind,
}

/// Which coordinates of a feature are feasible.
#[derive(Debug, Clone, PartialEq)]
pub enum FeatureKind {
    /// All of `[0, 1]`: a double.
    Continuous,
    /// Some points of `[0, 1]`: a discrete parameter, or an integer of at most [`MAX_GRID_POINTS`] values.
    Grid {
        /// The feasible coordinates, at least two, strictly increasing from exactly 0 to exactly 1.
        points: Vec<f64>,
    },
    /// Points of `[0, 1]` too many to list: an integer of more than [`MAX_GRID_POINTS`] values. To be treated as
    /// continuous by an optimiser and snapped at the end.
    LargeGrid,
    /// The whole numbers from 0 to `levels - 1`, without order; `levels` itself means inactive.
    Categorical {
        /// How many levels, at least two.
        levels: usize,
    },
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
/// let ParameterValue::Double(centre) = encoding.decode(&[0.5])["learning_rate"] else { panic!("a double") };
/// assert!((centre - 1e-2).abs() < 1e-15);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Encoding {
    features: Vec<Feature>,
    /// One per feature, in the same order.
    codecs: Vec<Codec>,
    /// When each feature is active.
    activity: Activity,
    /// The parameters that have one value, in the order of their names.
    fixed: Vec<Fixed>,
    cardinality: Option<u64>,
}

/// A parameter with one value.
#[derive(Debug, Clone)]
struct Fixed {
    name: String,
    value: ParameterValue,
    /// When it is active; `None` means always.
    gate: Option<Gate>,
}

impl Encoding {
    /// The encoding of `space`.
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
            let gate = encoding.gate(space, index, &feature_of);
            let parameter = &space.parameters()[index];
            if is_fixed(parameter) {
                let value = Codec::new(parameter.kind()).value_at(0);
                encoding.fixed.push(Fixed { name: parameter.name().to_owned(), value, gate });
            } else {
                encoding.activity.gates.push(gate);
            }
        }
        encoding.activity.sort_top_down();
        encoding
    }

    /// When the parameter at `index` is active. A parent of one value always has it, so that its children are active
    /// whenever it is.
    fn gate(&self, space: &SearchSpace, index: usize, feature_of: &[Option<usize>]) -> Option<Gate> {
        let mut child = index;
        loop {
            let parent = space.parent(child)?;
            if let Some(feature) = feature_of[parent] {
                let values = space.parameters()[child].condition()?.values();
                let mut ordinals: Vec<u64> =
                    values.iter().filter_map(|value| self.codecs[feature].ordinal(value)).collect();
                ordinals.sort_unstable();
                return Some(Gate { parent: feature, ordinals });
            }
            child = parent;
        }
    }

    /// The features, in the order of their names; none if the space is one point.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// The number of features.
    pub fn dimensions(&self) -> usize {
        self.features.len()
    }

    /// The number of different points of the space; `None` if it is infinite or above `u64::MAX`.
    pub fn cardinality(&self) -> Option<u64> {
        self.cardinality
    }

    /// The number of different values of one feature where it is active, from 2 to 2^64; `None` for a double.
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`].
    pub fn feature_cardinality(&self, feature: usize) -> Option<u128> {
        self.codecs[feature].cardinality()
    }

    /// The canonical vector of `values`, shape `[dimensions]`; each coordinate feasible for its feature, or neutral.
    ///
    /// # Errors
    /// The first missing, infeasible, inactive or unknown parameter.
    pub fn encode(&self, values: &ParameterValues) -> Result<Vec<f64>, EncodingError> {
        self.map_point(values, Codec::encode, |feature| self.neutral(feature))
    }

    /// The feasible point nearest to `vector`, coordinate by coordinate, of active parameters alone: coordinates of
    /// inactive ones do not matter.
    ///
    /// Coordinates are clipped into their range first. A NaN counts as the lower end, because the answer must be
    /// feasible; it is the caller's fault.
    ///
    /// # Panics
    /// If the length of `vector` is not [`Self::dimensions`].
    pub fn decode(&self, vector: &[f64]) -> ParameterValues {
        self.check_length(vector.len());
        let active = self.active(vector);
        self.build_point(
            |index| self.value(index, vector[index]),
            |gate| Activity::opens(gate, &active, |parent| self.ordinal(parent, vector[parent])),
        )
    }

    /// The value of one parameter nearest to `coordinate` of its feature, as in [`Self::decode`].
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`].
    pub fn value(&self, feature: usize, coordinate: f64) -> ParameterValue {
        self.codecs[feature].decode(coordinate, &self.features[feature].kind)
    }

    /// Moves each coordinate to the nearest feasible one, or the neutral one where it is inactive: the same as decoding
    /// and encoding again.
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

    /// The coordinate that a number drawn uniformly from `[0, 1)` stands for. Non-decreasing in `uniform`, except
    /// that levels have no order.
    ///
    /// Doubles are uniform on their scale. Integers are drawn from their scale over the range widened by half a step
    /// at both ends, and rounded, so that the end values are as likely as their neighbours. Each listed discrete
    /// value and each level is equally likely.
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`].
    pub fn coordinate_from_uniform(&self, feature: usize, uniform: f64) -> f64 {
        self.codecs[feature].coordinate_from_uniform(uniform, &self.features[feature].kind)
    }

    /// The value of the parameter `name` if it has no other, and is no feature for that reason.
    pub fn fixed_value(&self, name: &str) -> Option<&ParameterValue> {
        self.fixed.iter().find(|fixed| fixed.name == name).map(|fixed| &fixed.value)
    }

    /// A key that is equal for two points if they are the same trial: for doubles, if their coordinates agree to
    /// about `2^-40`.
    ///
    /// # Errors
    /// The first missing, infeasible, inactive or unknown parameter.
    pub fn key(&self, values: &ParameterValues) -> Result<Key, EncodingError> {
        Ok(Key(self.map_point(values, Codec::code, |_| INACTIVE_ORDINAL)?.into()))
    }

    /// The point whose features have the given ordinals (see [`Key::ordinals`]); doubles decode to within `2^-41`.
    /// Ordinals beyond the last value count as the last, those of inactive features do not matter.
    ///
    /// # Panics
    /// If the length of `ordinals` is not [`Self::dimensions`].
    pub fn point_at(&self, ordinals: &[u64]) -> ParameterValues {
        self.check_length(ordinals.len());
        let active = self.active_by(|feature| ordinals[feature]);
        self.build_point(
            |index| self.codecs[index].value_at(ordinals[index]),
            |gate| Activity::opens(gate, &active, |parent| ordinals[parent]),
        )
    }

    /// The point with `value` of each feature; `opens` tells whether something behind a gate is active.
    fn build_point(
        &self,
        value: impl Fn(usize) -> ParameterValue,
        opens: impl Fn(Option<&Gate>) -> bool,
    ) -> ParameterValues {
        let mut values = ParameterValues::new();
        let fixed = self.fixed.iter().filter(|fixed| opens(fixed.gate.as_ref()));
        values.extend(fixed.map(|fixed| (fixed.name.clone(), fixed.value.clone())));
        let features = self.features.iter().zip(&self.activity.gates).enumerate();
        let active = features.filter(|(_, (_, gate))| opens(gate.as_ref()));
        values.extend(active.map(|(index, (feature, _))| (feature.name.clone(), value(index))));
        values
    }

    /// Applies `map` to the value of each active feature and `inactive` to the others, after checking that `values` is
    /// a point of the space.
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
        for Fixed { name, value: only, gate } in &self.fixed {
            if Activity::opens(gate.as_ref(), &active, ordinal) {
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

/// The identity of a point, for sets of the points already used. See [`Encoding::key`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Box<[u64]>);

impl Key {
    /// One number per feature: the ordinal of its value, from 0 in increasing order (levels: by name); for doubles
    /// `round(u * 2^40)`; for inactive features `u64::MAX`.
    pub fn ordinals(&self) -> &[u64] {
        &self.0
    }
}
