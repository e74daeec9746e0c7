//! Functions of fixed dimension.

use std::f64::consts::PI;

use tunesmith_algorithms::problem::ParameterValues;

use super::TestFunction;
use super::builders::doubles;

/// Branin in `[-5, 10] x [0, 15]`, with three minimizers.
pub fn branin() -> TestFunction {
    let value = |point: &ParameterValues| {
        let x = doubles(point);
        branin_value(x[0], x[1])
    };
    let minimizers = [[-PI, 12.275], [PI, 2.275], [3.0 * PI, 2.475]];
    let ranges = [(-5.0, 10.0), (0.0, 15.0)];
    TestFunction::continuous("branin", &ranges, 10.0 / (8.0 * PI), &minimizers.map(Vec::from), value)
}

pub(crate) fn branin_value(a: f64, b: f64) -> f64 {
    let valley = b - 5.1 / (4.0 * PI * PI) * a * a + 5.0 / PI * a - 6.0;
    valley * valley + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * a.cos() + 10.0
}

/// The six-hump camel in `[-3, 3] x [-2, 2]`, with two minimizers, each the negative of the other.
pub fn six_hump_camel() -> TestFunction {
    let value = |point: &ParameterValues| {
        let x = doubles(point);
        six_hump_camel_value(x[0], x[1])
    };
    let (a, b) = (0.08984201310031806, -0.7126564030207396);
    let minimizers = [vec![a, b], vec![-a, -b]];
    TestFunction::continuous("six_hump_camel", &[(-3.0, 3.0), (-2.0, 2.0)], SIX_HUMP_CAMEL_OPTIMUM, &minimizers, value)
}

pub(crate) const SIX_HUMP_CAMEL_OPTIMUM: f64 = -1.0316284534898774;

pub(crate) fn six_hump_camel_value(x: f64, y: f64) -> f64 {
    let (a, b) = (x * x, y * y);
    (4.0 - 2.1 * a + a * a / 3.0) * a + x * y + (4.0 * b - 4.0) * b
}

/// The natural logarithm of Goldstein and Price's function, whose values span six orders of magnitude.
///
/// In `[-1.5, 2.5] x [-2, 2]`; the usual range `[-2, 2]^2` has the minimizer (0, -1) in the middle of x01.
pub fn goldstein_price() -> TestFunction {
    let value = |point: &ParameterValues| {
        let x = doubles(point);
        let (a, b) = (x[0], x[1]);
        let inner = 19.0 - 14.0 * a + 3.0 * a * a - 14.0 * b + 6.0 * a * b + 3.0 * b * b;
        let outer = 18.0 - 32.0 * a + 12.0 * a * a + 48.0 * b - 36.0 * a * b + 27.0 * b * b;
        let first = 1.0 + (a + b + 1.0).powi(2) * inner;
        let second = 30.0 + (2.0 * a - 3.0 * b).powi(2) * outer;
        (first * second).ln()
    };
    let ranges = [(-1.5, 2.5), (-2.0, 2.0)];
    TestFunction::continuous("goldstein_price_log", &ranges, 3.0_f64.ln(), &[vec![0.0, -1.0]], value)
}

/// Bohachevsky's first function.
///
/// In `[-60, 140]^2`; the usual range `[-100, 100]^2` has the minimizer (0, 0) in its middle.
pub fn bohachevsky() -> TestFunction {
    let value = |point: &ParameterValues| {
        let x = doubles(point);
        let waves = 0.3 * (3.0 * PI * x[0]).cos() + 0.4 * (4.0 * PI * x[1]).cos();
        x[0] * x[0] + 2.0 * x[1] * x[1] - waves + 0.7
    };
    TestFunction::continuous("bohachevsky", &[(-60.0, 140.0); 2], 0.0, &[vec![0.0; 2]], value)
}

/// The eggholder in `[-512, 512]^2`; the minimizer is on the upper bound of x01.
pub fn eggholder() -> TestFunction {
    let value = |point: &ParameterValues| {
        let x = doubles(point);
        let (a, b) = (x[0], x[1] + 47.0);
        -b * (b + a / 2.0).abs().sqrt().sin() - a * (a - b).abs().sqrt().sin()
    };
    let minimizers = [vec![512.0, 404.2318051137578]];
    TestFunction::continuous("eggholder", &[(-512.0, 512.0); 2], -959.6406627208509, &minimizers, value)
}

/// Hartmann's function of 3 variables in the unit cube.
pub fn hartmann3() -> TestFunction {
    let value = |point: &ParameterValues| hartmann3_value(&doubles(point));
    let minimizer = HARTMANN3_OPTIMIZER.to_vec();
    TestFunction::continuous("hartmann3", &[(0.0, 1.0); 3], HARTMANN3_OPTIMUM, &[minimizer], value)
}

