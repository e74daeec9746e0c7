//! Parameters: kind, range, scale, condition, prior and values.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::doubles::Doubles;
use super::{Condition, ParameterPrior};

/// Maximum number of values of a discrete parameter (AI Platform's published limit).
pub const MAX_DISCRETE_VALUES: usize = 1000;

/// A named parameter with a validated range.
///
/// ```
/// use tunesmith_algorithms::problem::{ParameterKind, ParameterSpec, ParameterSpecError, ScaleType};
///
/// let kind = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLog };
/// let error = ParameterSpec::new("learning_rate", kind).unwrap_err();
/// assert!(matches!(error, ParameterSpecError::LogOfNonPositive { .. }));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedParameterSpec", into = "UncheckedParameterSpec")]
pub struct ParameterSpec {
    name: String,
    kind: ParameterKind,
    condition: Option<Condition>,
    prior: Option<ParameterPrior>,
}

impl ParameterSpec {
    /// Validates `kind` and names it. The parameter is always active.
    ///
    /// # Errors
    /// The first rule violated by `name` or `kind`; see [`ParameterSpecError`].
    pub fn new(name: impl Into<String>, kind: ParameterKind) -> Result<Self, ParameterSpecError> {
        let name = name.into();
        if name.is_empty() {
            return Err(ParameterSpecError::EmptyName);
        }
        kind.check()?;
        Ok(Self { name, kind, condition: None, prior: None })
    }

    /// Makes the parameter active only where `condition` holds.
    pub fn with_condition(self, condition: Condition) -> Self {
        Self { condition: Some(condition), ..self }
    }

    /// Makes the parameter always active.
    pub(super) fn without_condition(self) -> Self {
        Self { condition: None, ..self }
    }

    /// Adds a prior of the best value.
    ///
    /// # Errors
    /// [`ParameterSpecError::PriorOfOtherKind`] and the other variants about priors.
    pub fn with_prior(self, prior: ParameterPrior) -> Result<Self, ParameterSpecError> {
        prior.check(&self.kind, |value| self.contains(value))?;
        Ok(Self { prior: Some(prior), ..self })
    }

    /// Name used by trials and trainers.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Kind, range and scale.
    pub fn kind(&self) -> &ParameterKind {
        &self.kind
    }

    /// Activation condition; `None` if the parameter is always active.
    pub fn condition(&self) -> Option<&Condition> {
        self.condition.as_ref()
    }

    /// Prior of the best value, if any.
    pub fn prior(&self) -> Option<&ParameterPrior> {
        self.prior.as_ref()
    }

    /// Number of distinct values; `None` for a double, unless its range has at most 2^32 representable numbers.
    pub fn cardinality(&self) -> Option<u64> {
        match &self.kind {
            ParameterKind::Double { min, max, .. } => Doubles::between(*min, *max).map(Doubles::count),
            // The difference of two i64 fits u64; plus one may not.
            ParameterKind::Integer { min, max, .. } => max.abs_diff(*min).checked_add(1),
            ParameterKind::Discrete { values, .. } => Some(values.len() as u64),
            ParameterKind::Categorical { values } => Some(values.len() as u64),
        }
    }

    /// Whether `value` is of this kind and inside the range, bounds included.
    pub fn contains(&self, value: &ParameterValue) -> bool {
        match (&self.kind, value) {
            (ParameterKind::Double { min, max, .. }, ParameterValue::Double(x)) => min <= x && x <= max,
            (ParameterKind::Integer { min, max, .. }, ParameterValue::Integer(k)) => min <= k && k <= max,
            (ParameterKind::Discrete { values, .. }, ParameterValue::Discrete(x)) => values.contains(x),
            (ParameterKind::Categorical { values }, ParameterValue::Categorical(level)) => values.contains(level),
            _ => false,
        }
    }
}

/// The four kinds of parameter of AI Platform.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ParameterKind {
    /// Real number in `[min, max]`.
    Double {
        /// Lower bound, inclusive; finite.
        min: f64,
        /// Upper bound, inclusive; finite.
        max: f64,
        /// Map of the range to the unit interval.
        scale: ScaleType,
    },
    /// Integer in `[min, max]`.
    Integer {
        /// Lower bound, inclusive.
        min: i64,
        /// Upper bound, inclusive.
        max: i64,
        /// Map of the range to the unit interval.
        scale: ScaleType,
    },
    /// One of a list of numbers, whose order and spacing matter.
    Discrete {
        /// Feasible values: finite, strictly increasing, 1 to [`MAX_DISCRETE_VALUES`].
        values: Vec<f64>,
        /// Map of the range to the unit interval.
        scale: ScaleType,
    },
    /// One of a list of strings, without order.
    Categorical {
        /// Feasible levels, pairwise different, at least one.
        values: Vec<String>,
    },
}

