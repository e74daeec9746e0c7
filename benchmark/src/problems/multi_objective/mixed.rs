//! Problems with two different metrics: two functions of one square, and quality against cost of a network.

use tunesmith_algorithms::hypervolume::hypervolume;
use tunesmith_algorithms::problem::{Goal, ParameterValue, ParameterValues, ScaleType};

use super::MultiObjectiveFunction;
use super::builders::{
    box_of_doubles, categorical, category, double, doubles, integer, level, number, parameter, point, whole,
};
use crate::problems::functions::fixed::branin_value;

/// Branin's function, its box scaled to the unit square, and Currin's exponential function, both minimised (Belakaria,
/// Deshwal and Doppa, Max-value entropy search for multi-objective Bayesian optimization, 2019).
///
/// The reference point is (18, 6) as in BoTorch, which states the volume 59.36011874867746, found by an evolutionary
/// algorithm. Ten million points refined around the front give 59.40660, uncertain in the sixth decimal; the constant
/// is rounded up.
pub fn branin_currin() -> MultiObjectiveFunction {
    let values = |point: &ParameterValues| {
        let x = doubles(point);
        vec![branin_value(15.0 * x[0] - 5.0, 15.0 * x[1]), currin(x[0], x[1])]
    };
    let parameters = box_of_doubles(&[(0.0, 1.0); 2]);
    super::function("branin_currin", parameters, &[Goal::Minimize; 2], vec![18.0, 6.0], 59.40661, values)
}

fn currin(a: f64, b: f64) -> f64 {
    // At b = 0 the exponential has the argument minus infinity and is 0, the limit.
    let factor = 1.0 - (-0.5 / b).exp();
    let above = 2300.0 * a.powi(3) + 1900.0 * a * a + 2092.0 * a + 60.0;
    let below = 100.0 * a.powi(3) + 500.0 * a * a + 4.0 * a + 20.0;
    factor * above / below
}

/// A synthetic network: score, maximised, and cost (logarithm to base 10 of the number of weights), minimised.
///
/// Units (8 to 256, log scale), layers (1 to 4), activation (3 levels, each optimal on a part of the front) and
/// learning rate (log scale), which affects only the score and has an optimal value for each depth and activation. The
/// volume of the front is therefore exact: the optimal rate with each of the 2,988 combinations of the others.
pub fn network_trade_off() -> MultiObjectiveFunction {
    let parameters = vec![
        parameter("units", integer(UNITS.0, UNITS.1, ScaleType::UnitLog)),
        parameter("layers", integer(1, 4, ScaleType::UnitLinear)),
        parameter("activation", categorical(&ACTIVATIONS)),
        parameter("rate", double(1e-5, 1.0, ScaleType::UnitLog)),
    ];
    let goals = [Goal::Maximize, Goal::Minimize];
    let corner = vec![0.5, 5.5];
    let values = |point: &ParameterValues| {
        let (units, layers, activation) = (whole(point, "units"), whole(point, "layers"), level(point, "activation"));
        network_values(units, layers, activation, number(point, "rate").log10())
    };
    let front: Vec<_> = network_pareto_set().iter().map(values).collect();
    let volume = hypervolume(&goals, &corner, &front);
    super::function("network_trade_off", parameters, &goals, corner, volume, values)
}

const UNITS: (i64, i64) = (8, 256);
const ACTIVATIONS: [&str; 3] = ["relu", "tanh", "elu"];

/// An activation's gain from depth, its cost in score, and the logarithm to base 10 of its optimal rate without layers.
fn traits(activation: &str) -> (f64, f64, f64) {
    match activation {
        "relu" => (0.8, 0.03, -1.6),
        "elu" => (0.5, 0.01, -2.2),
        _ => (0.2, 0.0, -1.2),
    }
}

fn best_log_rate(layers: f64, activation: &str) -> f64 {
    traits(activation).2 - 0.25 * layers
}

fn network_values(units: f64, layers: f64, activation: &str, log_rate: f64) -> Vec<f64> {
    let (depth_gain, penalty, _) = traits(activation);
    let capacity = (units / 8.0).log2() / 5.0 + depth_gain * (layers - 1.0) / 3.0;
    let missed = log_rate - best_log_rate(layers, activation);
    let score = 0.95 - penalty - 0.25 * (-2.0 * capacity).exp() - 0.1 * missed * missed;
    let weights = 20.0 * units + (layers - 1.0) * units * units;
    vec![score, weights.log10()]
}

/// All combinations with their optimal rates.
pub(super) fn network_pareto_set() -> Vec<ParameterValues> {
    let mut points = Vec::new();
    for units in UNITS.0..=UNITS.1 {
        for layers in 1..=4 {
            for activation in ACTIVATIONS {
                let rate = 10.0_f64.powf(best_log_rate(layers as f64, activation));
                points.push(point([
                    ("units", ParameterValue::Integer(units)),
                    ("layers", ParameterValue::Integer(layers)),
                    ("activation", category(activation)),
                    ("rate", ParameterValue::Double(rate)),
                ]));
            }
        }
    }
    points
}
