use tunesmith_algorithms::problem::ParameterValues;

use super::{choices, chosen, coefficient, levels_of, with_minimizer};
use crate::problems::functions::TestFunction;

/// Number of choices in [`landscape`], with [`LEVELS`] levels each: 177,147 points.
pub(super) const CHOICES: usize = 11;
pub(super) const LEVELS: usize = 3;
/// Number of other choices in the contribution of a choice.
const NEIGHBORS: usize = 3;

/// Eleven choices of three levels. Each contributes a random number that depends on it and three others: the NK
/// landscape of Kauffman & Weinberger 1989 with three alleles instead of two.
pub fn landscape() -> TestFunction {
    let value = |point: &ParameterValues| contributions(&levels_of::<CHOICES>(point));
    with_minimizer("landscape", choices(&[LEVELS; CHOICES]), chosen("bcbbbaacaaa"), value)
}

/// Mean contribution, between 0 and 1.
pub(super) fn contributions(levels: &[usize; CHOICES]) -> f64 {
    let contribution = |choice: usize| {
        let mut key = vec![10, choice, levels[choice]];
        key.extend(neighbors(choice).map(|neighbor| levels[neighbor]));
        coefficient(&key)
    };
    (0..CHOICES).map(contribution).sum::<f64>() / CHOICES as f64
}

/// Distinct choices other than `choice`: successive steps are 1 to 3, in total at most 9 of 10.
fn neighbors(choice: usize) -> [usize; NEIGHBORS] {
    let mut place = choice;
    std::array::from_fn(|which| {
        place += 1 + (3.0 * coefficient(&[11, choice, which])) as usize;
        place % CHOICES
    })
}
