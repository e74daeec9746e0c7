//! Functions with known optima, all to be minimised.
//!
//! Formulas and optima as collected by Surjanovic and Bingham, Virtual Library of Simulation Experiments, 2013; the
//! further digits of the Hartmann optima come from a local search. Each proves its own optimum in a test.

use std::f64::consts::{E, PI, TAU};

use super::problems::{categorical, double, integer, metric, parameter, with_metrics};
use crate::problem::{
    Goal, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement, ScaleType,
};

/// A function to be minimised whose optimum is known.
#[derive(Debug, Clone)]
pub struct TestFunction {
    name: String,
    problem: ProblemStatement,
    optimum: f64,
    optimizers: Vec<ParameterValues>,
    function: fn(&ParameterValues) -> f64,
}

impl TestFunction {
    /// Its usual name, with the number of dimensions where that varies.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The space and the one metric, to be minimised.
    pub fn problem(&self) -> &ProblemStatement {
        &self.problem
    }

    /// The smallest value.
    pub fn optimum(&self) -> f64 {
        self.optimum
    }

    /// All points where the smallest value is taken.
    pub fn optimizers(&self) -> &[ParameterValues] {
        &self.optimizers
    }

    /// The value at a point of the space.
    pub fn value(&self, point: &ParameterValues) -> f64 {
        (self.function)(point)
    }
}

/// Branin in `[-5, 10] x [0, 15]`, with three optima.
pub fn branin() -> TestFunction {
    let value = |point: &ParameterValues| {
        let x = doubles(point);
        let (a, b) = (x[0], x[1]);
        let valley = b - 5.1 / (4.0 * PI * PI) * a * a + 5.0 / PI * a - 6.0;
        valley * valley + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * a.cos() + 10.0
    };
    let optimizers = [[-PI, 12.275], [PI, 2.275], [3.0 * PI, 2.475]];
    continuous("branin".to_owned(), &[(-5.0, 10.0), (0.0, 15.0)], 10.0 / (8.0 * PI), &optimizers.map(Vec::from), value)
}

/// Hartmann's function of 3 variables in the unit cube.
pub fn hartmann3() -> TestFunction {
    let value = |point: &ParameterValues| {
        let a = [[3.0, 10.0, 30.0], [0.1, 10.0, 35.0], [3.0, 10.0, 30.0], [0.1, 10.0, 35.0]];
        let p =
            [[0.3689, 0.1170, 0.2673], [0.4699, 0.4387, 0.7470], [0.1091, 0.8732, 0.5547], [0.0381, 0.5743, 0.8828]];
        hartmann(&doubles(point), &a, &p)
    };
    let optimizer = HARTMANN3_OPTIMIZER.to_vec();
    continuous("hartmann3".to_owned(), &[(0.0, 1.0); 3], HARTMANN3_OPTIMUM, &[optimizer], value)
}

