//! Minimisation problems of 21 to 43 two-level parameters with known optima.
//!
//! The three are standard in the literature on combinatorial Bayesian optimisation: BOCS (Baptista & Poloczek 2018),
//! COMBO (Oh, Tomczak, Gavves & Welling 2019) and Bounce (Papenmeier, Nardi & Poloczek 2023), which shows that the
//! published results of some optimizers depend on the place of the optimum. So each problem exists twice: with its
//! levels as published, and with the levels of random parameters exchanged, different for each instance.

mod autocorrelation;
mod contamination;
#[cfg(test)]
mod tests;

use tunesmith_algorithms::problem::{ParameterValue, ParameterValues};

pub use autocorrelation::autocorrelation;
pub use contamination::contamination;

use super::categorical::{coefficient, satisfiability};
use super::functions::TestFunction;
use crate::problem::Problem;

/// Number of switches of [`switches`], as in the weighted maximum satisfiability problem of COMBO.
const SWITCHES: usize = 43;
/// Number of clauses: as many per switch as in [`super::categorical::clauses`].
const CLAUSES: usize = 197;

/// Constructors of the problems of the suite `binary`, by instance number.
pub fn binary() -> [fn(u64) -> TestFunction; 5] {
    [
        |_| autocorrelation(),
        |instance| exchanged(&autocorrelation(), instance),
        |_| contamination(),
        |instance| exchanged(&contamination(), instance),
        switches,
    ]
}

/// Weighted maximum satisfiability of 43 switches. One assignment, different for each instance, satisfies all clauses.
pub fn switches(instance: u64) -> TestFunction {
    let part = instance as usize;
    let planted: Vec<bool> = (0..SWITCHES).map(|switch| coefficient(&[60, part, switch]) < 0.5).collect();
    satisfiability("switches/d43", &planted, CLAUSES, |clause, purpose, place| {
        coefficient(&[61, part, clause, purpose as usize, place])
    })
}

/// `problem` with the levels of each parameter exchanged with probability 1/2.
fn exchanged(problem: &TestFunction, instance: u64) -> TestFunction {
    let parameters = problem.statement().search_space().parameters().to_vec();
    let flips: Vec<String> = parameters
        .iter()
        .enumerate()
        .filter(|(index, _)| coefficient(&[62, instance as usize, *index]) < 0.5)
        .map(|(_, spec)| spec.name().to_owned())
        .collect();
    let minimizer = flipped(&problem.minimizers()[0], &flips);
    let name = format!("{}/exchanged", problem.name());
    let original = problem.clone();
    let function = move |point: &ParameterValues| original.value(&flipped(point, &flips));
    TestFunction::new(name, parameters, problem.optimum(), vec![minimizer], function)
}

/// `point` with the other level of each parameter of `names`; the levels are `a` and `b`, or 0 and 1.
fn flipped(point: &ParameterValues, names: &[String]) -> ParameterValues {
    let mut point = point.clone();
    for name in names {
        match point.get_mut(name) {
            Some(ParameterValue::Integer(value)) => *value = 1 - *value,
            Some(ParameterValue::Categorical(level)) => *level = if level == "a" { "b" } else { "a" }.to_owned(),
            other => panic!("{name} is {other:?}, which has not two levels"),
        }
    }
    point
}
