use tunesmith_algorithms::problem::{Condition, ParameterSpec, ParameterValue, ParameterValues, ScaleType};

use super::miss;
use crate::problems::functions::TestFunction;
use crate::problems::functions::builders::{
    categorical, category, discrete, double, integer, level, linear, number, parameter, point, under, whole,
};

/// A network of 1 to 5 layers. The width of each layer is active from that number of layers on, so the parent is an
/// integer. Four layers of decreasing width are optimal.
pub fn layers() -> TestFunction {
    let value = |point: &ParameterValues| {
        let count = whole(point, "layers");
        let best = [180.0_f64, 90.0, 40.0, 25.0, 25.0];
        let widths = (1..=5).zip(best).filter(|(layer, _)| f64::from(*layer) <= count);
        let miss: f64 = widths.map(|(layer, best)| miss((whole(point, &width(layer)) / best).ln(), 0.0, 2.0)).sum();
        let rate = super::miss(number(point, "rate").log10(), -3.3, 2.0);
        0.04 * (count - 4.0).powi(2) + 0.2 * miss + 0.3 * rate
    };
    let parent = |least: i64| Condition::new("layers", (least..=5).map(ParameterValue::Integer).collect());
    let mut parameters = vec![
        parameter("layers", integer(1, 5, ScaleType::UnitLinear)),
        parameter("rate", double(1e-5, 1e-1, ScaleType::UnitLog)),
        parameter(&width(1), integer(4, 512, ScaleType::UnitLog)),
    ];
    let wide = |layer: i32| -> ParameterSpec {
        parameter(&width(layer), integer(4, 512, ScaleType::UnitLog)).with_condition(parent(i64::from(layer)))
    };
    parameters.extend((2..=5).map(wide));
    let minimizer = point([
        ("layers", ParameterValue::Integer(4)),
        ("rate", ParameterValue::Double(10.0_f64.powf(-3.3))),
        ("width_1", ParameterValue::Integer(180)),
        ("width_2", ParameterValue::Integer(90)),
        ("width_3", ParameterValue::Integer(40)),
        ("width_4", ParameterValue::Integer(25)),
    ]);
    TestFunction::new("layers", parameters, 0.0, vec![minimizer], value)
}

fn width(layer: i32) -> String {
    format!("width_{layer}")
}

/// A finite tree of depth 3 with 315 points: a booster, its growth policy and the policy's parameters, with parents of
/// all kinds.
pub fn trees() -> TestFunction {
    let value = |point: &ParameterValues| {
        let own = match level(point, "booster") {
            "none" => 0.5,
            "linear" => 0.2 + 0.05 * miss(number(point, "penalty").log10(), -1.0, 1.0),
            _ => {
                let depth = whole(point, "depth");
                // Shallow trees have no further parameters.
                let growth = if depth < 4.0 {
                    0.3
                } else if level(point, "growth") == "level" {
                    0.15
                } else {
                    0.1 * miss(number(point, "leaves").log2(), 6.0, 1.0)
                };
                growth + 0.02 * (depth - 7.0).powi(2)
            }
        };
        own + 0.02 * (whole(point, "rounds") - 4.0).powi(2)
    };
    let deep = Condition::new("depth", (4..=8).map(ParameterValue::Integer).collect());
    let parameters = vec![
        parameter("booster", categorical(&["linear", "none", "tree"])),
        parameter("rounds", integer(1, 5, ScaleType::UnitLinear)),
        under(parameter("penalty", discrete(vec![1e-3, 1e-2, 1e-1, 1.0], ScaleType::UnitLog)), "booster", &["linear"]),
        under(parameter("depth", integer(1, 8, ScaleType::UnitLinear)), "booster", &["tree"]),
        parameter("growth", categorical(&["leaf", "level"])).with_condition(deep),
        under(
            parameter("leaves", discrete((1..=10).map(|k| f64::from(1 << k)).collect(), ScaleType::UnitLog)),
            "growth",
            &["leaf"],
        ),
    ];
    let minimizer = point([
        ("booster", category("tree")),
        ("rounds", ParameterValue::Integer(4)),
        ("depth", ParameterValue::Integer(7)),
        ("growth", category("leaf")),
        ("leaves", ParameterValue::Discrete(64.0)),
    ]);
    TestFunction::new("trees", parameters, 0.0, vec![minimizer], value)
}

/// Independent choices of preparation and model, each with parameters; one model is good only with the right
/// preparation.
pub fn pipeline() -> TestFunction {
    let value = |point: &ParameterValues| {
        let (preparation, reduced) = match level(point, "preparation") {
            "components" => (0.1 * miss(number(point, "kept"), 0.7, 0.3), true),
            "selection" => (0.05 + 0.1 * miss(whole(point, "selected"), 12.0, 10.0), true),
            _ => (0.1, false),
        };
        let model = match (level(point, "model"), reduced) {
            ("network", true) => {
                let (rate, decay) = (number(point, "rate").log10(), number(point, "decay").log10());
                0.1 * miss(rate, -2.4, 1.0) + 0.05 * miss(decay - 0.5 * rate, -2.6, 1.0)
            }
            ("network", false) => 0.4,
            _ => 0.1 + 0.1 * miss(number(point, "slack").log10(), 0.8, 1.0),
        };
        preparation + model
    };
    let log = |min, max| double(min, max, ScaleType::UnitLog);
    let parameters = vec![
        parameter("preparation", categorical(&["components", "none", "selection"])),
        under(parameter("kept", linear(0.1, 0.99)), "preparation", &["components"]),
        under(parameter("selected", integer(1, 40, ScaleType::UnitLinear)), "preparation", &["selection"]),
        parameter("model", categorical(&["machine", "network"])),
        under(parameter("slack", log(1e-3, 1e3)), "model", &["machine"]),
        under(parameter("rate", log(1e-5, 1.0)), "model", &["network"]),
        under(parameter("decay", log(1e-6, 1e-1)), "model", &["network"]),
    ];
    let minimizer = point([
        ("preparation", category("components")),
        ("kept", ParameterValue::Double(0.7)),
        ("model", category("network")),
        ("rate", ParameterValue::Double(10.0_f64.powf(-2.4))),
        ("decay", ParameterValue::Double(10.0_f64.powf(-3.8))),
    ]);
    TestFunction::new("pipeline", parameters, 0.0, vec![minimizer], value)
}