pub(crate) fn hartmann3_value(x: &[f64]) -> f64 {
    let a = [[3.0, 10.0, 30.0], [0.1, 10.0, 35.0], [3.0, 10.0, 30.0], [0.1, 10.0, 35.0]];
    let p = [[0.3689, 0.1170, 0.2673], [0.4699, 0.4387, 0.7470], [0.1091, 0.8732, 0.5547], [0.0381, 0.5743, 0.8828]];
    hartmann(x, &a, &p)
}

/// Hartmann's function of 6 variables in the unit cube.
pub fn hartmann6() -> TestFunction {
    let value = |point: &ParameterValues| hartmann6_value(&doubles(point));
    let minimizer = HARTMANN6_OPTIMIZER.to_vec();
    TestFunction::continuous("hartmann6", &[(0.0, 1.0); 6], HARTMANN6_OPTIMUM, &[minimizer], value)
}

pub(crate) fn hartmann6_value(x: &[f64]) -> f64 {
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
    hartmann(x, &a, &p)
}

pub(crate) const HARTMANN3_OPTIMUM: f64 = -3.862779787332663;
pub(crate) const HARTMANN3_OPTIMIZER: [f64; 3] = [0.11458886669, 0.55564889592, 0.85254698520];
pub(crate) const HARTMANN6_OPTIMUM: f64 = -3.322368011415515;
pub(crate) const HARTMANN6_OPTIMIZER: [f64; 6] =
    [0.20168950876, 0.15001069009, 0.47687397761, 0.27533243076, 0.31165161652, 0.65730053352];

fn hartmann<const D: usize>(x: &[f64], a: &[[f64; D]; 4], p: &[[f64; D]; 4]) -> f64 {
    let weights = [1.0, 1.2, 3.0, 3.2];
    let well = |(a, p): (&[f64; D], &[f64; D])| {
        let squares = x.iter().zip(a).zip(p).map(|((x, a), p)| a * (x - p) * (x - p));
        (-squares.sum::<f64>()).exp()
    };
    -weights.iter().zip(a.iter().zip(p)).map(|(weight, rows)| weight * well(rows)).sum::<f64>()
}

/// Shekel's function with 5 wells in `[0, 10]^4`.
pub fn shekel5() -> TestFunction {
    let near = [4.000037152819676, 4.00013327659156];
    shekel::<5>("shekel/m05", -10.153199679058227, [near[0], near[1], near[0], near[1]])
}

/// Shekel's function with 7 wells in `[0, 10]^4`.
pub fn shekel7() -> TestFunction {
    let minimizer = [4.000572916185823, 4.000689366185304, 3.999489708859151, 3.9996061588586316];
    shekel::<7>("shekel/m07", -10.402940566818662, minimizer)
}

/// Shekel's function with 10 wells in `[0, 10]^4`.
pub fn shekel10() -> TestFunction {
    let minimizer = [4.000746531592047, 4.000592934138532, 3.9996633980403224, 3.999509800586807];
    shekel::<10>("shekel/m10", -10.536409816692043, minimizer)
}

fn shekel<const WELLS: usize>(name: &str, optimum: f64, minimizer: [f64; 4]) -> TestFunction {
    let value = |point: &ParameterValues| {
        let x = doubles(point);
        let depth = |(center, width): (&[f64; 4], &f64)| {
            let squares = x.iter().zip(center).map(|(x, c)| (x - c) * (x - c));
            1.0 / (squares.sum::<f64>() + width)
        };
        -SHEKEL_CENTERS.iter().zip(&SHEKEL_WIDTHS).take(WELLS).map(depth).sum::<f64>()
    };
    TestFunction::continuous(name, &[(0.0, 10.0); 4], optimum, &[minimizer.to_vec()], value)
}

const SHEKEL_WIDTHS: [f64; 10] = [0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3, 0.7, 0.5, 0.5];
const SHEKEL_CENTERS: [[f64; 4]; 10] = [
    [4.0, 4.0, 4.0, 4.0],
    [1.0, 1.0, 1.0, 1.0],
    [8.0, 8.0, 8.0, 8.0],
    [6.0, 6.0, 6.0, 6.0],
    [3.0, 7.0, 3.0, 7.0],
    [2.0, 9.0, 2.0, 9.0],
    [5.0, 5.0, 3.0, 3.0],
    [8.0, 1.0, 8.0, 1.0],
    [6.0, 2.0, 6.0, 2.0],
    [7.0, 3.6, 7.0, 3.6],
];
