//! The user's prior density of the optimum, over encoded points.
//!
//! Notation: `u` an encoded point, `m_j`, `s_j` mode and spread of the prior of an ordered feature, `w_j(c)` the weight
//! of a value relative to the largest weight. The features are independent, so
//!
//! `b(u) = - sum_j (u_j - m_j)^2 / (2 s_j^2) + sum_j ln w_j(u_j)`, `ln pi(u) = ln((e^b(u) + e^-7) / (1 + e^-7))`
//!
//! over the *active* features that have a prior: 0 at the mode, below elsewhere, -7 far away. The floor `e^-7` bounds
//! the cost of a wrong prior (measured, see docs/experiments/004). Since a search compares points, constants are
//! dropped, so a branch of a conditional space is not penalised for having more parameters with priors.
//!
//! Source: Hvarfner et al. 2022, "piBO: Augmenting Acquisition Functions with User Beliefs for Bayesian Optimization",
//! arXiv 2204.11051, which multiplies an acquisition function by `pi(u)^(beta / n)`. `beta` is [`DECAY`]; SMAC
//! documents a tenth of the number of trials, which is equal for a hundred trials.
//!
//! The Gaussian process and the Parzen estimator add `ln pi` to their criteria, and random search draws from the prior.
//! The other designers ignore it and declare so in their [`Capabilities`](crate::designer::Capabilities): grid and
//! quasi-random search promise an even spread, and the evolution strategy is for runs so long that the prior has
//! decayed.

use crate::encoding::{Encoding, FeatureKind};
use crate::numerics::normal::{distribution, quantile};
use crate::problem::{ParameterKind, ParameterPrior, ParameterSpec, SearchSpace};

/// `beta`: after this many trials the prior counts as the density itself, after ten times as many as its tenth root.
pub const DECAY: f64 = 10.0;

/// Floor of the density below its mode, in natural logarithms. It is ours: without it, a narrow and wrong prior
/// outweighs fifty trials (measured, see docs/experiments/004).
const FLOOR: f64 = 7.0;

/// Prior density over all parameters of one space.
#[derive(Debug, Clone, PartialEq)]
pub struct PriorDensity {
    /// One per feature; not all are `None`.
    features: Vec<Option<FeaturePrior>>,
}

#[derive(Debug, Clone, PartialEq)]
enum FeaturePrior {
    Normal {
        mode: f64,
        spread: f64,
    },
    /// Coordinates and weights relative to the largest one, by coordinate.
    Weights(Vec<(f64, f64)>),
}

impl PriorDensity {
    /// Prior density of the parameters of `space` with `encoding`; `None` if no parameter with more than one value has
    /// a prior.
    pub fn new(space: &SearchSpace, encoding: &Encoding) -> Option<Self> {
        let feature_prior = |feature: usize| {
            let name = &encoding.features()[feature].name;
            let spec = space.parameters().iter().find(|spec| spec.name() == name)?;
            FeaturePrior::new(spec)
        };
        let features: Vec<_> = (0..encoding.dimensions()).map(feature_prior).collect();
        features.iter().any(Option::is_some).then_some(Self { features })
    }

    /// `ln pi` at `point`, shape `[dimensions]`: from -7 to 0.
    pub fn log_density(&self, encoding: &Encoding, point: &[f64]) -> f64 {
        let floor = (-FLOOR).exp();
        ((self.unfloored_log_density(encoding, point).exp() + floor) / (1.0 + floor)).ln()
    }

    /// `b` at `point`, the log density without its floor.
    fn unfloored_log_density(&self, encoding: &Encoding, point: &[f64]) -> f64 {
        let active = Active::new(encoding, point);
        let active_features = self.features.iter().enumerate().filter(|(feature, _)| active.is(*feature));
        active_features.filter_map(|(feature, prior)| Some(prior.as_ref()?.log_density(point[feature]))).sum()
    }

    /// Adds `weight` times the gradient of `ln pi` at `point` to `gradient`, both of shape `[dimensions]`. Features with
    /// weights have no gradient.
    pub fn add_gradient(&self, encoding: &Encoding, point: &[f64], weight: f64, gradient: &mut [f64]) {
        let density = self.unfloored_log_density(encoding, point).exp();
        let weight = weight * density / (density + (-FLOOR).exp());
        let active = Active::new(encoding, point);
        for (feature, prior) in self.features.iter().enumerate() {
            if let (Some(FeaturePrior::Normal { mode, spread }), true) = (prior, active.is(feature)) {
                gradient[feature] -= weight * (point[feature] - mode) / (spread * spread);
            }
        }
    }

