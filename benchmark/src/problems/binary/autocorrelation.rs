use tunesmith_algorithms::problem::ParameterValues;

use crate::problems::categorical::{choices, chosen, levels_of};
use crate::problems::functions::TestFunction;

/// Length of the sequence.
const LENGTH: usize = 40;
/// Sequence of least energy, 108: "44412112131121313131" in run lengths in table 1 of the source.
const OPTIMAL: &str = "aaaabbbbaaaabaababbabbbabaabaaabaaabaaab";

/// Low autocorrelation binary sequences: the negative merit factor `L^2 / 2E` of a sequence of 40 signs, where the
/// energy `E` is the sum of the squares of its aperiodic autocorrelations. All sequences with one sign have nearly the
/// largest energy.
///
/// Source of the optimum: Packebusch & Mertens 2016, Low autocorrelation binary sequences, arXiv 1512.02475.
pub fn autocorrelation() -> TestFunction {
    let value = |point: &ParameterValues| merit(&levels_of::<LENGTH>(point));
    let minimizer = chosen(OPTIMAL);
    let optimum = value(&minimizer);
    TestFunction::new("autocorrelation/d40", choices(&[2; LENGTH]), optimum, vec![minimizer], value)
}

fn merit(levels: &[usize; LENGTH]) -> f64 {
    let signs = levels.map(|level| if level == 0 { 1.0 } else { -1.0 });
    let correlation = |lag: usize| signs.iter().zip(&signs[lag..]).map(|(a, b)| a * b).sum::<f64>();
    let energy: f64 = (1..LENGTH).map(|lag| correlation(lag).powi(2)).sum();
    -((LENGTH * LENGTH) as f64) / (2.0 * energy)
}
