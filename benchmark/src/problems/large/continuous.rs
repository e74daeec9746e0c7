//! Continuous problems with few relevant parameters.

use tunesmith_algorithms::problem::{ParameterValue, ParameterValues};

use super::part;
use crate::problems::categorical::coefficient;
use crate::problems::functions::TestFunction;
use crate::problems::functions::builders::{linear, number, parameter};
use crate::problems::functions::fixed::{HARTMANN6_OPTIMIZER, HARTMANN6_OPTIMUM, hartmann6_value};

/// Number of parameters of [`hidden_hartmann6`].
const PARAMETERS: usize = 100;

/// Hartmann's function of six of 100 numbers in `[0, 1]`; the others have no effect. The six differ between instances.
///
/// Source: Wang, Hutter, Zoghi, Matheson & de Freitas 2016, Bayesian Optimization in a Billion Dimensions via Random
/// Embeddings, with unrotated axes.
pub fn hidden_hartmann6(instance: u64) -> TestFunction {
    let mut order: Vec<usize> = (0..PARAMETERS).collect();
    let key = |index: usize| coefficient(&[55, part(instance), index]);
    order.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
    let effective: [usize; 6] = std::array::from_fn(|place| order[place]);
    let parameters = (0..PARAMETERS).map(|index| parameter(&name(index), linear(0.0, 1.0))).collect();
    let mut minimizer: ParameterValues =
        (0..PARAMETERS).map(|index| (name(index), ParameterValue::Double(0.5))).collect();
    for (index, best) in effective.into_iter().zip(HARTMANN6_OPTIMIZER) {
        minimizer.insert(name(index), ParameterValue::Double(best));
    }
    let function = move |point: &ParameterValues| hartmann6_value(&effective.map(|index| number(point, &name(index))));
    TestFunction::new("hartmann6/d100", parameters, HARTMANN6_OPTIMUM, vec![minimizer], function)
}

fn name(index: usize) -> String {
    format!("x{:03}", index + 1)
}
