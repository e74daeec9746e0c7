use tunesmith_algorithms::problem::{ParameterSpec, ParameterValue, ParameterValues, ScaleType};

use crate::problems::categorical::{coefficient, name};
use crate::problems::functions::TestFunction;
use crate::problems::functions::builders::{integer, parameter, whole};

/// Number of stages, as in COMBO.
pub(super) const STAGES: usize = 21;
/// Number of simulated chains.
const CHAINS: usize = 100;
/// Contaminated share above which a stage of a chain fails.
const LIMIT: f64 = 0.1;
/// Share of the chains that should not fail.
const TARGET: f64 = 0.95;
/// Stages of the optimum at which contamination is prevented, one bit per stage from the first; found by enumeration.
const OPTIMAL: u32 = 0b101_1011_1011_0110_1101;

/// Contamination control along a food supply chain of 21 stages: where to prevent contamination, at a cost of 1 per
/// stage. A stage without enough uncontaminated chains is penalised.
///
/// Source: Hu, Hu, Xu, Wang & Cao 2010, Contamination control in food supply chain, with the distributions and the
/// penalty of BOCS. The parameters are integers, 0 and 1.
pub fn contamination() -> TestFunction {
    let chains = Chains::new();
    let optimum = chains.cost(|stage| OPTIMAL >> stage & 1 == 1);
    let stage = |index: usize| parameter(&name(index), integer(0, 1, ScaleType::UnitLinear));
    let parameters: Vec<ParameterSpec> = (0..STAGES).map(stage).collect();
    let level = |index: usize| ParameterValue::Integer(i64::from(OPTIMAL >> index & 1));
    let minimizer: ParameterValues = (0..STAGES).map(|index| (name(index), level(index))).collect();
    let value = move |point: &ParameterValues| chains.cost(|stage| whole(point, &name(stage)) == 1.0);
    TestFunction::new("contamination/d21", parameters, optimum, vec![minimizer], value)
}

/// Random numbers of the simulated chains.
pub(super) struct Chains {
    pub(super) initial: [f64; CHAINS],
    /// Rates of contamination and of prevention at each stage.
    rates: Vec<[(f64, f64); CHAINS]>,
}

impl Chains {
    pub(super) fn new() -> Self {
        // Quantile of the beta distribution with parameters 1 and `b`.
        let beta = |b: f64, key: &[usize]| 1.0 - (1.0 - coefficient(key)).powf(1.0 / b);
        let rate =
            |stage: usize, chain: usize| (beta(17.0 / 3.0, &[63, stage, chain]), beta(3.0 / 7.0, &[64, stage, chain]));
        Self {
            initial: std::array::from_fn(|chain| beta(30.0, &[65, chain])),
            rates: (0..STAGES).map(|stage| std::array::from_fn(|chain| rate(stage, chain))).collect(),
        }
    }

    /// Cost of `stage`, and the contaminated shares after it, given those before it.
    pub(super) fn step(&self, stage: usize, before: &[f64; CHAINS], prevents: bool) -> (f64, [f64; CHAINS]) {
        let mut shares = *before;
        for (share, (contamination, prevention)) in shares.iter_mut().zip(&self.rates[stage]) {
            *share *= if prevents { 1.0 - prevention } else { 1.0 - contamination };
            *share += if prevents { 0.0 } else { *contamination };
        }
        let safe = shares.iter().filter(|share| **share <= LIMIT).count() as f64 / CHAINS as f64;
        (f64::from(u8::from(prevents)) - (safe - TARGET), shares)
    }

    fn cost(&self, prevents: impl Fn(usize) -> bool) -> f64 {
        let mut shares = self.initial;
        let mut total = 0.0;
        for stage in 0..STAGES {
            let (cost, after) = self.step(stage, &shares, prevents(stage));
            (total, shares) = (total + cost, after);
        }
        total
    }
}
