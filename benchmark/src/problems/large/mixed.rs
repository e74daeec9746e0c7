use std::f64::consts::{E, TAU};

use tunesmith_algorithms::problem::{ParameterValue, ParameterValues};

use super::part;
use crate::problems::categorical::{coefficient, name};
use crate::problems::functions::TestFunction;
use crate::problems::functions::builders::{categorical, category, level, linear, number, parameter};

/// Number of two-level categories.
const SWITCHES: usize = 50;
/// Number of doubles in `[-1, 1]`.
const NUMBERS: usize = 3;
/// Largest distance of an optimal number from 0, so that the optimum is inside its range.
const LARGEST_SHIFT: f64 = 0.5;

/// Ackley's function of 50 categories of two levels and three numbers in `[-1, 1]`.
///
/// The coordinate of a category is 0 at its optimal level and 1 at the other one, that of a number its distance from the
/// optimal one. In the source (Wan et al. 2021, Think Global and Act Local: Bayesian Optimisation over High-Dimensional
/// Categorical and Mixed Search Spaces, section 5, after Bliek et al. 2021) the optimum is at the first level of every
/// category and at 0; here both are random for each instance.
pub fn ackley53(instance: u64) -> TestFunction {
    let levels: Vec<&str> =
        (0..SWITCHES).map(|switch| if draw(instance, 0, switch) < 0.5 { "off" } else { "on" }).collect();
    let shift = |which: usize| LARGEST_SHIFT * (2.0 * draw(instance, 1, which) - 1.0);
    let shifts: Vec<f64> = (0..NUMBERS).map(shift).collect();
    let switches = (0..SWITCHES).map(|switch| parameter(&name(switch), categorical(&["off", "on"])));
    let numbers = (0..NUMBERS).map(|which| parameter(&number_name(which), linear(-1.0, 1.0)));
    let parameters = switches.chain(numbers).collect();
    let mut minimizer: ParameterValues =
        levels.iter().enumerate().map(|(switch, level)| (name(switch), category(*level))).collect();
    let double = |(which, shift): (usize, &f64)| (number_name(which), ParameterValue::Double(*shift));
    minimizer.extend(shifts.iter().enumerate().map(double));
    let function = move |point: &ParameterValues| {
        let wrong = |(switch, best): &(usize, &&str)| level(point, &name(*switch)) != **best;
        let wrong = levels.iter().enumerate().filter(wrong).count() as f64;
        let distances: Vec<f64> =
            shifts.iter().enumerate().map(|(which, shift)| number(point, &number_name(which)) - shift).collect();
        // A coordinate of 0 or 1 has the cosine 1.
        let squares = wrong + distances.iter().map(|z| z * z).sum::<f64>();
        let cosines = SWITCHES as f64 + distances.iter().map(|z| (TAU * z).cos()).sum::<f64>();
        let count = (SWITCHES + NUMBERS) as f64;
        20.0 * (1.0 - (-0.2 * (squares / count).sqrt()).exp()) + (E - (cosines / count).exp())
    };
    TestFunction::new("ackley/d53", parameters, 0.0, vec![minimizer], function)
}

fn draw(instance: u64, purpose: usize, index: usize) -> f64 {
    coefficient(&[50, part(instance), purpose, index])
}

fn number_name(which: usize) -> String {
    format!("x{:02}", which + 1)
}