impl ParameterKind {
    fn check(&self) -> Result<(), ParameterSpecError> {
        match self {
            Self::Double { min, max, scale } => check_range(*min, *max, *scale),
            Self::Integer { min, max, scale } => check_range(*min as f64, *max as f64, *scale),
            Self::Discrete { values, scale } => {
                let (Some(first), Some(last)) = (values.first(), values.last()) else {
                    return Err(ParameterSpecError::NoValues);
                };
                if values.len() > MAX_DISCRETE_VALUES {
                    return Err(ParameterSpecError::TooManyValues { count: values.len() });
                }
                if let Some(index) = values.windows(2).position(|pair| pair[0] >= pair[1]) {
                    return Err(ParameterSpecError::NotIncreasing { index: index + 1, value: values[index + 1] });
                }
                check_range(*first, *last, *scale)
            }
            Self::Categorical { values } => {
                if values.is_empty() {
                    return Err(ParameterSpecError::NoValues);
                }
                for (index, value) in values.iter().enumerate() {
                    if values[..index].contains(value) {
                        return Err(ParameterSpecError::RepeatedLevel { index, value: value.clone() });
                    }
                }
                Ok(())
            }
        }
    }
}

fn check_range(min: f64, max: f64, scale: ScaleType) -> Result<(), ParameterSpecError> {
    for bound in [min, max] {
        if !bound.is_finite() {
            return Err(ParameterSpecError::NotFinite { value: bound });
        }
    }
    if min > max {
        return Err(ParameterSpecError::EmptyRange { min, max });
    }
    // Encodings compute the width and the sum of the bounds, so both must be representable.
    if !(max - min).is_finite() || !(max + min).is_finite() {
        return Err(ParameterSpecError::RangeTooWide { min, max });
    }
    if scale != ScaleType::UnitLinear && min <= 0.0 {
        return Err(ParameterSpecError::LogOfNonPositive { min, scale });
    }
    Ok(())
}

/// Map of a range to `[0, 1]`, which determines where the search is finer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum ScaleType {
    /// Uniform.
    #[default]
    UnitLinear,
    /// Logarithmic: finest near the lower bound. Requires a positive range.
    UnitLog,
    /// Mirror image of [`ScaleType::UnitLog`]: finest near the upper bound. Requires a positive range.
    UnitReverseLog,
}

/// The published name.
impl fmt::Display for ScaleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnitLinear => "UNIT_LINEAR_SCALE",
            Self::UnitLog => "UNIT_LOG_SCALE",
            Self::UnitReverseLog => "UNIT_REVERSE_LOG_SCALE",
        })
    }
}

/// Value of one parameter in one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ParameterValue {
    /// Of a [`ParameterKind::Double`].
    Double(f64),
    /// Of a [`ParameterKind::Integer`].
    Integer(i64),
    /// Of a [`ParameterKind::Discrete`].
    Discrete(f64),
    /// Of a [`ParameterKind::Categorical`].
    Categorical(String),
}

impl fmt::Display for ParameterValue {
    /// Formats the value for trainers. Whole discrete values have no decimal point, because many trainers parse them as
    /// `int`. Doubles use the shortest text that parses to the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Above this, not every integer is representable as a double.
        const LARGEST_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Discrete(value) if value.fract() == 0.0 && value.abs() <= LARGEST_EXACT_INTEGER => {
                write!(f, "{}", *value as i64)
            }
            Self::Double(value) | Self::Discrete(value) => write!(f, "{value:?}"),
            Self::Categorical(value) => f.write_str(value),
        }
    }
}

/// Rule violated by the definition of a parameter.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterSpecError {
    /// The name is the empty string.
    #[error("a parameter needs a name")]
    EmptyName,
    /// A bound or discrete value is NaN or infinite.
    #[error("{value} is not a finite number")]
    NotFinite {
        /// Offending bound or value.
        value: f64,
    },
    /// The lower bound is above the upper bound.
    #[error("the lower bound {min:?} is above the upper bound {max:?}")]
    EmptyRange {
        /// Lower bound.
        min: f64,
        /// Upper bound.
        max: f64,
    },
    /// The bounds are so far apart that their difference or sum overflows.
    #[error("the range from {min:?} to {max:?} is too wide for double precision")]
    RangeTooWide {
        /// Lower bound.
        min: f64,
        /// Upper bound.
        max: f64,
    },
    /// A logarithmic scale over a range that is not strictly positive.
    #[error("{scale} needs a strictly positive range, but it starts at {min:?}")]
    LogOfNonPositive {
        /// Lower bound.
        min: f64,
        /// Requested scale.
        scale: ScaleType,
    },
    /// A discrete or categorical parameter has no values.
    #[error("at least one value is needed")]
    NoValues,
    /// There are more discrete values than [`MAX_DISCRETE_VALUES`].
    #[error("{count} values are given, at most {MAX_DISCRETE_VALUES} are allowed")]
    TooManyValues {
        /// Number of values.
        count: usize,
    },
    /// The discrete values do not strictly increase.
    #[error("value {value:?} at index {index} is not above the value before it")]
    NotIncreasing {
        /// Index of the first value that does not exceed its predecessor.
        index: usize,
        /// That value.
        value: f64,
    },
    /// A categorical level is listed twice.
    #[error("level {value:?} at index {index} is listed twice")]
    RepeatedLevel {
        /// Index of the second listing.
        index: usize,
        /// The level.
        value: String,
    },
    /// The prior does not apply to parameters of this kind.
    #[error("the prior does not apply to this kind of parameter, which takes {expected}")]
    PriorOfOtherKind {
        /// Prior that applies.
        expected: &'static str,
    },
    /// The mode of the prior is not a feasible value of the parameter.
    #[error("the mode {mode} of the prior is not a feasible value")]
    PriorModeInfeasible {
        /// Mode as given.
        mode: ParameterValue,
    },
    /// The spread of the prior is out of range or NaN.
    #[error("the spread {spread:?} of the prior is not between {smallest} and 1", smallest = super::SMALLEST_SPREAD)]
    PriorSpread {
        /// Spread as given.
        spread: f64,
    },
    /// A weight is not finite and positive, is repeated, or belongs to a value that the parameter does not have.
    #[error("the weight {weight:?} of {value} is invalid: each feasible value needs one finite weight above 0")]
    PriorWeight {
        /// Value with the weight.
        value: ParameterValue,
        /// Weight as given.
        weight: f64,
    },
    /// A feasible value has no weight.
    #[error("the prior gives {value} no weight")]
    PriorWeightMissing {
        /// Value without a weight.
        value: ParameterValue,
    },
}

