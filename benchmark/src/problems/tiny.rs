//! Training recipes of 9 and 30 parameters for runs of few trials, to be minimised, with known optima.
//!
//! A few parameters matter, as in tuning (Bergstra & Bengio 2012), they interact, and the optimum is at a random place
//! of each instance: neither the centre nor the listed order of levels helps.

use tunesmith_algorithms::encoding::Encoding;
use tunesmith_algorithms::problem::{ParameterKind, ParameterSpec, ParameterValues, ScaleType, SearchSpace};

use super::categorical::coefficient;
use super::functions::TestFunction;
use super::functions::builders::{categorical, discrete, double, integer, linear, parameter};

/// Ratio of the weights of successive parameters in the order of importance (a guess).
const DECAY: f64 = 0.7;
/// Share of the distance of the next more important parameter in the term of each parameter (a guess).
const INTERACTION: f64 = 0.5;
/// Distance of two categories, in ranges.
const CATEGORIES_APART: f64 = 0.5;

/// Constructors of the problems, by instance number.
pub fn tiny() -> [fn(u64) -> TestFunction; 2] {
    [network, training]
}

/// The space of HPOLib's tables of fully connected networks (Klein & Hutter 2019): nine parameters of two to six
/// levels, three of them categories.
fn network(instance: u64) -> TestFunction {
    let units = || discrete(vec![16.0, 32.0, 64.0, 128.0, 256.0, 512.0], ScaleType::UnitLog);
    let dropout = || discrete(vec![0.0, 0.3, 0.6], ScaleType::UnitLinear);
    let parameters = vec![
        parameter("activation_1", categorical(&["relu", "tanh"])),
        parameter("activation_2", categorical(&["relu", "tanh"])),
        parameter("batch", discrete(vec![8.0, 16.0, 32.0, 64.0], ScaleType::UnitLog)),
        parameter("dropout_1", dropout()),
        parameter("dropout_2", dropout()),
        parameter("rate", discrete(vec![5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1], ScaleType::UnitLog)),
        parameter("schedule", categorical(&["constant", "cosine"])),
        parameter("units_1", units()),
        parameter("units_2", units()),
    ];
    recipe("network/d09", parameters, instance)
}

/// 30 parameters: 18 doubles, six of them on a log scale, six integers, and six categories of two to four levels.
fn training(instance: u64) -> TestFunction {
    let kind = |index: usize| -> ParameterKind {
        match index % 5 {
            0 => integer(1, 12, ScaleType::UnitLinear),
            1 => categorical(&["a", "b", "c", "d"][..2 + index / 5 % 3]),
            2 => double(1e-5, 1.0, ScaleType::UnitLog),
            _ => linear(0.0, 1.0),
        }
    };
    recipe("training/d30", (0..30).map(|index| parameter(&format!("p{index:02}"), kind(index))).collect(), instance)
}

/// Weighted squares of the distances from a random optimum in the unit cube.
pub(super) fn recipe(title: &str, parameters: Vec<ParameterSpec>, instance: u64) -> TestFunction {
    let space = SearchSpace::new(parameters.clone()).expect("the parameters have different names");
    let encoding = Encoding::new(&space);
    let draw = |purpose: usize, j: usize| coefficient(&[70, title.len(), instance as usize, purpose, j]);
    let mut best: Vec<f64> =
        (0..encoding.dimensions()).map(|j| encoding.coordinate_from_uniform(j, draw(0, j))).collect();
    encoding.snap(&mut best);
    let mut order: Vec<usize> = (0..best.len()).collect();
    order.sort_by(|&a, &b| draw(1, a).total_cmp(&draw(1, b)));
    let minimizer = encoding.decode(&best);
    let best = encoding.encode(&minimizer).expect("a decoded point is in the space");
    let value = move |point: &ParameterValues| {
        let at = encoding.encode(point).expect("a point of the space");
        let apart = |j: usize| match encoding.categorical()[j] {
            true => CATEGORIES_APART * f64::from(u8::from(at[j] != best[j])),
            false => at[j] - best[j],
        };
        let mut before = 0.0;
        let mut total = 0.0;
        for (rank, &j) in order.iter().enumerate() {
            let distance = apart(j);
            total += DECAY.powi(rank as i32) * (distance + INTERACTION * before).powi(2);
            before = distance;
        }
        total
    };
    TestFunction::new(title, parameters, 0.0, vec![minimizer], value)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tunesmith_algorithms::problem::TrialId;
    use tunesmith_algorithms::sampling::sobol_point;

    use super::*;
    use crate::problem::Problem;

    #[test]
    fn the_minimizer_alone_has_the_optimal_value_and_moves_with_the_instance() {
        for make in tiny() {
            let optima: BTreeSet<String> =
                (1..=4).map(|instance| format!("{:?}", make(instance).minimizers()[0])).collect();
            assert_eq!(optima.len(), 4);
            let problem = make(3);
            let (space, best) = (problem.statement().search_space(), &problem.minimizers()[0]);
            assert_eq!(space.check(best), Ok(()));
            assert_eq!(problem.value(best), 0.0);
            let encoding = Encoding::new(space);
            for id in 1..=500 {
                let point = encoding.decode(&sobol_point(&encoding, 1, TrialId(id)));
                assert!(problem.value(&point) > 0.0, "{}", problem.name());
            }
        }
    }

    #[test]
    fn names_state_the_number_of_parameters() {
        let counts =
            tiny().map(|make| (make(1).name().to_owned(), make(1).statement().search_space().parameters().len()));
        assert_eq!(counts, [("network/d09".to_owned(), 9), ("training/d30".to_owned(), 30)]);
    }
}
