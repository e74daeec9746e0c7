//! Users' beliefs about the optimum, over encoded points.
//!
//! Notation: `u` an encoded point, `m_j`, `s_j` mode and spread of an ordered feature's belief, `w_j(c)` the weight of a
//! value relative to the largest one. The features are independent, so
//!
//! `b(u) = - sum_j (u_j - m_j)^2 / (2 s_j^2) + sum_j ln w_j(u_j)`, `ln pi(u) = ln((e^b(u) + e^-7) / (1 + e^-7))`
//!
//! over the *active* features that have a belief: 0 at the mode, below elsewhere, -7 far away. A belief may be wrong as a
//! whole, and then by any distance. Constants are dropped, since a search
//! compares points; so a branch of a conditional space is not punished for having more parameters with beliefs.
//!
//! Measured with the automatic choice on 8 BBOB functions in d = 5, eight instances each: mean difference of the log10 gap
//! to a search without beliefs after 10, 20 and 50 trials (standard errors 0.05 to 0.2), with a spread of 0.1 and of 0.25. A
//! mode that misses by 4% of each range, on average: -1.1, -1.0, -1.2 and -0.9, -1.0, -0.9. A mode in a far corner: 0.0,
//! +0.2, +0.1 and 0.0, +0.1, +0.15. Without doubt, and with a start at the mode alone, the first had 0.0 to 0.4 more to gain,
//! and the second lost 1.3, 1.6, 1.7 and 1.2, 1.0, 0.8. The Parzen estimator, four instances: -0.9, -0.8, -0.5 and -0.8,
//! -0.6, -0.4; in a far corner +0.3, +0.3, +0.2 and +0.3, +0.3, +0.25.
//!
//! Source: Hvarfner et al. 2022, "piBO: Augmenting Acquisition Functions with User Beliefs for Bayesian Optimization",
//! arXiv 2204.11051, where an acquisition function is multiplied by `pi(u)^(beta / n)`. How fast a belief fades is
//! [`FADING`]; SMAC documents a tenth of the number of trials, which is the same for a hundred.
//!
//! The Gaussian process and the Parzen estimator add `ln pi` to their criteria, and random search draws from it. The others
//! make no use of it, and say so in their [`Capabilities`](crate::designer::Capabilities): grid and quasi-random search
//! promise an even spread, and the evolution strategy is for runs so long that a belief has faded.

use crate::encoding::{Encoding, FeatureKind};
use crate::numerics::normal::{distribution, quantile};
use crate::problem::{ParameterKind, ParameterPrior, ParameterSpec, SearchSpace};

/// `beta`: after as many trials the belief counts as much as the density itself, after ten times as many, its tenth root.
pub const FADING: f64 = 10.0;

/// So far below its mode, in natural logarithms, the density of a belief ends: our own, measured above. Without such an end a
/// narrow belief that is wrong outweighs fifty trials.
const DOUBT: f64 = 7.0;

/// The beliefs about all parameters of one space.
#[derive(Debug, Clone, PartialEq)]
pub struct Beliefs {
    /// One per feature; not all are `None`.
    beliefs: Vec<Option<Belief>>,
}

/// The belief about one feature.
#[derive(Debug, Clone, PartialEq)]
enum Belief {
    Normal {
        mode: f64,
        spread: f64,
    },
    /// Coordinates and weights relative to the largest one, by coordinate.
    Weights(Vec<(f64, f64)>),
}

impl Beliefs {
    /// The beliefs that `space`, of which `encoding` is the encoding, states; `None` if there are none about parameters
    /// of more than one value.
    pub fn new(space: &SearchSpace, encoding: &Encoding) -> Option<Self> {
        let belief = |feature: usize| {
            let name = &encoding.features()[feature].name;
            let spec = space.parameters().iter().find(|spec| spec.name() == name)?;
            Belief::new(spec)
        };
        let beliefs: Vec<_> = (0..encoding.dimensions()).map(belief).collect();
        beliefs.iter().any(Option::is_some).then_some(Self { beliefs })
    }

