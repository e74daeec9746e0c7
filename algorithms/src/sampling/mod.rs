//! Random and quasi-random points of a search space.
//!
//! Both kinds use [`Encoding::coordinate_from_uniform`], which maps a uniform number to each kind of parameter.
//! [`crate::designers`] avoids used points.

mod sobol;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

pub use sobol::sobol_point;

use crate::encoding::Encoding;
use crate::prior::PriorDensity;
use crate::problem::TrialId;
use crate::rng::stream;

/// Endless sequence of independent random points, each of shape `[dimensions]`, feasible and canonical.
///
/// Every parameter has its own stream, keyed by its name, so that the order of parameters and the presence of others
/// have no effect. Inactive conditional parameters are drawn too and then ignored, so each value of a parent is equally
/// likely with and without children.
pub struct RandomPoints<'a> {
    encoding: &'a Encoding,
    streams: Vec<ChaCha8Rng>,
    prior: Option<&'a PriorDensity>,
}

impl<'a> RandomPoints<'a> {
    /// Points for `purpose` in the suggestion of `trial`.
    pub fn new(encoding: &'a Encoding, seed: u64, trial: TrialId, purpose: &str) -> Self {
        let key = |name: &str| format!("{purpose}/{name}");
        let streams = encoding.features().iter().map(|feature| stream(seed, trial, &key(&feature.name))).collect();
        Self { encoding, streams, prior: None }
    }

    /// Draws parameters that have a prior from it.
    pub fn with_prior(self, prior: Option<&'a PriorDensity>) -> Self {
        Self { prior, ..self }
    }
}

impl Iterator for RandomPoints<'_> {
    type Item = Vec<f64>;

    fn next(&mut self) -> Option<Vec<f64>> {
        let coordinate = |(feature, stream): (usize, &mut ChaCha8Rng)| {
            let uniform = stream.random();
            let from_prior = self.prior.and_then(|prior| prior.quantile(feature, uniform));
            from_prior.unwrap_or_else(|| self.encoding.coordinate_from_uniform(feature, uniform))
        };
        let mut point: Vec<f64> = self.streams.iter_mut().enumerate().map(coordinate).collect();
        match self.prior {
            // The prior's density ignores grids.
            Some(_) => self.encoding.snap(&mut point),
            None => self.encoding.canonicalize(&mut point),
        }
        Some(point)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::problem::{ParameterKind, ParameterSpec, ParameterValue, ScaleType, SearchSpace};

    const DRAWS: usize = 20_000;

    fn encoding(kind: ParameterKind) -> Encoding {
        Encoding::new(&SearchSpace::new(vec![ParameterSpec::new("p", kind).unwrap()]).unwrap())
    }

    fn counts(encoding: &Encoding, points: impl Iterator<Item = Vec<f64>>) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for point in points.take(DRAWS) {
            *counts.entry(encoding.decode(&point)["p"].to_string()).or_default() += 1;
        }
        counts
    }

    fn random(encoding: &Encoding) -> BTreeMap<String, usize> {
        counts(encoding, RandomPoints::new(encoding, 7, TrialId(1), "test"))
    }

    fn sobol(encoding: &Encoding) -> BTreeMap<String, usize> {
        counts(encoding, (1..).map(|id| sobol_point(encoding, 7, TrialId(id))))
    }

    /// Checks that `count` is within 3 standard deviations of a binomial with this probability.
    fn assert_frequency(count: usize, probability: f64) {
        let expected = DRAWS as f64 * probability;
        let deviation = (expected * (1.0 - probability)).sqrt();
        assert!((count as f64 - expected).abs() <= 3.0 * deviation, "{count} draws, {expected} expected");
    }

    #[test]
    fn values_of_an_evenly_spaced_parameter_are_equally_likely() {
        let kinds = [
            ParameterKind::Integer { min: -3, max: 6, scale: ScaleType::UnitLinear },
            ParameterKind::Discrete {
                values: (0..10).map(|i| f64::from(i * i)).collect(),
                scale: ScaleType::UnitLinear,
            },
            ParameterKind::Categorical { values: (0..10).map(|i| i.to_string()).collect() },
        ];
        for kind in kinds {
            let encoding = encoding(kind);
            for counts in [random(&encoding), sobol(&encoding)] {
                assert_eq!(counts.len(), 10);
                for &count in counts.values() {
                    assert_frequency(count, 0.1);
                }
            }
        }
    }

    #[test]
    fn integers_on_log_scales_are_drawn_from_the_widened_range() {
        let total = (8.5_f64 / 0.5).ln();
        let expected = |k: f64| ((k + 0.5) / (k - 0.5)).ln() / total;
        for (scale, mirrored) in [(ScaleType::UnitLog, false), (ScaleType::UnitReverseLog, true)] {
            let encoding = encoding(ParameterKind::Integer { min: 1, max: 8, scale });
            for counts in [random(&encoding), sobol(&encoding)] {
                for k in 1..=8 {
                    let value = if mirrored { 9 - k } else { k };
                    assert_frequency(counts[&value.to_string()], expected(f64::from(k)));
                }
            }
        }
    }

    #[test]
    fn doubles_are_uniform_on_their_scale() {
        let encoding = encoding(ParameterKind::Double { min: 1e-6, max: 1.0, scale: ScaleType::UnitLog });
        let mut decades = [0_usize; 6];
        for point in RandomPoints::new(&encoding, 3, TrialId(1), "test").take(DRAWS) {
            let ParameterValue::Double(x) = encoding.decode(&point)["p"] else { panic!("expected a double") };
            decades[(-x.log10()).floor().clamp(0.0, 5.0) as usize] += 1;
        }
        for count in decades {
            assert_frequency(count, 1.0 / 6.0);
        }
    }

    #[test]
    fn draws_of_a_parameter_do_not_depend_on_other_parameters() {
        let kind = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
        let space = |names: &[&str]| {
            let specs = names.iter().map(|name| ParameterSpec::new(*name, kind.clone()).unwrap()).collect();
            Encoding::new(&SearchSpace::new(specs).unwrap())
        };
        let (one, other) = (space(&["b", "a"]), space(&["a", "b", "c"]));
        let first = |encoding: &Encoding| RandomPoints::new(encoding, 1, TrialId(5), "test").next().unwrap();
        assert_eq!(first(&one), first(&other)[..2]);
    }
}