    /// Mode of the prior of `feature`, feasible; `None` without a prior.
    pub fn mode(&self, feature: usize) -> Option<f64> {
        match self.features[feature].as_ref()? {
            FeaturePrior::Normal { mode, .. } => Some(*mode),
            FeaturePrior::Weights(weights) => {
                // `max_by` on the reversed list returns the first of equals.
                let best = weights.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
                best.map(|(coordinate, _)| *coordinate)
            }
        }
    }

    /// Standard deviation of the normal prior of `feature`; `None` without a normal prior.
    pub fn spread(&self, feature: usize) -> Option<f64> {
        match self.features[feature] {
            Some(FeaturePrior::Normal { spread, .. }) => Some(spread),
            _ => None,
        }
    }

    /// Quantile `uniform`, in `[0, 1)`, of the prior of `feature`; the coordinate may need snapping. `None` without a
    /// prior.
    pub fn quantile(&self, feature: usize, uniform: f64) -> Option<f64> {
        Some(match self.features[feature].as_ref()? {
            FeaturePrior::Normal { mode, spread } => {
                let share = |bound: f64| distribution((bound - mode) / spread);
                let (low, high) = (share(0.0), share(1.0));
                // The mode lies inside, so at least about half of the density does.
                (mode + spread * quantile(low + uniform * (high - low))).clamp(0.0, 1.0)
            }
            FeaturePrior::Weights(weights) => {
                let mut left = uniform * weights.iter().map(|(_, weight)| weight).sum::<f64>();
                let mut chosen = weights[0].0;
                for (coordinate, weight) in weights {
                    chosen = *coordinate;
                    if left < *weight {
                        break;
                    }
                    left -= weight;
                }
                chosen
            }
        })
    }
}

impl FeaturePrior {
    fn new(spec: &ParameterSpec) -> Option<Self> {
        if spec.cardinality() == Some(1) {
            return None;
        }
        // Coordinates do not depend on other parameters, so an encoding of this parameter alone suffices.
        let alone = ParameterSpec::new(spec.name(), spec.kind().clone()).ok()?;
        let encoding = Encoding::new(&SearchSpace::new(vec![alone]).ok()?);
        let coordinate = |value: &crate::problem::ParameterValue| {
            encoding.encode(&[(spec.name().to_owned(), value.clone())].into()).ok().map(|point| point[0])
        };
        match spec.prior()? {
            ParameterPrior::Normal { mode, spread } => Some(Self::Normal { mode: coordinate(mode)?, spread: *spread }),
            ParameterPrior::Weights(weights) => {
                let largest = weights.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
                let relative = |(value, weight): &(_, f64)| Some((coordinate(value)?, weight / largest));
                let mut weights: Vec<(f64, f64)> = weights.iter().map(relative).collect::<Option<_>>()?;
                weights.sort_by(|a, b| a.0.total_cmp(&b.0));
                debug_assert!(!matches!(spec.kind(), ParameterKind::Double { .. }));
                Some(Self::Weights(weights))
            }
        }
    }

    fn log_density(&self, u: f64) -> f64 {
        match self {
            Self::Normal { mode, spread } => -0.5 * ((u - mode) / spread).powi(2),
            // The ratio of two weights may underflow to 0; its logarithm must be finite.
            Self::Weights(weights) => {
                let distance = |entry: &&(f64, f64)| (entry.0 - u).abs();
                let nearest = weights.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
                nearest.map_or(0.0, |(_, weight)| weight.max(f64::MIN_POSITIVE).ln())
            }
        }
    }
}

/// Active features at a point, computed only for conditional spaces.
struct Active(Option<Vec<bool>>);

impl Active {
    fn new(encoding: &Encoding, point: &[f64]) -> Self {
        Self(encoding.is_conditional().then(|| encoding.active(point)))
    }

    fn is(&self, feature: usize) -> bool {
        self.0.as_ref().is_none_or(|active| active[feature])
    }
}

/// Middle of a feature: the mode of its prior, or else the feasible coordinate nearest to 0.5, or the first level.
pub fn middle(prior: Option<&PriorDensity>, encoding: &Encoding, feature: usize) -> f64 {
    let mode = prior.and_then(|prior| prior.mode(feature));
    mode.unwrap_or_else(|| match &encoding.features()[feature].kind {
        FeatureKind::Categorical { .. } => 0.0,
        FeatureKind::Grid { points } => {
            let nearest = points.iter().copied().min_by(|a, b| (a - 0.5).abs().total_cmp(&(b - 0.5).abs()));
            nearest.unwrap_or(0.5)
        }
        FeatureKind::Continuous | FeatureKind::LargeGrid => 0.5,
    })
}

#[cfg(test)]
mod tests;