    /// `ln pi` at `point`, shape `[dimensions]`: from -7 to 0.
    pub fn log_density(&self, encoding: &Encoding, point: &[f64]) -> f64 {
        let doubt = (-DOUBT).exp();
        ((self.undoubted(encoding, point).exp() + doubt) / (1.0 + doubt)).ln()
    }

    /// `b` at `point`.
    fn undoubted(&self, encoding: &Encoding, point: &[f64]) -> f64 {
        let active = Active::new(encoding, point);
        let believed = self.beliefs.iter().enumerate().filter(|(feature, _)| active.is(*feature));
        believed.filter_map(|(feature, belief)| Some(belief.as_ref()?.log_density(point[feature]))).sum()
    }

    /// Adds `weight` times the gradient of `ln pi` at `point` to `gradient`, both of shape `[dimensions]`. Features with
    /// weights have none.
    pub fn add_gradient(&self, encoding: &Encoding, point: &[f64], weight: f64, gradient: &mut [f64]) {
        let belief = self.undoubted(encoding, point).exp();
        let weight = weight * belief / (belief + (-DOUBT).exp());
        let active = Active::new(encoding, point);
        for (feature, belief) in self.beliefs.iter().enumerate() {
            if let (Some(Belief::Normal { mode, spread }), true) = (belief, active.is(feature)) {
                gradient[feature] -= weight * (point[feature] - mode) / (spread * spread);
            }
        }
    }

    /// The coordinate of `feature` believed to be the best, feasible; `None` without a belief about it.
    pub fn mode(&self, feature: usize) -> Option<f64> {
        match self.beliefs[feature].as_ref()? {
            Belief::Normal { mode, .. } => Some(*mode),
            Belief::Weights(weights) => {
                // The first of equals.
                let best = weights.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
                best.map(|(coordinate, _)| *coordinate)
            }
        }
    }

    /// The standard deviation of a normal belief about `feature`; `None` if there is no such belief.
    pub fn spread(&self, feature: usize) -> Option<f64> {
        match self.beliefs[feature] {
            Some(Belief::Normal { spread, .. }) => Some(spread),
            _ => None,
        }
    }

    /// The coordinate below which lies the share `uniform`, in `[0, 1)`, of the belief about `feature`; it may need
    /// snapping. `None` without a belief.
    pub fn quantile(&self, feature: usize, uniform: f64) -> Option<f64> {
        Some(match self.beliefs[feature].as_ref()? {
            Belief::Normal { mode, spread } => {
                let share = |bound: f64| distribution((bound - mode) / spread);
                let (low, high) = (share(0.0), share(1.0));
                // The mode lies inside, so that a good part of the density does.
                (mode + spread * quantile(low + uniform * (high - low))).clamp(0.0, 1.0)
            }
            Belief::Weights(weights) => {
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

impl Belief {
    fn new(spec: &ParameterSpec) -> Option<Self> {
        if spec.cardinality() == Some(1) {
            return None;
        }
        // An encoding of this parameter alone has its coordinates: they do not depend on other parameters.
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
            // A ratio of two doubles may vanish; the logarithm must stay a number.
            Self::Weights(weights) => {
                let distance = |entry: &&(f64, f64)| (entry.0 - u).abs();
                let nearest = weights.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
                nearest.map_or(0.0, |(_, weight)| weight.max(f64::MIN_POSITIVE).ln())
            }
        }
    }
}

/// Which features are active at a point, computed only if they may not be.
struct Active(Option<Vec<bool>>);

impl Active {
    fn new(encoding: &Encoding, point: &[f64]) -> Self {
        Self(encoding.is_conditional().then(|| encoding.active(point)))
    }

    fn is(&self, feature: usize) -> bool {
        self.0.as_ref().is_none_or(|active| active[feature])
    }
}

/// The middle of a feature: where a belief has its mode, else the feasible coordinate nearest to 0.5, or the first level.
pub fn middle(beliefs: Option<&Beliefs>, encoding: &Encoding, feature: usize) -> f64 {
    let believed = beliefs.and_then(|beliefs| beliefs.mode(feature));
    believed.unwrap_or_else(|| match &encoding.features()[feature].kind {
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
