use tunesmith_algorithms::problem::ParameterValues;

use super::{coefficient, name, with_minimizer};
use crate::problems::functions::TestFunction;
use crate::problems::functions::builders::{categorical, category, level, parameter};

/// Stations, in the order in which pests reach them: `5^9` = 1,953,125 points.
pub(super) const STATIONS: usize = 9;
/// Treatments of a station, including "none", with price and largest share of killed pests.
pub(super) const TREATMENTS: [(&str, f64, f64); 5] =
    [("none", 0.0, 0.0), ("dust", 0.1, 0.55), ("oil", 0.14, 0.65), ("soap", 0.18, 0.75), ("spray", 0.26, 0.95)];

/// Pests move through nine stations and multiply at each. A treatment kills a share of them; its effect and price
/// decrease with each repetition. The value is the price of the treatments plus the pests at all stations.
pub fn stations() -> TestFunction {
    let value = |point: &ParameterValues| {
        let place = |station: usize| {
            let chosen = level(point, &name(station));
            TREATMENTS.iter().position(|(treatment, ..)| *treatment == chosen).unwrap_or(0)
        };
        cost(&std::array::from_fn(place))
    };
    let levels = TREATMENTS.map(|(treatment, ..)| treatment);
    let parameters = (0..STATIONS).map(|station| parameter(&name(station), categorical(&levels))).collect();
    let best = [1, 4, 0, 1, 0, 2, 0, 3, 0];
    let level = |treatment: usize| category(TREATMENTS[treatment].0);
    let minimizer = (0..STATIONS).map(|station| (name(station), level(best[station]))).collect();
    with_minimizer("stations", parameters, minimizer, value)
}

/// Cost of the treatments, as indices into [`TREATMENTS`], and of the pests.
pub(super) fn cost(treatments: &[usize; STATIONS]) -> f64 {
    /// Factor of the effect for each repetition of a treatment.
    const HABIT: f64 = 0.75;
    /// Factor of the price for each repetition of a treatment.
    const DISCOUNT: f64 = 0.92;
    let mut uses = [0; TREATMENTS.len()];
    let mut pests = 0.1;
    let mut cost = 0.0;
    for (station, &treatment) in treatments.iter().enumerate() {
        pests += (0.1 + 0.4 * coefficient(&[30, station])) * (1.0 - pests);
        let (_, price, kill) = TREATMENTS[treatment];
        let used = uses[treatment];
        uses[treatment] += 1;
        let fit = 0.5 + 0.5 * coefficient(&[31, station, treatment]);
        pests *= 1.0 - kill * fit * HABIT.powi(used);
        cost += price * DISCOUNT.powi(used) + 0.6 * pests;
    }
    cost
}