/// Serialised form of [`ParameterSpec`], validated when it is deserialised.
#[derive(Serialize, Deserialize)]
struct UncheckedParameterSpec {
    name: String,
    kind: ParameterKind,
    /// Absent in records that predate conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    condition: Option<Condition>,
    /// Absent in records that predate priors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prior: Option<ParameterPrior>,
}

impl TryFrom<UncheckedParameterSpec> for ParameterSpec {
    type Error = ParameterSpecError;

    fn try_from(unchecked: UncheckedParameterSpec) -> Result<Self, Self::Error> {
        let spec = Self { condition: unchecked.condition, ..Self::new(unchecked.name, unchecked.kind)? };
        match unchecked.prior {
            Some(prior) => spec.with_prior(prior),
            None => Ok(spec),
        }
    }
}

impl From<ParameterSpec> for UncheckedParameterSpec {
    fn from(spec: ParameterSpec) -> Self {
        Self { name: spec.name, kind: spec.kind, condition: spec.condition, prior: spec.prior }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discrete(values: &[f64]) -> ParameterKind {
        ParameterKind::Discrete { values: values.to_vec(), scale: ScaleType::UnitLinear }
    }

    #[test]
    fn values_are_formatted_for_trainers() {
        assert_eq!(ParameterValue::Integer(-3).to_string(), "-3");
        assert_eq!(ParameterValue::Discrete(32.0).to_string(), "32");
        assert_eq!(ParameterValue::Discrete(0.5).to_string(), "0.5");
        assert_eq!(ParameterValue::Discrete(1e300).to_string(), "1e300");
        assert_eq!(ParameterValue::Double(1e-7).to_string(), "1e-7");
        assert_eq!(ParameterValue::Double(0.1).to_string(), "0.1");
        assert_eq!(ParameterValue::Double(2.0).to_string(), "2.0");
        assert_eq!(ParameterValue::Categorical("a b".into()).to_string(), "a b");
    }

    #[test]
    fn invalid_definitions_of_each_kind_are_rejected() {
        let check = |kind| ParameterSpec::new("p", kind).map(|_| ());
        assert_eq!(check(discrete(&[])), Err(ParameterSpecError::NoValues));
        assert_eq!(check(discrete(&[1.0, 1.0])), Err(ParameterSpecError::NotIncreasing { index: 1, value: 1.0 }));
        let many: Vec<f64> = (0..=MAX_DISCRETE_VALUES).map(|i| i as f64).collect();
        assert_eq!(check(discrete(&many)), Err(ParameterSpecError::TooManyValues { count: 1001 }));
        assert_eq!(check(discrete(&many[..1000])), Ok(()));
        let levels = vec!["a".to_owned(), "b".to_owned(), "a".to_owned()];
        assert_eq!(
            check(ParameterKind::Categorical { values: levels }),
            Err(ParameterSpecError::RepeatedLevel { index: 2, value: "a".into() })
        );
        let wide = ParameterKind::Double { min: -1e308, max: 1e308, scale: ScaleType::UnitLinear };
        assert_eq!(check(wide), Err(ParameterSpecError::RangeTooWide { min: -1e308, max: 1e308 }));
        let nan = ParameterKind::Double { min: 0.0, max: f64::NAN, scale: ScaleType::UnitLinear };
        assert!(matches!(check(nan), Err(ParameterSpecError::NotFinite { .. })));
        assert_eq!(ParameterSpec::new("", discrete(&[1.0])), Err(ParameterSpecError::EmptyName));
    }

    #[test]
    fn widest_integer_range_has_no_cardinality() {
        let kind = ParameterKind::Integer { min: i64::MIN, max: i64::MAX, scale: ScaleType::UnitLinear };
        assert_eq!(ParameterSpec::new("k", kind).unwrap().cardinality(), None);
    }
}
