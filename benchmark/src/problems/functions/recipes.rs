//! Synthetic problems of network training: mixed spaces with known optima.

use tunesmith_algorithms::problem::{ParameterValue, ParameterValues, ScaleType};

use super::TestFunction;
use super::builders::{categorical, category, discrete, double, integer, level, number, parameter, point, whole};

/// A finite space of 2,304 points: units (16 to 63, log scale), layers (1 to 4), dropout (a list of 4) and activation
/// (3 levels), with interactions.
pub fn network_recipe() -> TestFunction {
    let value = |point: &ParameterValues| {
        let (units, layers) = (whole(point, "units"), whole(point, "layers"));
        let dropout = number(point, "dropout");
        // Deep networks need dropout, wide ones no depth, and each activation has its own optimal width.
        let (width, penalty) = match level(point, "activation") {
            "elu" => (40.0, 0.02),
            "relu" => (52.0, 0.0),
            _ => (24.0, 0.05),
        };
        let narrow = (units / width).ln();
        let unregularized = dropout - 0.1 * (layers - 1.0);
        0.1 + penalty + 0.3 * narrow * narrow + 0.05 * (layers - 3.0).powi(2) + unregularized * unregularized
    };
    let parameters = vec![
        parameter("units", integer(16, 63, ScaleType::UnitLog)),
        parameter("layers", integer(1, 4, ScaleType::UnitLinear)),
        parameter("dropout", discrete(vec![0.0, 0.1, 0.2, 0.5], ScaleType::UnitLinear)),
        parameter("activation", categorical(&["tanh", "relu", "elu"])),
    ];
    let minimizer = point([
        ("units", ParameterValue::Integer(52)),
        ("layers", ParameterValue::Integer(3)),
        ("dropout", ParameterValue::Discrete(0.2)),
        ("activation", category("relu")),
    ]);
    TestFunction::new("network_recipe", parameters, 0.1, vec![minimizer], value)
}

/// A space of all kinds and scales: learning rate and momentum (doubles), layers, batch size and activation (4 levels),
/// which determines the optimal learning rate.
///
/// The optimal learning rate and batch size are in the middle of their ranges, which favours algorithms that start
/// there. The suite therefore contains [`moved_training_recipe`].
pub fn training_recipe() -> TestFunction {
    training("training_recipe", 1e-5, vec![16.0, 32.0, 64.0, 128.0, 256.0])
}

/// [`training_recipe`] with smaller learning rates and larger batches, so that no optimum is in the middle.
pub fn moved_training_recipe() -> TestFunction {
    training("moved_training_recipe", 1e-6, vec![16.0, 32.0, 64.0, 128.0, 256.0, 512.0])
}

fn training(name: &str, least_rate: f64, batches: Vec<f64>) -> TestFunction {
    let value = |point: &ParameterValues| {
        let (best_rate, penalty) = match level(point, "activation") {
            "gelu" => (-2.5, 0.0),
            "relu" => (-3.0, 0.3),
            "tanh" => (-1.5, 0.6),
            _ => (-4.0, 1.0),
        };
        let rate = number(point, "rate").log10() - best_rate;
        let momentum = (1.0 - number(point, "momentum")).log10() + 1.2;
        let layers = (whole(point, "layers") - 7.0) / 4.0;
        let batch = (number(point, "batch") / 64.0).log2();
        penalty + 0.5 * rate * rate + momentum * momentum + layers * layers + 0.1 * batch * batch
    };
    let parameters = vec![
        parameter("rate", double(least_rate, 1.0, ScaleType::UnitLog)),
        parameter("momentum", double(0.5, 0.999, ScaleType::UnitReverseLog)),
        parameter("layers", integer(1, 12, ScaleType::UnitLinear)),
        parameter("batch", discrete(batches, ScaleType::UnitLog)),
        parameter("activation", categorical(&["relu", "tanh", "gelu", "selu"])),
    ];
    let minimizer = point([
        ("rate", ParameterValue::Double(10.0_f64.powf(-2.5))),
        ("momentum", ParameterValue::Double(1.0 - 10.0_f64.powf(-1.2))),
        ("layers", ParameterValue::Integer(7)),
        ("batch", ParameterValue::Discrete(64.0)),
        ("activation", category("gelu")),
    ]);
    TestFunction::new(name, parameters, 0.0, vec![minimizer], value)
}
