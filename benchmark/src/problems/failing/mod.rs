//! Minimisation problems in which about half of the space fails: trials there have no value, as after divergence or an
//! out-of-memory error.
//!
//! The optimum of the remaining points is known. Except in `holes` and `levels` it is at the border of the failing
//! region, beyond which values would be better. The stated minimizers are inside that border by 1e-9, so that rounding
//! does not let them fail.

#[cfg(test)]
mod tests;

use tunesmith_algorithms::problem::{ParameterValue, ParameterValues, ScaleType};

use super::functions::TestFunction;
use super::functions::builders::{
    categorical, category, double, doubles, integer, level, linear, number, parameter, point, whole,
};
use crate::problem::Evaluation;

/// Distance of minimizers from the border of the failing region.
const INSIDE: f64 = 1e-9;

/// Problems of the suite `failing`: half-spaces, discs, levels of categories, and conjunctions.
pub fn failing() -> Vec<FailingFunction> {
    let half_spaces = [2, 5, 10].map(half_space);
    half_spaces.into_iter().chain([disc(), holes(), levels(), memory(), divergence()]).collect()
}

/// A function to minimise that is `None` where a point fails.
pub type FailingFunction = TestFunction<Option<f64>>;

impl From<Option<f64>> for Evaluation {
    fn from(value: Option<f64>) -> Self {
        value.map_or_else(|| Self::infeasible("the point is in the region that fails"), Self::exact)
    }
}

/// Squared distance from a point of the unit cube beyond a plane through its centre; every point beyond the plane
/// fails.
///
/// The plane is oblique: its normal has the components 1, -1/2, 1/3, ... The centre of the squares is 0.2 beyond the
/// plane, and 0.25 away from the axis along the normal through the centre of the cube.
pub fn half_space(dimensions: usize) -> FailingFunction {
    let unit = |mut vector: Vec<f64>| {
        let length = vector.iter().map(|component| component * component).sum::<f64>().sqrt();
        vector.iter_mut().for_each(|component| *component /= length);
        vector
    };
    let sign = |index: usize| if index.is_multiple_of(2) { 1.0 } else { -1.0 };
    let normal = unit((0..dimensions).map(|index| sign(index) / (index + 1) as f64).collect());
    // Orthogonal to the normal: its reverse, less its projection.
    let reverse: Vec<f64> = normal.iter().rev().copied().collect();
    let along: f64 = reverse.iter().zip(&normal).map(|(a, b)| a * b).sum();
    let across = unit(reverse.iter().zip(&normal).map(|(a, b)| a - along * b).collect());
    let place = |height: f64| -> Vec<f64> {
        let axes = normal.iter().zip(&across);
        axes.map(|(normal, across)| 0.5 + height * normal + 0.25 * across).collect()
    };
    let (center, minimizer) = (place(0.2), place(-INSIDE));
    let function = move |point: &ParameterValues| {
        let x = doubles(point);
        let height: f64 = x.iter().zip(&normal).map(|(x, normal)| (x - 0.5) * normal).sum();
        (height <= 0.0).then(|| squares(&x, &center))
    };
    let name = format!("half-space/d{dimensions:02}");
    FailingFunction::continuous(name, &vec![(0.0, 1.0); dimensions], 0.04, &[minimizer], function)
}

/// Squared distance from a point outside a disc of half the area of the unit square; every point outside the disc
/// fails.
pub fn disc() -> FailingFunction {
    const CENTER: [f64; 2] = [0.55, 0.45];
    const OUTSIDE: [f64; 2] = [0.05, 0.85];
    let radius = (0.5 / std::f64::consts::PI).sqrt();
    let distance = squares(&CENTER, &OUTSIDE).sqrt();
    let share = (radius - INSIDE) / distance;
    let minimizer = [0, 1].map(|axis| CENTER[axis] + share * (OUTSIDE[axis] - CENTER[axis]));
    let function = move |point: &ParameterValues| {
        let x = doubles(point);
        (squares(&x, &CENTER) <= radius * radius).then(|| squares(&x, &OUTSIDE))
    };
    let optimum = (distance - radius).powi(2);
    FailingFunction::continuous("disc", &[(0.0, 1.0); 2], optimum, &[minimizer.to_vec()], function)
}

/// Waves on a bowl on the unit square; four discs with half of the area fail. The minimizer is between them.
pub fn holes() -> FailingFunction {
    const CENTERS: [[f64; 2]; 4] = [[0.2, 0.25], [0.75, 0.2], [0.25, 0.75], [0.8, 0.8]];
    const MINIMIZER: [f64; 2] = [0.47, 0.93];
    let radius_squared = 0.125 / std::f64::consts::PI;
    let function = move |point: &ParameterValues| {
        let x = doubles(point);
        let wave = |(x, best): (&f64, &f64)| 1.0 - (3.0 * std::f64::consts::TAU * (x - best)).cos();
        let waves = 0.05 * x.iter().zip(&MINIMIZER).map(wave).sum::<f64>();
        let fails = CENTERS.iter().any(|center| squares(&x, center) < radius_squared);
        (!fails).then(|| squares(&x, &MINIMIZER) + waves)
    };
    FailingFunction::continuous("holes", &[(0.0, 1.0); 2], 0.0, &[MINIMIZER.to_vec()], function)
}

