//! f21 and f22, Gallagher's peaks: many Gaussian peaks at random places, of which the highest at the point counts.

use super::super::random;
use super::super::transformations::{boundary_penalty, oscillate, ramp};
use super::{Draws, Function};

/// Height of the highest peak.
const GREATEST_HEIGHT: f64 = 10.0;

/// Heights of the lowest and the highest of the other peaks.
const HEIGHTS: [f64; 2] = [1.1, 9.1];

/// Condition numbers of all peaks except the first are powers of this, with exponents from 0 to 1.
const GREATEST_CONDITION: f64 = 1000.0;

/// Factor by which the first peak is moved towards the centre.
const FIRST_PEAK_SCALE: f64 = 0.8;

struct Peak {
    /// w_k.
    height: f64,
    /// Q y_k. Shape D.
    place: Vec<f64>,
    /// The diagonal of C_k. Shape D.
    scales: Vec<f64>,
}

/// f21: 101 peaks.
pub(super) fn gallagher_101(draws: &Draws) -> Function {
    gallagher(draws, 101, GREATEST_CONDITION.sqrt(), 10.0)
}

/// f22: 21 peaks, the first with a larger condition number, in a slightly smaller box.
pub(super) fn gallagher_21(draws: &Draws) -> Function {
    gallagher(draws, 21, GREATEST_CONDITION, 9.8)
}

/// T_osz(10 - the greatest of w_k exp(-(x - y_k)' Q' C_k Q (x - y_k) / (2 D)))^2 + f_pen, with heights w_k, places y_k
/// and diagonal matrices C_k. The places are drawn from a box around 0 with sides of `width`.
fn gallagher(draws: &Draws, count: usize, first_condition: f64, width: f64) -> Function {
    let &Draws { dimensions, seed } = draws;
    let rotation = draws.rotation_q();
    let mut places: Vec<Vec<f64>> = random::uniform(dimensions * count, seed)
        .chunks(dimensions)
        .map(|numbers| numbers.iter().map(|number| width * number - width / 2.0).collect())
        .collect();
    places[0].iter_mut().for_each(|coordinate| *coordinate *= FIRST_PEAK_SCALE);
    let last = (count - 2) as f64;
    let ranks = random_order(count - 1, seed).into_iter();
    let conditions =
        std::iter::once(first_condition).chain(ranks.map(|rank| GREATEST_CONDITION.powf(rank as f64 / last)));
    let heights = std::iter::once(GREATEST_HEIGHT)
        .chain((0..count - 1).map(|k| k as f64 / last * (HEIGHTS[1] - HEIGHTS[0]) + HEIGHTS[0]));
    let peaks = places.iter().zip(conditions).zip(heights).zip(0..).map(|(((place, condition), height), k)| {
        let diagonal: Vec<f64> = ramp(dimensions).map(|exponent| condition.powf(exponent - 0.5)).collect();
        let order = random_order(dimensions, seed + 1000 * k);
        Peak { height, place: rotation.apply(place), scales: order.into_iter().map(|index| diagonal[index]).collect() }
    });
    let peaks: Vec<Peak> = peaks.collect();
    Function::new(places.swap_remove(0), move |point, _| {
        let rotated = rotation.apply(point);
        let factor = -0.5 / point.len() as f64;
        let mut highest: f64 = 0.0;
        for peak in &peaks {
            let mut distance = 0.0;
            for ((value, place), scale) in rotated.iter().zip(&peak.place).zip(&peak.scales) {
                let step = value - place;
                distance += scale * step * step;
            }
            highest = highest.max(peak.height * (factor * distance).exp());
        }
        let depth = oscillate(GREATEST_HEIGHT - highest);
        depth * depth + boundary_penalty(point, 5.0)
    })
}

/// Random permutation of the numbers below `count`: the sorting order of as many uniform numbers.
fn random_order(count: usize, seed: i64) -> Vec<usize> {
    let numbers = random::uniform(count, seed);
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
    order
}
