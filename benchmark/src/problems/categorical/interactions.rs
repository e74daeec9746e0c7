use tunesmith_algorithms::problem::{ParameterValue, ParameterValues};

use super::{choices, chosen, coefficient, levels_of, with_minimizer};
use crate::problems::functions::TestFunction;
use crate::problems::functions::builders::{linear, number, parameter};

/// Levels of the parameters of [`pair_interactions`]: 311,040 points.
pub(super) const PAIR_LEVELS: [usize; 9] = [4, 3, 6, 3, 5, 3, 8, 3, 4];
/// Levels of the categorical parameters of [`mixed_interactions`].
pub(super) const MIXED_LEVELS: [usize; 8] = [3, 4, 5, 3, 4, 3, 5, 3];
/// Levels of each parameter of [`few_of_many`].
pub(super) const MANY_LEVELS: usize = 8;
/// The parameters of [`few_of_many`] with a large effect.
pub(super) const FEW: [usize; 4] = [1, 4, 6, 9];
const MANY: usize = 12;

/// Nine choices of 3 to 8 levels with individual effects, and interactions between about two fifths of all pairs.
pub fn pair_interactions() -> TestFunction {
    let value = |point: &ParameterValues| pair_sum(1, &levels_of::<{ PAIR_LEVELS.len() }>(point));
    with_minimizer("pair_interactions", choices(&PAIR_LEVELS), chosen("bbccebfbd"), value)
}

/// Twelve choices of 8 levels, four of which have a large effect, three of these only in combination; the others have a
/// small one.
pub fn few_of_many() -> TestFunction {
    let value = |point: &ParameterValues| {
        let levels = levels_of::<MANY>(point);
        let rest = (0..MANY).filter(|index| !FEW.contains(index));
        few_sum(FEW.map(|index| levels[index])) + rest.map(|index| rest_term(index, levels[index])).sum::<f64>()
    };
    with_minimizer("few_of_many", choices(&[MANY_LEVELS; MANY]), chosen("ccgdhbcdchfb"), value)
}

/// Eight choices of 3 to 5 levels with pairs as in [`pair_interactions`], and three doubles in `[0, 1]`, whose optimal
/// values each depend on two of the choices.
pub fn mixed_interactions() -> TestFunction {
    let value = |point: &ParameterValues| {
        let levels = levels_of::<{ MIXED_LEVELS.len() }>(point);
        let miss = |which: usize| 2.0 * (number(point, DOUBLES[which]) - best_double(which, &levels)).powi(2);
        pair_sum(2, &levels) + (0..DOUBLES.len()).map(miss).sum::<f64>()
    };
    let mut parameters = choices(&MIXED_LEVELS);
    parameters.extend(DOUBLES.map(|name| parameter(name, linear(0.0, 1.0))));
    let mut minimizer = chosen("acebbaab");
    let levels = levels_of::<{ MIXED_LEVELS.len() }>(&minimizer);
    minimizer.extend(
        (0..DOUBLES.len())
            .map(|which| (DOUBLES[which].to_owned(), ParameterValue::Double(best_double(which, &levels)))),
    );
    with_minimizer("mixed_interactions", parameters, minimizer, value)
}

/// The doubles of [`mixed_interactions`].
pub(super) const DOUBLES: [&str; 3] = ["x01", "x02", "x03"];

/// Optimal value of the double `which` of [`mixed_interactions`], between 0.1 and 0.9.
fn best_double(which: usize, levels: &[usize]) -> f64 {
    0.1 + 0.8 * coefficient(&[3, which, levels[2 * which], levels[2 * which + 1]])
}

/// Sum of the individual effects, between -0.5 and 0.5 each, and the interactions, between -0.75 and 0.75 each.
pub(super) fn pair_sum(problem: usize, levels: &[usize]) -> f64 {
    const SHARE: f64 = 0.4;
    let mut sum = 0.0;
    for (i, &a) in levels.iter().enumerate() {
        sum += coefficient(&[problem, i, a]) - 0.5;
        for (j, &b) in levels.iter().enumerate().skip(i + 1) {
            if coefficient(&[problem, i, j]) < SHARE {
                sum += 1.5 * (coefficient(&[problem, i, j, a, b]) - 0.5);
            }
        }
    }
    sum
}

/// Contribution of the parameters [`FEW`] at their `levels`.
pub(super) fn few_sum(levels: [usize; 4]) -> f64 {
    let [a, b, c, d] = levels;
    let alone: f64 = levels.iter().enumerate().map(|(index, &level)| coefficient(&[4, index, level])).sum();
    0.4 * alone + coefficient(&[5, a, b, c]) + 0.6 * coefficient(&[6, c, d])
}

/// Contribution of the parameter at `index`, which is not one of [`FEW`].
pub(super) fn rest_term(index: usize, level: usize) -> f64 {
    0.02 * coefficient(&[7, index, level])
}
