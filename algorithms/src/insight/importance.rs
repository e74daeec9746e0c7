//! Parameter importance: Sobol indices of the posterior mean.
//!
//! Notation: `f` the posterior mean on the warped scale; `V` its variance over the space, with each parameter uniform
//! on its scale; `A`, `B` two independent sets of `N` points; `A_j` the set `A` with coordinate `j` of `B`.
//!
//! - first order `S_j = mean(f(B) (f(A_j) - f(A))) / V`: the share of `V` removed by fixing parameter `j` alone
//!   (Saltelli et al. 2010, Computer Physics Communications 181, table 2, row b);
//! - total `T_j = mean((f(A) - f(A_j))^2) / 2V`: the share of `V` that remains while only `j` varies, including
//!   interactions (Jansen 1999; row f of the same table).
//!
//! `A` and `B` are the halves of one scrambled Sobol sequence in twice the dimensions. A length scale alone does not
//! measure importance: a strong linear effect has a long one.
//!
//! The interval of an index is its range over the model and refits to bootstrap samples of the points. It shows how
//! much the index depends on single trials, and is wide if there are few. It is not a confidence interval: a search
//! that stayed near its optimum has no data on the effects elsewhere, and refits cannot reveal them.

use nalgebra::DMatrix;
use serde::Serialize;
use sobol_burley::{NUM_DIMENSIONS, sample};

use super::model::InsightModel;
use crate::gp::Posterior;

/// Approximate number of evaluations: `N` times the number of sets. A guess.
const EVALUATIONS: usize = 4096;
/// Minimum `N`, even in many dimensions. A guess.
const FEWEST_SAMPLES: usize = 128;
/// Number of refits for the intervals. A guess.
const DRAWS: u64 = 8;
/// Variance of the posterior mean on the standardised scale below which it counts as flat.
const FLAT: f64 = 1e-10;
/// Key of the scramble; arbitrary.
const SCRAMBLE: u32 = 0x7453_6f62;

/// Importance of each parameter for one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Importance {
    /// One per parameter with more than one value, by decreasing total index, equal ones by name.
    pub parameters: Vec<ParameterImportance>,
    /// Variance of the posterior mean over the space, where the variance of the measured values is 1 (warped scale).
    /// Near 0 the model has found no effect, and all indices are 0.
    pub explained_variance: f64,
    /// Number of refits for the intervals.
    pub refits: usize,
}

/// Sobol indices of one parameter, from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParameterImportance {
    /// Name of the parameter.
    pub parameter: String,
    /// Share of the variance that the parameter explains alone.
    pub first_order: f64,
    /// Range of `first_order` over the refits.
    pub first_order_interval: Interval,
    /// Share of the variance that involves the parameter, including interactions.
    pub total: f64,
    /// Range of `total` over the refits.
    pub total_interval: Interval,
}

/// Range, inclusive at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Interval {
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
}

impl Interval {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let empty = Self { lower: f64::INFINITY, upper: f64::NEG_INFINITY };
        values.fold(empty, |range, value| Self { lower: range.lower.min(value), upper: range.upper.max(value) })
    }
}

pub(super) struct Indices {
    pub(super) first_order: Vec<f64>,
    pub(super) total: Vec<f64>,
    pub(super) variance: f64,
}

impl InsightModel {
    /// Computes the importance of each parameter.
    pub fn importance(&self) -> Importance {
        let sets = self.point_sets();
        let own = indices(&self.posterior, &sets);
        let refits: Vec<Indices> =
            (1..=DRAWS).filter_map(|draw| Some(indices(&self.resampled(draw)?, &sets))).collect();
        let all = || std::iter::once(&own).chain(&refits);
        let one = |(j, feature): (usize, &crate::encoding::Feature)| ParameterImportance {
            parameter: feature.name.clone(),
            first_order: own.first_order[j],
            first_order_interval: Interval::of(all().map(|indices| indices.first_order[j])),
            total: own.total[j],
            total_interval: Interval::of(all().map(|indices| indices.total[j])),
        };
        let mut parameters: Vec<_> = self.encoding.features().iter().enumerate().map(one).collect();
        // Features are ordered by name, and the sort is stable.
        parameters.sort_by(|a, b| b.total.total_cmp(&a.total));
        Importance { parameters, explained_variance: own.variance, refits: refits.len() }
    }

    /// `A`, `B`, and each `A_j`, in this order; shape N x d each.
    pub(super) fn point_sets(&self) -> Vec<DMatrix<f64>> {
        let d = self.encoding.dimensions();
        let samples = (EVALUATIONS / (d + 2)).max(FEWEST_SAMPLES).next_power_of_two();
        let half = |offset: usize| {
            DMatrix::from_fn(samples, d, |row, j| {
                let dimension = offset + j;
                let scramble = SCRAMBLE.wrapping_add((dimension / NUM_DIMENSIONS as usize) as u32);
                let uniform = sample(row as u32, (dimension % NUM_DIMENSIONS as usize) as u32, scramble);
                self.encoding.coordinate_from_uniform(j, f64::from(uniform))
            })
        };
        let (a, b) = (half(0), half(d));
        let mixed = (0..d).map(|j| {
            let mut mixed = a.clone();
            mixed.set_column(j, &b.column(j));
            mixed
        });
        let mixed: Vec<_> = mixed.collect();
        [a, b].into_iter().chain(mixed).collect()
    }
}

/// Estimates for the posterior mean on `sets`.
pub(super) fn indices(posterior: &Posterior, sets: &[DMatrix<f64>]) -> Indices {
    let values: Vec<Vec<f64>> = sets.iter().map(|points| posterior.first_means(points)).collect();
    sobol_indices(&values)
}

/// Estimates from the values on `A`, `B` and each `A_j`.
pub(super) fn sobol_indices(values: &[Vec<f64>]) -> Indices {
    let [a, b, mixed @ ..] = values else {
        return Indices { first_order: Vec::new(), total: Vec::new(), variance: 0.0 };
    };
    let n = a.len() as f64;
    let both = || a.iter().chain(b);
    let mean = both().sum::<f64>() / (2.0 * n);
    let variance = both().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (2.0 * n);
    if variance < FLAT {
        let zeros = vec![0.0; mixed.len()];
        return Indices { first_order: zeros.clone(), total: zeros, variance };
    }
    let share = |sum: f64| (sum / n / variance).clamp(0.0, 1.0);
    let triples = |mixed: &Vec<f64>, term: &dyn Fn(f64, f64, f64) -> f64| -> f64 {
        a.iter().zip(b).zip(mixed).map(|((a, b), mixed)| term(*a, *b, *mixed)).sum()
    };
    // Subtracting the mean from `f(B)` keeps the estimator unbiased and reduces its variance.
    let first = mixed.iter().map(|mixed| share(triples(mixed, &|a, b, mixed| (b - mean) * (mixed - a))));
    let total = mixed.iter().map(|mixed| share(triples(mixed, &|a, _, mixed| 0.5 * (a - mixed) * (a - mixed))));
    Indices { first_order: first.collect(), total: total.collect(), variance }
}
