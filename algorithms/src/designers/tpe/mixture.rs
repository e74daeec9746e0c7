//! A density over points of the search space: a mixture of one product of kernels per trial and a prior component.
//!
//! ```text
//! p(x) = SUM_k w_k PROD_j kernel_j(x_j; m_kj)  +  w_prior PROD_j uniform_j(x_j)
//! ```
//!
//! Notation: `k` component, `j` feature, `w` weights that sum to 1, `m_k` encoded point of trial `k`. The product is
//! over the features that are active in `x`. A component is uniform over features that are inactive in its own trial.
//!
//! Sources: Falkner et al. 2018 (BOHB), section 3.2, for the multivariate mixture; Bergstra et al. 2011 for the prior
//! component, uniform here.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::kernel::Kernel;
use crate::encoding::Encoding;

/// A trial of a group.
#[derive(Debug, Clone)]
pub(super) struct Component {
    /// Encoded point, shape `[dimensions]`.
    pub(super) point: Vec<f64>,
    /// Features active in the trial, shape `[dimensions]`.
    pub(super) active: Vec<bool>,
    /// Positive. The prior component has weight 1.
    pub(super) weight: f64,
}

#[derive(Debug)]
pub(super) struct Mixture<'a> {
    components: &'a [Component],
    kernels: Vec<Kernel>,
    /// One per feature.
    columns: Vec<Column>,
    /// `ln w`, the prior component last; shape `[components + 1]`.
    log_weights: Vec<f64>,
    /// Cumulative sums of `w`, the prior component last.
    cumulative: Vec<f64>,
}

/// Contributions of the components, the prior component last, along one feature.
#[derive(Debug)]
enum Column {
    Interval(Vec<Bell>),
    Table {
        /// Distinct coordinates of the components, increasing.
        centers: Vec<f64>,
        /// For each component the index of its coordinate in `centers`; `centers.len()` if it is uniform.
        entries: Vec<u32>,
        /// For each value, the `ln` of its mass from each centre, computed on first use.
        rows: Vec<Option<Vec<f64>>>,
    },
}

/// `exp(log_factor - ((x - center) * inverse_width)^2 / 2)`.
#[derive(Debug, Clone, Copy)]
struct Bell {
    center: f64,
    inverse_width: f64,
    log_factor: f64,
}

impl Bell {
    const UNIFORM: Self = Self { center: 0.0, inverse_width: 0.0, log_factor: 0.0 };
}

impl<'a> Mixture<'a> {
    /// Mixture of `components` with one kernel per feature. Without components it is the prior component.
    pub(super) fn new(components: &'a [Component], kernels: Vec<Kernel>) -> Self {
        let columns = kernels.iter().enumerate().map(|(j, kernel)| Column::new(components, kernel, j)).collect();
        let total: f64 = 1.0 + components.iter().map(|component| component.weight).sum::<f64>();
        let weights = || components.iter().map(|component| component.weight).chain([1.0]);
        let mut sum = 0.0;
        let cumulative = weights().map(|weight| {
            sum += weight / total;
            sum
        });
        let cumulative = cumulative.collect();
        let log_weights = weights().map(|weight| (weight / total).ln()).collect();
        Self { components, kernels, columns, log_weights, cumulative }
    }

    /// `ln p(x)` of the point `x`, shape `[dimensions]`, feasible, over the features that are `active`.
    ///
    /// `scratch` is overwritten.
    pub(super) fn log_density(&mut self, x: &[f64], active: &[bool], scratch: &mut Vec<f64>) -> f64 {
        scratch.clone_from(&self.log_weights);
        for (j, column) in self.columns.iter_mut().enumerate() {
            if !active[j] {
                continue;
            }
            match column {
                Column::Interval(bells) => {
                    for (sum, bell) in scratch.iter_mut().zip(bells) {
                        let z = (x[j] - bell.center) * bell.inverse_width;
                        *sum += bell.log_factor - 0.5 * z * z;
                    }
                }
                Column::Table { centers, entries, rows } => {
                    let value = self.kernels[j].index(x[j]);
                    let row = rows[value].get_or_insert_with(|| self.kernels[j].log_masses(value, centers));
                    for (sum, entry) in scratch.iter_mut().zip(entries) {
                        *sum += row[*entry as usize];
                    }
                }
            }
        }
        log_sum_exp(scratch)
    }

