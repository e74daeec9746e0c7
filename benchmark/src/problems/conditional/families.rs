use tunesmith_algorithms::problem::{ParameterValue, ParameterValues, ScaleType};

use super::miss;
use crate::problems::functions::TestFunction;
use crate::problems::functions::builders::{
    categorical, category, double, integer, level, linear, number, parameter, point, under, whole,
};
use crate::problems::functions::fixed::{
    HARTMANN3_OPTIMIZER, HARTMANN3_OPTIMUM, SIX_HUMP_CAMEL_OPTIMUM, branin_value, hartmann3_value, six_hump_camel_value,
};

/// A choice of three classic functions with their own coordinates: Branin's function (smallest value 0.4 here, divided
/// by 10), the six-hump camel (0.2) and Hartmann's function of 3 variables (0).
pub fn surfaces() -> TestFunction {
    let value = |point: &ParameterValues| match level(point, "surface") {
        "branin" => {
            let excess =
                branin_value(number(point, "branin_1"), number(point, "branin_2")) - 1.25 / std::f64::consts::PI;
            0.4 + 0.1 * excess
        }
        "camel" => {
            0.2 + six_hump_camel_value(number(point, "camel_1"), number(point, "camel_2")) - SIX_HUMP_CAMEL_OPTIMUM
        }
        _ => {
            let x = ["hartmann_1", "hartmann_2", "hartmann_3"].map(|name| number(point, name));
            hartmann3_value(&x) - HARTMANN3_OPTIMUM
        }
    };
    let child = |name, min, max, surface| under(parameter(name, linear(min, max)), "surface", &[surface]);
    let parameters = vec![
        parameter("surface", categorical(&["branin", "camel", "hartmann"])),
        child("branin_1", -5.0, 10.0, "branin"),
        child("branin_2", 0.0, 15.0, "branin"),
        child("camel_1", -3.0, 3.0, "camel"),
        child("camel_2", -2.0, 2.0, "camel"),
        child("hartmann_1", 0.0, 1.0, "hartmann"),
        child("hartmann_2", 0.0, 1.0, "hartmann"),
        child("hartmann_3", 0.0, 1.0, "hartmann"),
    ];
    let [first, second, third] = HARTMANN3_OPTIMIZER.map(ParameterValue::Double);
    let minimizer = point([
        ("surface", category("hartmann")),
        ("hartmann_1", first),
        ("hartmann_2", second),
        ("hartmann_3", third),
    ]);
    TestFunction::new("surfaces", parameters, 0.0, vec![minimizer], value)
}

/// A choice of four models with 1 to 3 parameters each and a shared one, a sample share between 0.1 and 1. The support
/// vector machine, whose two parameters interact, is optimal.
pub fn model_families() -> TestFunction {
    let value = |point: &ParameterValues| {
        let shared = miss(number(point, "sample"), 0.85, 0.6);
        let own = match level(point, "model") {
            "linear" => 0.25 + 0.1 * miss(number(point, "penalty").log10(), -1.2, 1.0),
            "neighbors" => 0.2 + 0.1 * miss(whole(point, "neighbors").ln(), 9.0_f64.ln(), 1.0),
            "forest" => {
                let depth = miss(whole(point, "depth"), 11.0, 6.0);
                0.08 + 0.1 * depth + 0.05 * miss(number(point, "features"), 0.3, 0.4)
            }
            _ => {
                // Wide kernels need large costs: a valley along both parameters.
                let (cost, width) = (number(point, "cost").log10(), number(point, "width").log10());
                0.3 * miss(cost + width, 0.5, 1.0) + 0.03 * miss(cost - width, 3.5, 1.0)
            }
        };
        0.1 * shared + own
    };
    let log = |min, max| double(min, max, ScaleType::UnitLog);
    let parameters = vec![
        parameter("model", categorical(&["linear", "neighbors", "forest", "machine"])),
        parameter("sample", linear(0.1, 1.0)),
        under(parameter("penalty", log(1e-5, 1e2)), "model", &["linear"]),
        under(parameter("neighbors", integer(1, 64, ScaleType::UnitLog)), "model", &["neighbors"]),
        under(parameter("depth", integer(1, 32, ScaleType::UnitLinear)), "model", &["forest"]),
        under(parameter("features", linear(0.05, 1.0)), "model", &["forest"]),
        under(parameter("cost", log(1e-3, 1e3)), "model", &["machine"]),
        under(parameter("width", log(1e-5, 1e1)), "model", &["machine"]),
    ];
    // cost + width = 0.5 and cost - width = 3.5 in decades.
    let minimizer = point([
        ("model", category("machine")),
        ("sample", ParameterValue::Double(0.85)),
        ("cost", ParameterValue::Double(1e2)),
        ("width", ParameterValue::Double(10.0_f64.powf(-1.5))),
    ]);
    TestFunction::new("model_families", parameters, 0.0, vec![minimizer], value)
}

/// Three optimizers of networks that share a learning rate with different optimal values. One has a momentum, and two
/// have a schedule with its own warm-up.
pub fn optimizers_of_networks() -> TestFunction {
    let value = |point: &ParameterValues| {
        let rate = number(point, "rate").log10();
        let scheduled = |point: &ParameterValues| match level(point, "schedule") {
            "cosine" => 0.05 * miss(number(point, "warmup"), 0.08, 0.2),
            "constant" => 0.12,
            _ => 0.07,
        };
        match level(point, "optimizer") {
            "adam" => 0.06 + 0.1 * miss(rate, -3.2, 1.0) + scheduled(point),
            "sgd" => {
                let momentum = (1.0 - number(point, "momentum")).log10();
                // A larger momentum needs a smaller rate.
                0.1 * miss(rate + 0.5 * (-1.3 - momentum), -1.6, 1.0)
                    + 0.1 * miss(momentum, -1.3, 1.0)
                    + scheduled(point)
            }
            _ => 0.1 + 0.1 * miss(rate, -0.4, 1.0),
        }
    };
    let parameters = vec![
        parameter("optimizer", categorical(&["adam", "newton", "sgd"])),
        parameter("rate", double(1e-5, 1.0, ScaleType::UnitLog)),
        under(parameter("momentum", double(0.5, 0.999, ScaleType::UnitReverseLog)), "optimizer", &["sgd"]),
        under(parameter("schedule", categorical(&["constant", "cosine", "step"])), "optimizer", &["adam", "sgd"]),
        under(parameter("warmup", linear(0.0, 0.5)), "schedule", &["cosine"]),
    ];
    let minimizer = point([
        ("optimizer", category("sgd")),
        ("rate", ParameterValue::Double(10.0_f64.powf(-1.6))),
        ("momentum", ParameterValue::Double(1.0 - 10.0_f64.powf(-1.3))),
        ("schedule", category("cosine")),
        ("warmup", ParameterValue::Double(0.08)),
    ]);
    TestFunction::new("optimizers", parameters, 0.0, vec![minimizer], value)
}