/// Hartmann's function of 6 variables in the unit cube.
pub fn hartmann6() -> TestFunction {
    let value = |point: &ParameterValues| {
        let a = [
            [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
            [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
            [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
            [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
        ];
        let p = [
            [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
            [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
            [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
            [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
        ];
        hartmann(&doubles(point), &a, &p)
    };
    let optimizer = HARTMANN6_OPTIMIZER.to_vec();
    continuous("hartmann6".to_owned(), &[(0.0, 1.0); 6], HARTMANN6_OPTIMUM, &[optimizer], value)
}

const HARTMANN3_OPTIMUM: f64 = -3.862779787332663;
const HARTMANN3_OPTIMIZER: [f64; 3] = [0.11458886669, 0.55564889592, 0.85254698520];
const HARTMANN6_OPTIMUM: f64 = -3.322368011415515;
const HARTMANN6_OPTIMIZER: [f64; 6] =
    [0.20168950876, 0.15001069009, 0.47687397761, 0.27533243076, 0.31165161652, 0.65730053352];

/// Levy's function in `[-10, 10]^dimensions`; the optimum is at (1, ..., 1).
pub fn levy(dimensions: usize) -> TestFunction {
    let value = |point: &ParameterValues| {
        let w: Vec<f64> = doubles(point).iter().map(|x| 1.0 + (x - 1.0) / 4.0).collect();
        let (first, last) = (w[0], w[w.len() - 1]);
        let middle: f64 =
            w[..w.len() - 1].iter().map(|w| (w - 1.0).powi(2) * (1.0 + 10.0 * (PI * w + 1.0).sin().powi(2))).sum();
        (PI * first).sin().powi(2) + middle + (last - 1.0).powi(2) * (1.0 + (TAU * last).sin().powi(2))
    };
    continuous(format!("levy{dimensions}"), &vec![(-10.0, 10.0); dimensions], 0.0, &[vec![1.0; dimensions]], value)
}

/// Ackley's function in `[-15, 30]^dimensions`, where the optimum, at (0, ..., 0), is not in the middle.
pub fn ackley(dimensions: usize) -> TestFunction {
    let value = |point: &ParameterValues| {
        let x = doubles(point);
        let n = x.len() as f64;
        let root = (x.iter().map(|x| x * x).sum::<f64>() / n).sqrt();
        let waves = x.iter().map(|x| (TAU * x).cos()).sum::<f64>() / n;
        -20.0 * (-0.2 * root).exp() - waves.exp() + 20.0 + E
    };
    continuous(format!("ackley{dimensions}"), &vec![(-15.0, 30.0); dimensions], 0.0, &[vec![0.0; dimensions]], value)
}

/// A made-up recipe for training a network: units (16 to 63, log scale), layers (1 to 4), dropout (a list of 4) and
/// activation (3 levels), of which some shift what is best for others. 2,304 points.
pub fn network_recipe() -> TestFunction {
    let value = |point: &ParameterValues| {
        let (units, layers) = (whole(point, "units"), whole(point, "layers"));
        let dropout = number(point, "dropout");
        // Depth wants dropout, width does not need depth, and each activation has a width of its own.
        let (width, penalty) = match point.get("activation") {
            Some(ParameterValue::Categorical(level)) if level == "elu" => (40.0, 0.02),
            Some(ParameterValue::Categorical(level)) if level == "relu" => (52.0, 0.0),
            _ => (24.0, 0.05),
        };
        let narrow = (units / width).ln();
        let unregularized = dropout - 0.1 * (layers - 1.0);
        0.1 + penalty + 0.3 * narrow * narrow + 0.05 * (layers - 3.0).powi(2) + unregularized * unregularized
    };
    let parameters = vec![
        parameter("units", integer(16, 63, ScaleType::UnitLog)),
        parameter("layers", integer(1, 4, ScaleType::UnitLinear)),
        parameter(
            "dropout",
            ParameterKind::Discrete { values: vec![0.0, 0.1, 0.2, 0.5], scale: ScaleType::UnitLinear },
        ),
        parameter("activation", categorical(&["tanh", "relu", "elu"])),
    ];
    let optimizer = ParameterValues::from([
        ("units".to_owned(), ParameterValue::Integer(52)),
        ("layers".to_owned(), ParameterValue::Integer(3)),
        ("dropout".to_owned(), ParameterValue::Discrete(0.2)),
        ("activation".to_owned(), ParameterValue::Categorical("relu".to_owned())),
    ]);
    minimized("network recipe".to_owned(), parameters, 0.1, vec![optimizer], value)
}

/// A made-up recipe of all kinds and scales: learning rate and momentum (doubles), layers, batch size and activation (4
/// levels), which decides where the learning rate is best.
pub fn training_recipe() -> TestFunction {
    let value = |point: &ParameterValues| {
        let (best_rate, penalty) = match point.get("activation") {
            Some(ParameterValue::Categorical(level)) if level == "gelu" => (-2.5, 0.0),
            Some(ParameterValue::Categorical(level)) if level == "relu" => (-3.0, 0.3),
            Some(ParameterValue::Categorical(level)) if level == "tanh" => (-1.5, 0.6),
            _ => (-4.0, 1.0),
        };
        let rate = number(point, "rate").log10() - best_rate;
        let momentum = (1.0 - number(point, "momentum")).log10() + 1.2;
        let layers = (whole(point, "layers") - 7.0) / 4.0;
        let batch = (number(point, "batch") / 64.0).log2();
        penalty + 0.5 * rate * rate + momentum * momentum + layers * layers + 0.1 * batch * batch
    };
    let batches = vec![16.0, 32.0, 64.0, 128.0, 256.0];
    let parameters = vec![
        parameter("rate", double(1e-5, 1.0, ScaleType::UnitLog)),
        parameter("momentum", double(0.5, 0.999, ScaleType::UnitReverseLog)),
        parameter("layers", integer(1, 12, ScaleType::UnitLinear)),
        parameter("batch", ParameterKind::Discrete { values: batches, scale: ScaleType::UnitLog }),
        parameter("activation", categorical(&["relu", "tanh", "gelu", "selu"])),
    ];
    let optimizer = ParameterValues::from([
        ("rate".to_owned(), ParameterValue::Double(10.0_f64.powf(-2.5))),
        ("momentum".to_owned(), ParameterValue::Double(1.0 - 10.0_f64.powf(-1.2))),
        ("layers".to_owned(), ParameterValue::Integer(7)),
        ("batch".to_owned(), ParameterValue::Discrete(64.0)),
        ("activation".to_owned(), ParameterValue::Categorical("gelu".to_owned())),
    ]);
    minimized("training recipe".to_owned(), parameters, 0.0, vec![optimizer], value)
}

fn hartmann<const D: usize>(x: &[f64], a: &[[f64; D]; 4], p: &[[f64; D]; 4]) -> f64 {
    let weights = [1.0, 1.2, 3.0, 3.2];
    let well = |(a, p): (&[f64; D], &[f64; D])| {
        let squares = x.iter().zip(a).zip(p).map(|((x, a), p)| a * (x - p) * (x - p));
        (-squares.sum::<f64>()).exp()
    };
    -weights.iter().zip(a.iter().zip(p)).map(|(weight, rows)| weight * well(rows)).sum::<f64>()
}

/// A function of doubles x01, x02, ... in a box.
fn continuous(
    name: String,
    ranges: &[(f64, f64)],
    optimum: f64,
    optimizers: &[Vec<f64>],
    function: fn(&ParameterValues) -> f64,
) -> TestFunction {
    let label = |index: usize| format!("x{:02}", index + 1);
    let linear =
        |(index, &(min, max)): (usize, &(f64, f64))| parameter(&label(index), double(min, max, ScaleType::UnitLinear));
    let point =
        |x: &Vec<f64>| x.iter().enumerate().map(|(index, &x)| (label(index), ParameterValue::Double(x))).collect();
    let optimizers = optimizers.iter().map(point).collect();
    minimized(name, ranges.iter().enumerate().map(linear).collect(), optimum, optimizers, function)
}

fn minimized(
    name: String,
    parameters: Vec<ParameterSpec>,
    optimum: f64,
    optimizers: Vec<ParameterValues>,
    function: fn(&ParameterValues) -> f64,
) -> TestFunction {
    let problem = with_metrics(parameters, vec![metric(Goal::Minimize)]);
    TestFunction { name, problem, optimum, optimizers, function }
}

/// The values of a point of doubles, by name.
fn doubles(point: &ParameterValues) -> Vec<f64> {
    point.keys().map(|name| number(point, name)).collect()
}

fn whole(point: &ParameterValues, name: &str) -> f64 {
    match point.get(name) {
        Some(ParameterValue::Integer(value)) => *value as f64,
        other => panic!("{name} is {other:?}, not an integer"),
    }
}

fn number(point: &ParameterValues, name: &str) -> f64 {
    match point.get(name) {
        Some(ParameterValue::Double(value) | ParameterValue::Discrete(value)) => *value,
        other => panic!("{name} is {other:?}, not a number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Encoding;
    use crate::mixed_radix::MixedRadix;
    use crate::problem::TrialId;
    use crate::sampling::sobol_point;

    fn all() -> Vec<TestFunction> {
        vec![
            branin(),
            hartmann3(),
            hartmann6(),
            levy(2),
            levy(6),
            ackley(2),
            ackley(6),
            network_recipe(),
            training_recipe(),
        ]
    }

    /// Walks downhill from `start` by halving steps along the axes, down to steps of 1e-9 of the box.
    fn descend(function: &TestFunction, encoding: &Encoding, start: Vec<f64>) -> (Vec<f64>, f64) {
        let value = |u: &[f64]| function.value(&encoding.decode(u));
        let (mut best, mut step) = (start, 0.1);
        let mut least = value(&best);
        while step > 1e-9 {
            let before = least;
            for axis in 0..best.len() {
                for sign in [1.0, -1.0] {
                    let mut moved = best.clone();
                    moved[axis] = (moved[axis] + sign * step).clamp(0.0, 1.0);
                    let value = value(&moved);
                    if value < least {
                        (best, least) = (moved, value);
                    }
                }
            }
            if least == before {
                step /= 2.0;
            }
        }
        (best, least)
    }

    #[test]
    fn every_optimizer_lies_in_the_space_and_takes_the_optimum() {
        for function in all() {
            assert!(!function.optimizers().is_empty());
            for point in function.optimizers() {
                assert_eq!(function.problem().search_space().check(point), Ok(()), "{}", function.name());
                let excess = function.value(point) - function.optimum();
                assert!(excess.abs() < 1e-9, "{}: {excess:e} at {point:?}", function.name());
            }
        }
    }

    #[test]
    fn no_descent_from_anywhere_goes_below_the_optimum() {
        for function in all().iter().filter(|function| function.problem().search_space().cardinality().is_none()) {
            let encoding = Encoding::new(function.problem().search_space());
            let mut reached = 0;
            for id in 1..=64 {
                let (point, value) = descend(function, &encoding, sobol_point(&encoding, 1, TrialId(id)));
                let excess = value - function.optimum();
                assert!(excess > -1e-9, "{}: {value:?} at {:?}", function.name(), encoding.decode(&point));
                reached += usize::from(excess < 1e-6);
            }
            assert!(reached > 0, "{}: no descent reached the optimum", function.name());
        }
    }

    #[test]
    fn the_optimum_of_the_recipe_is_found_by_looking_everywhere() {
        let function = network_recipe();
        let encoding = Encoding::new(function.problem().search_space());
        let radices = (0..encoding.dimensions()).filter_map(|feature| encoding.feature_cardinality(feature));
        let numbering = MixedRadix::new(radices.collect());
        assert_eq!(numbering.size(), Some(2304));
        let values = (0..2304).map(|index| function.value(&encoding.point_at(&numbering.digits(index))));
        let optimal = values.filter(|&value| value <= function.optimum() + 1e-9).count();
        assert_eq!(optimal, function.optimizers().len());
    }
}
