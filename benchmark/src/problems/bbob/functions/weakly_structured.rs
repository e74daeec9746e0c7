//! f20, f23 and f24: multi-modal functions with a weak global structure. [`super::gallagher`] contains f21 and f22.

use std::f64::consts::TAU;

use super::super::random;
use super::super::transformations::{boundary_penalty, conditioning, difference, round_half_up};
use super::{Draws, Function};

/// f20, Schwefel's function x sin(sqrt(|x|)), negative and averaged, of 100 z, with a penalty where |100 z| > 500.
///
/// z = Lambda^10 (zhat - 2 |x_opt|) + 2 |x_opt|, where xhat_i = 2 sign(x_opt_i) x_i, and zhat_i is
/// xhat_i + (xhat_(i-1) - 2 |x_opt_(i-1)|) / 4, or xhat_1.
pub(super) fn schwefel(draws: &Draws) -> Function {
    /// 2 |x_opt_i| of the transformation.
    const CENTER: f64 = 4.209_687_463_7;
    /// 2 |x_opt_i| of the minimizer; the two constants of the platform differ in their last digit.
    const OPTIMUM: f64 = 4.209_687_463_3;
    /// The largest value of x sin(sqrt(|x|)) for |x| at most 500, at 100 times [`CENTER`].
    const OFFSET: f64 = 418.982_887_272_433_9;

    let signs = random::uniform(draws.dimensions, draws.seed).into_iter();
    let minimizer = signs.map(|number| 0.5 * OPTIMUM * if number < 0.5 { -1.0 } else { 1.0 }).collect();
    let scales = conditioning(10.0, draws.dimensions);
    Function::new(minimizer, move |point, minimizer| {
        let (mut sum, mut before) = (0.0, 0.0);
        let mut z = Vec::with_capacity(point.len());
        for ((value, optimum), scale) in point.iter().zip(minimizer).zip(&scales) {
            let hat = 2.0 * optimum.signum() * value;
            let centered = 100.0 * (scale * (hat + 0.25 * before - CENTER) + CENTER);
            before = hat - CENTER;
            sum += centered * centered.abs().sqrt().sin();
            z.push(centered);
        }
        0.01 * (boundary_penalty(&z, 500.0) + OFFSET - sum / z.len() as f64)
    })
}

/// f23, Katsuura's function: 10 / D^2 (the product of 1 + i sum over j = 1 ... 32 of |2^j z_i - round(2^j z_i)| / 2^j, to
/// the power of 10 / D^1.2, less 1) + f_pen, with i from 1 and z = R Lambda^100 Q (x - x_opt).
pub(super) fn katsuura(draws: &Draws) -> Function {
    let transformation = draws.conditioned_rotation(100.0);
    Function::new(draws.location(), move |point, minimizer| {
        let z = transformation.apply(&difference(point, minimizer));
        let dimensions = z.len() as f64;
        let exponent = 10.0 / dimensions.powf(1.2);
        let mut product = 1.0;
        for (i, value) in z.iter().enumerate() {
            let mut roughness = 0.0;
            let mut power = 1.0;
            for _ in 0..32 {
                power *= 2.0;
                let scaled = power * value;
                roughness += (scaled - round_half_up(scaled)).abs() / power;
            }
            product *= (1.0 + (i as f64 + 1.0) * roughness).powf(exponent);
        }
        10.0 / (dimensions * dimensions) * (product - 1.0) + boundary_penalty(point, 5.0)
    })
}

/// f24, Lunacek's bi-Rastrigin function: the lower of two bowls around mu_0 and mu_1 in each coordinate, the second
/// flatter by a factor s and higher by D, plus 10 (D - sum of cos(2 pi z_i)) and 10^4 f_pen.
///
/// xhat_i = 2 sign(x_opt_i) x_i and z = R Lambda^100 Q (xhat - mu_0).
pub(super) fn lunacek_bi_rastrigin(draws: &Draws) -> Function {
    /// mu_0.
    const CENTER: f64 = 2.5;

    let signs = random::gaussian(draws.dimensions, draws.seed).into_iter();
    let minimizer = signs.map(|number| (0.5 * CENTER).copysign(number)).collect();
    let inner = draws.rotation_q().with_rows_scaled(&conditioning(100.0, draws.dimensions));
    let outer = draws.rotation_r();
    let flatness = 1.0 - 0.5 / ((draws.dimensions as f64 + 20.0).sqrt() - 4.1);
    // mu_1.
    let second_center = -((CENTER * CENTER - 1.0) / flatness).sqrt();
    Function::new(minimizer, move |point, minimizer| {
        let dimensions = point.len() as f64;
        let hat = point.iter().zip(minimizer).map(|(value, optimum)| 2.0 * optimum.signum() * value);
        let (mut first, mut second) = (0.0, 0.0);
        let mut shifted = Vec::with_capacity(point.len());
        for value in hat {
            let (to_first, to_second) = (value - CENTER, value - second_center);
            first += to_first * to_first;
            second += to_second * to_second;
            shifted.push(to_first);
        }
        let z = outer.apply(&inner.apply(&shifted));
        let cosines: f64 = z.iter().map(|value| (TAU * value).cos()).sum();
        let bowl = first.min(dimensions + flatness * second);
        bowl + 10.0 * (dimensions - cosines) + 1e4 * boundary_penalty(point, 5.0)
    })
}
