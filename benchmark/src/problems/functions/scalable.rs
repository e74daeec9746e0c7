//! Functions of any dimension from 1; Rosenbrock's from 2.

use std::f64::consts::{E, PI, TAU};

use tunesmith_algorithms::problem::ParameterValues;

use super::TestFunction;
use super::builders::doubles;

/// Levy's function in `[-10, 10]^dimensions`; the optimum is at (1, ..., 1).
pub fn levy(dimensions: usize) -> TestFunction {
    let value = |point: &ParameterValues| {
        let w: Vec<f64> = doubles(point).iter().map(|x| 1.0 + (x - 1.0) / 4.0).collect();
        let (first, last) = (w[0], w[w.len() - 1]);
        let middle: f64 =
            w[..w.len() - 1].iter().map(|w| (w - 1.0).powi(2) * (1.0 + 10.0 * (PI * w + 1.0).sin().powi(2))).sum();
        (PI * first).sin().powi(2) + middle + (last - 1.0).powi(2) * (1.0 + (TAU * last).sin().powi(2))
    };
    cube("levy", dimensions, (-10.0, 10.0), 0.0, 1.0, value)
}

/// Ackley's function.
///
/// In `[-15, 30]^dimensions`; the usual range `[-32.768, 32.768]` has the minimizer (0, ..., 0) in its middle.
pub fn ackley(dimensions: usize) -> TestFunction {
    let value = |point: &ParameterValues| {
        let x = doubles(point);
        let n = x.len() as f64;
        let root = (x.iter().map(|x| x * x).sum::<f64>() / n).sqrt();
        let waves = x.iter().map(|x| (TAU * x).cos()).sum::<f64>() / n;
        -20.0 * (-0.2 * root).exp() - waves.exp() + 20.0 + E
    };
    cube("ackley", dimensions, (-15.0, 30.0), 0.0, 0.0, value)
}

/// Styblinski and Tang's function in `[-5, 5]^dimensions`, a sum over the parameters with 2^dimensions local optima.
pub fn styblinski_tang(dimensions: usize) -> TestFunction {
    let value = |point: &ParameterValues| {
        doubles(point).iter().map(|x| (x.powi(4) - 16.0 * x * x + 5.0 * x) / 2.0).sum::<f64>()
    };
    let optimum = -39.16616570377141 * dimensions as f64;
    cube("styblinski_tang", dimensions, (-5.0, 5.0), optimum, -2.903534027771177, value)
}

/// Rosenbrock's valley in `[-5, 10]^dimensions`; the optimum is at (1, ..., 1).
pub fn rosenbrock(dimensions: usize) -> TestFunction {
    let value = |point: &ParameterValues| {
        let x = doubles(point);
        let step = |pair: &[f64]| 100.0 * (pair[1] - pair[0] * pair[0]).powi(2) + (pair[0] - 1.0).powi(2);
        x.windows(2).map(step).sum::<f64>()
    };
    cube("rosenbrock", dimensions, (-5.0, 10.0), 0.0, 1.0, value)
}

/// Griewank's function.
///
/// In `[-400, 800]^dimensions`; the usual range `[-600, 600]` has the minimizer (0, ..., 0) in its middle.
pub fn griewank(dimensions: usize) -> TestFunction {
    let value = |point: &ParameterValues| {
        let x = doubles(point);
        let bowl = x.iter().map(|x| x * x).sum::<f64>() / 4000.0;
        let waves: f64 = x.iter().enumerate().map(|(index, x)| (x / (index as f64 + 1.0).sqrt()).cos()).product();
        bowl - waves + 1.0
    };
    cube("griewank", dimensions, (-400.0, 800.0), 0.0, 0.0, value)
}

/// Rastrigin's function.
///
/// In `[-3.5, 6.5]^dimensions`; the usual range `[-5.12, 5.12]` has the minimizer (0, ..., 0) in its middle.
pub fn rastrigin(dimensions: usize) -> TestFunction {
    let value =
        |point: &ParameterValues| doubles(point).iter().map(|x| x * x - 10.0 * (TAU * x).cos() + 10.0).sum::<f64>();
    cube("rastrigin", dimensions, (-3.5, 6.5), 0.0, 0.0, value)
}

/// Michalewicz's function with the usual steepness 10: narrow valleys in a plain.
///
/// In `[0, 4]^dimensions`; the usual range `[0, pi]` has pi/2 in its middle, which is optimal for x02. Above pi the
/// terms are not negative.
///
/// The function is a sum over the parameters, so the minimum is found for each alone: by a grid search, then by
/// golden-section search.
pub fn michalewicz(dimensions: usize) -> TestFunction {
    let value = |point: &ParameterValues| {
        doubles(point).iter().enumerate().map(|(index, &x)| michalewicz_term(index, x)).sum::<f64>()
    };
    let minimizer: Vec<f64> = (0..dimensions).map(michalewicz_minimizer).collect();
    let optimum = minimizer.iter().enumerate().map(|(index, &x)| michalewicz_term(index, x)).sum();
    TestFunction::continuous(
        format!("michalewicz/d{dimensions:02}"),
        &vec![(0.0, 4.0); dimensions],
        optimum,
        &[minimizer],
        value,
    )
}

fn michalewicz_term(index: usize, x: f64) -> f64 {
    -x.sin() * ((index as f64 + 1.0) * x * x / PI).sin().powi(20)
}

fn michalewicz_minimizer(index: usize) -> f64 {
    // Each parameter has at most 2 pi (index + 1) valleys, and the grid has many values in each.
    let steps = 1000 * (index + 1);
    let width = PI / steps as f64;
    let values = (0..=steps).map(|step| (step, michalewicz_term(index, step as f64 * width)));
    let lowest = values.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(step, _)| step) as f64 * width;
    let (mut low, mut high) = ((lowest - width).max(0.0), (lowest + width).min(PI));
    let ratio = (5.0_f64.sqrt() - 1.0) / 2.0;
    // The interval shrinks to the square root of f64 precision, below which values do not differ.
    for _ in 0..40 {
        let (left, right) = (high - ratio * (high - low), low + ratio * (high - low));
        if michalewicz_term(index, left) < michalewicz_term(index, right) {
            high = right;
        } else {
            low = left;
        }
    }
    f64::midpoint(low, high)
}

/// Creates a function with the same range for all parameters and a minimizer on the diagonal.
fn cube(
    family: &str,
    dimensions: usize,
    range: (f64, f64),
    optimum: f64,
    coordinate: f64,
    value: fn(&ParameterValues) -> f64,
) -> TestFunction {
    let name = format!("{family}/d{dimensions:02}");
    TestFunction::continuous(name, &vec![range; dimensions], optimum, &[vec![coordinate; dimensions]], value)
}
