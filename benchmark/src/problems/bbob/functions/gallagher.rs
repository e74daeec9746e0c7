//! f21 and f22: Gallagher's peaks, many Gaussian peaks at random places; the value depends on the highest one at the
//! point.

use super::super::matrix::Matrix;
use super::super::random;
use super::super::transformations::{boundary_penalty, oscillate, ramp};
use super::{Draws, Function};

/// The height of the highest peak.
const GREATEST_HEIGHT: f64 = 10.0;

/// The heights of the lowest and the highest of the other peaks.
const HEIGHTS: [f64; 2] = [1.1, 9.1];

/// The condition numbers of all peaks except the first are powers of this with exponents from 0 to 1.
const GREATEST_CONDITION: f64 = 1000.0;

/// Factor by which the first peak is moved towards the centre.
const FIRST_PEAK_SCALE: f64 = 0.8;

/// T_osz(10 - the greatest of w_k exp(-(x - y_k)' Q' C_k Q (x - y_k) / (2 D)))^2 + f_pen, with heights w_k, places y_k
/// and diagonal matrices C_k.
#[derive(Debug)]
pub(super) struct Gallagher {
    minimizer: Vec<f64>,
    rotation: Matrix,
    peaks: Vec<Peak>,
}

/// One peak.
#[derive(Debug)]
struct Peak {
    /// w_k.
    height: f64,
    /// Q y_k. Shape D.
    place: Vec<f64>,
    /// The diagonal of C_k. Shape D.
    scales: Vec<f64>,
}

/// The differences between f21 and f22 besides the number of peaks.
struct Layout {
    peaks: usize,
    first_condition: f64,
    /// Side length of the box around 0 from which places are drawn.
    width: f64,
}

impl Gallagher {
    /// f21: 101 peaks.
    pub(super) fn with_101_peaks(draws: &Draws) -> Self {
        Self::new(draws, &Layout { peaks: 101, first_condition: GREATEST_CONDITION.sqrt(), width: 10.0 })
    }

    /// f22: 21 peaks, the first with a larger condition number, in a slightly smaller box.
    pub(super) fn with_21_peaks(draws: &Draws) -> Self {
        Self::new(draws, &Layout { peaks: 21, first_condition: GREATEST_CONDITION, width: 9.8 })
    }

    fn new(draws: &Draws, layout: &Layout) -> Self {
        let &Draws { dimensions, seed } = draws;
        let rotation = draws.rotation_q();
        let mut places: Vec<Vec<f64>> = random::uniform(dimensions * layout.peaks, seed)
            .chunks(dimensions)
            .map(|numbers| numbers.iter().map(|number| layout.width * number - layout.width / 2.0).collect())
            .collect();
        places[0].iter_mut().for_each(|coordinate| *coordinate *= FIRST_PEAK_SCALE);

        let last = (layout.peaks - 2) as f64;
        let conditions = std::iter::once(layout.first_condition).chain(
            random_order(layout.peaks - 1, seed).into_iter().map(|rank| GREATEST_CONDITION.powf(rank as f64 / last)),
        );
        let heights = std::iter::once(GREATEST_HEIGHT)
            .chain((0..layout.peaks - 1).map(|k| k as f64 / last * (HEIGHTS[1] - HEIGHTS[0]) + HEIGHTS[0]));
        let peaks = places.iter().zip(conditions).zip(heights).zip(0..).map(|(((place, condition), height), k)| {
            let diagonal: Vec<f64> = ramp(dimensions).map(|exponent| condition.powf(exponent - 0.5)).collect();
            let order = random_order(dimensions, seed + 1000 * k);
            Peak {
                height,
                place: rotation.apply(place),
                scales: order.into_iter().map(|index| diagonal[index]).collect(),
            }
        });
        let peaks = peaks.collect();
        Self { minimizer: places.swap_remove(0), rotation, peaks }
    }
}

impl Function for Gallagher {
    fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        let rotated = self.rotation.apply(point);
        let factor = -0.5 / point.len() as f64;
        let mut highest: f64 = 0.0;
        for peak in &self.peaks {
            let mut distance = 0.0;
            for ((value, place), scale) in rotated.iter().zip(&peak.place).zip(&peak.scales) {
                let step = value - place;
                distance += scale * step * step;
            }
            highest = highest.max(peak.height * (factor * distance).exp());
        }
        let depth = oscillate(GREATEST_HEIGHT - highest);
        depth * depth + boundary_penalty(point, 5.0)
    }
}

/// Returns the numbers below `count` in a random order: the sorting order of as many uniform numbers.
fn random_order(count: usize, seed: i64) -> Vec<usize> {
    let numbers = random::uniform(count, seed);
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
    order
}