/// A sum over three categories and two numbers. Two of the four optimizers fail, and one of the others fails with two of the
/// four kinds of data.
pub fn levels() -> FailingFunction {
    const OPTIMIZERS: [(&str, f64); 4] = [("adam", 0.1), ("sgd", 0.3), ("lbfgs", 0.0), ("rprop", 0.05)];
    const DATA: [(&str, f64); 4] = [("raw", 0.2), ("scaled", 0.0), ("whitened", 0.05), ("ranks", 0.1)];
    const MODELS: [(&str, f64); 3] = [("small", 0.2), ("middle", 0.05), ("large", 0.0)];
    let names = |levels: &[(&'static str, f64)]| -> Vec<&'static str> { levels.iter().map(|level| level.0).collect() };
    let parameters = vec![
        parameter("data", categorical(&names(&DATA))),
        parameter("model", categorical(&names(&MODELS))),
        parameter("optimizer", categorical(&names(&OPTIMIZERS))),
        parameter("x", linear(0.0, 1.0)),
        parameter("y", linear(0.0, 1.0)),
    ];
    let function = |point: &ParameterValues| {
        let cost = |name: &str, levels: &[(&str, f64)]| {
            levels.iter().find(|known| known.0 == level(point, name)).map_or(0.0, |known| known.1)
        };
        let (optimizer, data) = (level(point, "optimizer"), level(point, "data"));
        let fails = matches!((optimizer, data), ("lbfgs" | "rprop", _) | ("sgd", "raw" | "ranks"));
        let squares = (number(point, "x") - 0.3).powi(2) + (number(point, "y") - 0.8).powi(2);
        (!fails).then(|| cost("optimizer", &OPTIMIZERS) + cost("data", &DATA) + cost("model", &MODELS) + squares)
    };
    let minimizer = point([
        ("data", category("scaled")),
        ("model", category("large")),
        ("optimizer", category("adam")),
        ("x", ParameterValue::Double(0.3)),
        ("y", ParameterValue::Double(0.8)),
    ]);
    FailingFunction::new("levels", parameters, 0.1, vec![minimizer], function)
}

/// A model whose error decreases with its size until it runs out of memory: layers times width times batch is limited.
pub fn memory() -> FailingFunction {
    const LIMIT: f64 = 16_000.0;
    const BATCHES: [i64; 7] = [8, 16, 32, 64, 128, 256, 512];
    let parameters = vec![
        parameter("batch_log2", integer(3, 9, ScaleType::UnitLinear)),
        parameter("layers", integer(1, 8, ScaleType::UnitLinear)),
        parameter("rate", double(1e-4, 1.0, ScaleType::UnitLog)),
        parameter("width", integer(8, 512, ScaleType::UnitLog)),
    ];
    let error = |batch: f64, layers: f64, width: f64| {
        0.3 / layers + 2.0 / width.sqrt() + 0.02 * (512.0 / batch).log2() + 0.01 * (layers - 5.0).max(0.0)
    };
    let function = move |point: &ParameterValues| {
        let (layers, width) = (whole(point, "layers"), whole(point, "width"));
        let batch = whole(point, "batch_log2").exp2();
        let rate = number(point, "rate").log10();
        (layers * width * batch <= LIMIT).then(|| error(batch, layers, width) + 0.1 * (rate + 2.0).powi(2))
    };
    // The error decreases with the width, so only the widest model for each number of layers and batch size counts.
    let mut best = (f64::INFINITY, 0, 0, 0);
    for (log2, batch) in (3..).zip(BATCHES) {
        for layers in 1..=8_i64 {
            let width = ((LIMIT as i64) / (layers * batch)).clamp(0, 512);
            if width >= 8 {
                let value = error(batch as f64, layers as f64, width as f64);
                best = if value < best.0 { (value, log2, layers, width) } else { best };
            }
        }
    }
    let minimizer = point([
        ("batch_log2", ParameterValue::Integer(best.1)),
        ("layers", ParameterValue::Integer(best.2)),
        ("rate", ParameterValue::Double(0.01)),
        ("width", ParameterValue::Integer(best.3)),
    ]);
    FailingFunction::new("memory", parameters, best.0, vec![minimizer], function)
}

/// A training that diverges if rate / (1 - momentum) is too large and gradients are not clipped; up to there, larger
/// rates are better.
pub fn divergence() -> FailingFunction {
    const LIMIT: f64 = 0.01;
    let parameters = vec![
        parameter("clipped", categorical(&["no", "little", "yes"])),
        parameter("decay", double(1e-6, 1e-1, ScaleType::UnitLog)),
        parameter("momentum", linear(0.0, 0.99)),
        parameter("rate", double(1e-4, 1.0, ScaleType::UnitLog)),
    ];
    let function = |point: &ParameterValues| {
        let step = number(point, "rate") / (1.0 - number(point, "momentum"));
        let (limit, cost) = match level(point, "clipped") {
            "yes" => (10.0 * LIMIT, 0.6),
            "little" => (2.0 * LIMIT, 0.4),
            _ => (LIMIT, 0.0),
        };
        let decay = number(point, "decay").log10() + 3.0;
        let momentum = number(point, "momentum") - 0.8;
        (step <= limit).then(|| 0.2 * (0.5 / step).log10().powi(2) + cost + 0.05 * decay * decay + momentum * momentum)
    };
    let minimizer = point([
        ("clipped", category("no")),
        ("decay", ParameterValue::Double(1e-3)),
        ("momentum", ParameterValue::Double(0.8)),
        ("rate", ParameterValue::Double(LIMIT * (1.0 - 0.8) * (1.0 - INSIDE))),
    ]);
    FailingFunction::new("divergence", parameters, 0.2 * (0.5 / LIMIT).log10().powi(2), vec![minimizer], function)
}

fn squares(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}
