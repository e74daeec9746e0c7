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

mod axis;
mod codec;
#[cfg(test)]
mod tests;

use codec::Codec;

use crate::problem::{ParameterValue, ParameterValues, SearchSpace, ValueError};

/// Integers with more values than this are [`FeatureKind::LargeGrid`].
///
/// It equals the published limit for discrete values, so that every discrete parameter is a [`FeatureKind::Grid`].
pub const MAX_GRID_POINTS: u64 = crate::problem::MAX_DISCRETE_VALUES as u64;

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
    /// The whole numbers from 0 to `levels - 1`, without order.
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
    /// The parameters that have one value.
    fixed: ParameterValues,
    cardinality: Option<u64>,
}

impl Encoding {
    /// The encoding of `space`.
    pub fn new(space: &SearchSpace) -> Self {
        let mut parameters: Vec<_> = space.parameters().iter().collect();
        parameters.sort_by(|a, b| a.name().cmp(b.name()));
        let mut encoding = Self {
            features: Vec::with_capacity(parameters.len()),
            codecs: Vec::with_capacity(parameters.len()),
            fixed: ParameterValues::new(),
            cardinality: space.cardinality(),
        };
        for parameter in parameters {
            let codec = Codec::new(parameter.kind());
            if parameter.cardinality() == Some(1) {
                encoding.fixed.insert(parameter.name().to_owned(), codec.value_at(0));
            } else {
                encoding.features.push(Feature { name: parameter.name().to_owned(), kind: codec.feature_kind() });
                encoding.codecs.push(codec);
            }
        }
        encoding
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

    /// The number of different values of one feature, from 2 to 2^64; `None` for a double.
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`].
    pub fn feature_cardinality(&self, feature: usize) -> Option<u128> {
        self.codecs[feature].cardinality()
    }

    /// The vector of `values`, shape `[dimensions]`; each coordinate feasible for its feature.
    ///
    /// # Errors
    /// The first missing, infeasible or unknown parameter.
    pub fn encode(&self, values: &ParameterValues) -> Result<Vec<f64>, EncodingError> {
        self.map_point(values, Codec::encode)
    }

    /// The feasible point nearest to `vector`, coordinate by coordinate.
    ///
    /// Coordinates are clipped into their range first. A NaN counts as the lower end, because the answer must be
    /// feasible; it is the caller's fault.
    ///
    /// # Panics
    /// If the length of `vector` is not [`Self::dimensions`].
    pub fn decode(&self, vector: &[f64]) -> ParameterValues {
        self.check_length(vector.len());
        self.build_point(|index| self.codecs[index].decode(vector[index], &self.features[index].kind))
    }

    /// Moves each coordinate to the nearest feasible one: the same as decoding and encoding again.
    ///
    /// # Panics
    /// If the length of `vector` is not [`Self::dimensions`].
    pub fn snap(&self, vector: &mut [f64]) {
        self.check_length(vector.len());
        for ((coordinate, codec), feature) in vector.iter_mut().zip(&self.codecs).zip(&self.features) {
            *coordinate = codec.snap(*coordinate, &feature.kind);
        }
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

    /// A key that is equal for two points if they are the same trial: for doubles, if their coordinates agree to
    /// about `2^-40`.
    ///
    /// # Errors
    /// The first missing, infeasible or unknown parameter.
    pub fn key(&self, values: &ParameterValues) -> Result<Key, EncodingError> {
        Ok(Key(self.map_point(values, Codec::code)?.into()))
    }

    /// The point whose features have the given ordinals (see [`Key::ordinals`]); doubles decode to within `2^-41`.
    /// Ordinals beyond the last value count as the last.
    ///
    /// # Panics
    /// If the length of `ordinals` is not [`Self::dimensions`].
    pub fn point_at(&self, ordinals: &[u64]) -> ParameterValues {
        self.check_length(ordinals.len());
        self.build_point(|index| self.codecs[index].value_at(ordinals[index]))
    }

    fn build_point(&self, value: impl Fn(usize) -> ParameterValue) -> ParameterValues {
        let mut values = self.fixed.clone();
        values.extend(self.features.iter().enumerate().map(|(index, feature)| (feature.name.clone(), value(index))));
        values
    }

    /// Applies `map` to the value of each feature, after checking that `values` is a point of the space.
    fn map_point<T>(
        &self,
        values: &ParameterValues,
        map: impl Fn(&Codec, &ParameterValue, &FeatureKind) -> Option<T>,
    ) -> Result<Vec<T>, EncodingError> {
        let missing = |name: &String| EncodingError::Missing { parameter: name.clone() };
        let infeasible = |name: &String, value: &ParameterValue| EncodingError::Infeasible {
            parameter: name.clone(),
            value: value.clone(),
        };
        let mut mapped = Vec::with_capacity(self.features.len());
        for (feature, codec) in self.features.iter().zip(&self.codecs) {
            let value = values.get(&feature.name).ok_or_else(|| missing(&feature.name))?;
            mapped.push(map(codec, value, &feature.kind).ok_or_else(|| infeasible(&feature.name, value))?);
        }
        for (name, only) in &self.fixed {
            let value = values.get(name).ok_or_else(|| missing(name))?;
            if value != only {
                return Err(infeasible(name, value));
            }
        }
        if values.len() > self.features.len() + self.fixed.len() {
            let known = |name: &String| {
                self.fixed.contains_key(name) || self.features.binary_search_by(|f| f.name.cmp(name)).is_ok()
            };
            if let Some(name) = values.keys().find(|name| !known(name)) {
                return Err(EncodingError::Unknown { parameter: name.clone() });
            }
        }
        Ok(mapped)
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
    /// `round(u * 2^40)`.
    pub fn ordinals(&self) -> &[u64] {
        &self.0
    }
}