    /// Draws a feasible point with its active features.
    ///
    /// The component drawn first provides the active features. Features activated by the drawn values come from another
    /// component that has them, or else from the prior component.
    pub(super) fn draw(&self, encoding: &Encoding, rng: &mut ChaCha8Rng) -> (Vec<f64>, Vec<bool>) {
        let dimensions = self.kernels.len();
        let component = self.components.get(self.draw_component(rng));
        let mut drawn = vec![false; dimensions];
        let mut point = match component {
            Some(component) => component.point.clone(),
            None => self.kernels.iter().map(|kernel| kernel.draw_uniform(rng)).collect(),
        };
        match component {
            Some(component) => {
                for j in (0..dimensions).filter(|&j| component.active[j]) {
                    point[j] = self.kernels[j].draw(component.point[j], rng);
                    drawn[j] = true;
                }
            }
            None => drawn.fill(true),
        }
        loop {
            encoding.snap(&mut point);
            let active = encoding.active(&point);
            let Some(j) = (0..dimensions).find(|&j| active[j] && !drawn[j]) else { return (point, active) };
            point[j] = match self.draw_component_with(j, rng) {
                Some(other) => self.kernels[j].draw(other.point[j], rng),
                None => self.kernels[j].draw_uniform(rng),
            };
            drawn[j] = true;
        }
    }

    /// Index of a component, drawn by weight; the prior component follows the last trial.
    fn draw_component(&self, rng: &mut ChaCha8Rng) -> usize {
        let uniform: f64 = rng.random();
        self.cumulative.partition_point(|&sum| sum <= uniform).min(self.components.len())
    }

    /// Component drawn by weight among those in which feature `j` is active.
    fn draw_component_with(&self, j: usize, rng: &mut ChaCha8Rng) -> Option<&Component> {
        let with = || self.components.iter().filter(|component| component.active[j]);
        let mut rest = rng.random::<f64>() * with().map(|component| component.weight).sum::<f64>();
        with().find(|component| {
            rest -= component.weight;
            rest < 0.0
        })
    }
}

impl Column {
    fn new(components: &[Component], kernel: &Kernel, j: usize) -> Self {
        let Some(values) = kernel.values() else {
            let Kernel::Interval { width } = kernel else { return Self::Interval(vec![]) };
            let bell = |component: &Component| {
                if !component.active[j] {
                    return Bell::UNIFORM;
                }
                let center = component.point[j];
                Bell { center, inverse_width: width.recip(), log_factor: kernel.log_factor(center) }
            };
            return Self::Interval(components.iter().map(bell).chain([Bell::UNIFORM]).collect());
        };
        let active = || components.iter().filter(|component| component.active[j]);
        let mut centers: Vec<f64> = active().map(|component| component.point[j]).collect();
        centers.sort_by(f64::total_cmp);
        centers.dedup();
        let nothing = centers.len() as u32;
        let entry = |component: &Component| {
            if component.active[j] { centers.partition_point(|m| *m < component.point[j]) as u32 } else { nothing }
        };
        let entries = components.iter().map(entry).chain([nothing]).collect();
        Self::Table { entries, centers, rows: vec![None; values] }
    }
}

/// `ln SUM exp(value)`.
fn log_sum_exp(values: &[f64]) -> f64 {
    /// Smaller terms do not change a double.
    const NEGLIGIBLE: f64 = -37.0;
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let terms = values.iter().map(|value| value - largest).filter(|difference| *difference > NEGLIGIBLE);
    largest + terms.map(f64::exp).sum::<f64>().ln()
}
