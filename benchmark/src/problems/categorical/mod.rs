//! Synthetic minimisation problems with mostly categorical spaces and known optima.
//!
//! Coefficients are fixed pseudo-random numbers (`coefficient`), so levels have no order for an encoding to exploit,
//! and optima are at arbitrary levels. The forms follow the literature; definitions and numbers are new: choices of
//! interacting parts (as in MCBO, Dreczkowski, Grosnit & Bou Ammar 2023, Framework and Benchmarks for Combinatorial and
//! Mixed-variable Bayesian Optimization), treatments along a row of stations (the pest control of COMBO, Oh, Tomczak,
//! Gavves & Welling 2019), the landscapes of Kauffman & Weinberger 1989 and maximum satisfiability.
//!
//! Tests check each optimum by enumeration of all points, by enumeration of the levels where the optimal doubles for
//! given levels have a closed form, or by construction.

mod catalogue;
mod clauses;
mod interactions;
mod landscape;
mod stations;
#[cfg(test)]
mod tests;

use tunesmith_algorithms::problem::{ParameterKind, ParameterSpec, ParameterValue, ParameterValues};

pub use catalogue::catalogue;
pub use clauses::clauses;
pub(super) use clauses::satisfiability;
pub use interactions::{few_of_many, mixed_interactions, pair_interactions};
pub use landscape::landscape;
pub use stations::stations;

use super::functions::TestFunction;
use super::functions::builders::{level, parameter};

/// Problems of the suite `categorical`, in report order.
pub fn categorical() -> Vec<TestFunction> {
    vec![pair_interactions(), few_of_many(), mixed_interactions(), landscape(), clauses(), stations(), catalogue()]
}

/// Fixed pseudo-random number in `[0, 1)` for `key`: the finaliser of SplitMix64 (Steele, Lea & Flood 2014) folded over
/// the parts of the key.
pub(super) fn coefficient(key: &[usize]) -> f64 {
    /// The golden ratio in 64 bits, the increment of SplitMix64.
    const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = key.iter().fold(INCREMENT, |state, &part| {
        let z = (state ^ part as u64).wrapping_add(INCREMENT);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    });
    // A double represents the upper 53 bits exactly.
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

/// Name of the parameter at `index`, from 0: `c01`, `c02`, ...
pub(super) fn name(index: usize) -> String {
    format!("c{:02}", index + 1)
}

/// Name of the level at `index`, from 0, in alphabetical order: `a`, `b`, ... for up to 26 levels.
pub(super) fn letter(index: usize) -> String {
    char::from(b'a' + index as u8).to_string()
}

/// Parameters `c01`, `c02`, ... with the given numbers of levels.
pub(super) fn choices(levels: &[usize]) -> Vec<ParameterSpec> {
    let kind = |levels: usize| ParameterKind::Categorical { values: (0..levels).map(letter).collect() };
    levels.iter().enumerate().map(|(index, &levels)| parameter(&name(index), kind(levels))).collect()
}

/// Point of [`choices`] with the levels `letters`.
pub(super) fn chosen(letters: &str) -> ParameterValues {
    let value = |letter: char| ParameterValue::Categorical(letter.to_string());
    letters.chars().enumerate().map(|(index, letter)| (name(index), value(letter))).collect()
}

/// Level indices of the first `N` of [`choices`] at `point`.
pub(super) fn levels_of<const N: usize>(point: &ParameterValues) -> [usize; N] {
    std::array::from_fn(|index| usize::from(level(point, &name(index)).as_bytes()[0] - b'a'))
}

/// Creates a problem whose optimum is the value of `function` at `minimizer`.
fn with_minimizer(
    name: &str,
    parameters: Vec<ParameterSpec>,
    minimizer: ParameterValues,
    function: fn(&ParameterValues) -> f64,
) -> TestFunction {
    let optimum = function(&minimizer);
    TestFunction::new(name, parameters, optimum, vec![minimizer], function)
}
