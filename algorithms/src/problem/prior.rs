//! Priors: a user's expectation of the best value of a parameter.

use serde::{Deserialize, Serialize};

use super::{ParameterKind, ParameterSpecError, ParameterValue};

/// Prior of the best value of one parameter, independent of the others. It guides the beginning of a search and fades
/// with the number of trials; each designer documents the details.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ParameterPrior {
    /// Normal density in the coordinate of the parameter's scale, truncated at the bounds. Not for categorical
    /// parameters.
    Normal {
        /// Maximum of the density: a feasible value of the parameter.
        mode: ParameterValue,
        /// Standard deviation as a fraction of the range on the parameter's scale, from [`SMALLEST_SPREAD`] to 1.
        spread: f64,
    },
    /// Weight of each value of a discrete or categorical parameter, in any order: finite and above 0. Only the
    /// proportions matter.
    Weights(Vec<(ParameterValue, f64)>),
}

/// Smallest [`ParameterPrior::Normal::spread`]. A narrower prior is practically a constant, and its density overflows
/// in the search.
pub const SMALLEST_SPREAD: f64 = 1e-3;

impl ParameterPrior {
    /// Checks that the prior applies to a parameter of `kind`.
    pub(super) fn check(
        &self,
        kind: &ParameterKind,
        contains: impl Fn(&ParameterValue) -> bool,
    ) -> Result<(), ParameterSpecError> {
        let (values, weights) = match self {
            Self::Normal { mode, spread } => {
                if matches!(kind, ParameterKind::Categorical { .. }) {
                    return Err(ParameterSpecError::PriorOfOtherKind { expected: "a weight for each level" });
                }
                if !contains(mode) {
                    return Err(ParameterSpecError::PriorModeInfeasible { mode: mode.clone() });
                }
                if !(SMALLEST_SPREAD..=1.0).contains(spread) {
                    return Err(ParameterSpecError::PriorSpread { spread: *spread });
                }
                return Ok(());
            }
            Self::Weights(weights) => match kind {
                ParameterKind::Discrete { values, .. } => {
                    (values.iter().copied().map(ParameterValue::Discrete).collect::<Vec<_>>(), weights)
                }
                ParameterKind::Categorical { values } => {
                    (values.iter().cloned().map(ParameterValue::Categorical).collect(), weights)
                }
                _ => return Err(ParameterSpecError::PriorOfOtherKind { expected: "a mode and a spread" }),
            },
        };
        for (index, (value, weight)) in weights.iter().enumerate() {
            let is_new = weights[..index].iter().all(|(other, _)| other != value);
            if !(values.contains(value) && is_new && weight.is_finite() && *weight > 0.0) {
                return Err(ParameterSpecError::PriorWeight { value: value.clone(), weight: *weight });
            }
        }
        match values.into_iter().find(|value| weights.iter().all(|(other, _)| other != value)) {
            Some(value) => Err(ParameterSpecError::PriorWeightMissing { value }),
            None => Ok(()),
        }
    }
}
