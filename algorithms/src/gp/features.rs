//! Points of a data set in blocks, and their distances to and products with other points.
//!
//! All functions are `#[inline(always)]`, for [`crate::numerics::elementary::vectorized`]. Distances are summed feature
//! by feature, not from a product of matrices (`|x|^2 + |x'|^2 - 2 x x'`): with the few features of a tuning problem
//! the exponential costs more than the sum, and there is no cancellation. A block of points is compared with several
//! others together, so that sums stay in registers and a hundred features in the first-level cache.

use nalgebra::DMatrix;
use pulp::Simd;

use crate::numerics::elementary::{Block, LANES};

/// Number of points compared with a block together, a divisor of [`LANES`].
pub(super) const CENTERS: usize = 4;

/// Points (n x d): ordered features in `[0, 1]`, categories as level indices. The last block of points is padded with
/// zeros.
pub(super) struct Features<'a> {
    points: usize,
    /// The d features of the first block of points, then of the second, and so on.
    values: Vec<Block>,
    categorical: &'a [bool],
}

impl<'a> Features<'a> {
    pub(super) fn new(points: &DMatrix<f64>, categorical: &'a [bool]) -> Self {
        let (n, d) = points.shape();
        let mut values = vec![[0.0; LANES]; n.div_ceil(LANES) * d];
        for (j, column) in points.as_slice().chunks_exact(n.max(1)).enumerate() {
            for (block, points) in column.chunks(LANES).enumerate() {
                values[block * d + j][..points.len()].copy_from_slice(points);
            }
        }
        Self { points: n, values, categorical }
    }

    /// `n`.
    #[inline(always)]
    pub(super) fn points(&self) -> usize {
        self.points
    }

    #[inline(always)]
    pub(super) fn blocks(&self) -> usize {
        self.points.div_ceil(LANES)
    }

    /// `d`.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.categorical.len()
    }

    /// Copies the features of the points from `i` on, all in one block, into `centers` (length d).
    #[inline(always)]
    pub(super) fn copy_points<const C: usize>(&self, i: usize, centers: &mut [[f64; C]]) {
        let values = &self.values[i / LANES * self.count()..];
        for (center, block) in centers.iter_mut().zip(values) {
            center.copy_from_slice(&block[i % LANES..][..C]);
        }
    }

    /// Sets `sums`, with one column for each of the C `centers` (length d), to `sum_j D_j scales_j` for the points from block
    /// `first` on, where `D_j` is the squared difference, or 1 for different categories.
    #[inline(always)]
    pub(super) fn squared_distances<S: Simd, const C: usize>(
        &self,
        simd: S,
        first: usize,
        centers: &[[f64; C]],
        scales: &[f64],
        sums: &mut [Block],
    ) {
        let none = simd.splat_f64s(0.0);
        self.add_each(simd, first, centers, 0.0, sums, |j, other, u| {
            let scale = simd.splat_f64s(scales[j]);
            if self.categorical[j] {
                // Level indices are small whole numbers, exactly represented.
                simd.select_f64s(simd.equal_f64s(other, u), none, scale)
            } else {
                let difference = simd.sub_f64s(other, u);
                simd.mul_f64s(simd.mul_f64s(difference, difference), scale)
            }
        });
    }

    /// Like [`Self::squared_distances`] for `1/4 + v.v'`, `v = 2u - 1` over the ordered features.
    #[inline(always)]
    pub(super) fn products<S: Simd, const C: usize>(
        &self,
        simd: S,
        first: usize,
        centers: &[[f64; C]],
        sums: &mut [Block],
    ) {
        let [none, one, two] = [0.0, 1.0, 2.0].map(|value| simd.splat_f64s(value));
        let centered = |u| simd.sub_f64s(simd.mul_f64s(two, u), one);
        self.add_each(simd, first, centers, 0.25, sums, |j, other, u| {
            if self.categorical[j] { none } else { simd.mul_f64s(centered(u), centered(other)) }
        });
    }

    /// Adds to the partial sums `parts[j]` of each feature `weight D_j` for all pairs of one of the C `centers` (length d) and
    /// a point from block `first` on; `weights` has a column for each center.
    #[inline(always)]
    pub(super) fn add_weighted_squares<S: Simd, const C: usize>(
        &self,
        simd: S,
        first: usize,
        centers: &[[f64; C]],
        weights: &[Block],
        parts: &mut [Block],
    ) {
        let none = simd.splat_f64s(0.0);
        let width = width::<S>();
        let (values, weights) = (self.vectors::<S>(first), S::as_simd_f64s(weights.as_flattened()).0);
        let per_center = weights.len() / C;
        let (parts, _) = S::as_mut_simd_f64s(parts.as_flattened_mut());
        for (block, values) in values.chunks_exact(self.count().max(1) * width).enumerate() {
            for lanes in 0..width {
                let weights: [S::f64s; C] = std::array::from_fn(|c| weights[c * per_center + block * width + lanes]);
                let features = values.chunks_exact(width).zip(parts.chunks_exact_mut(width));
                for ((values, parts), (center, categorical)) in features.zip(centers.iter().zip(self.categorical)) {
                    let mut sum = parts[lanes];
                    for (u, weight) in center.iter().zip(weights) {
                        let u = simd.splat_f64s(*u);
                        let term = if *categorical {
                            simd.select_f64s(simd.equal_f64s(values[lanes], u), none, weight)
                        } else {
                            let difference = simd.sub_f64s(values[lanes], u);
                            simd.mul_f64s(simd.mul_f64s(weight, difference), difference)
                        };
                        sum = simd.add_f64s(sum, term);
                    }
                    parts[lanes] = sum;
                }
            }
        }
    }

    /// Adds to the partial sums of each feature `weight (u_j - x_j)` and `coefficient (2 x_j - 1)` over the points `x`, for
    /// one `center` u (length d). Categories are not meaningful.
    #[inline(always)]
    pub(super) fn add_weighted_differences<S: Simd>(
        &self,
        simd: S,
        center: &[f64],
        weights: &[Block],
        coefficients: &[Block],
        by_weights: &mut [Block],
        by_coefficients: &mut [Block],
    ) {
        let [one, two] = [1.0, 2.0].map(|value| simd.splat_f64s(value));
        let width = width::<S>();
        let (values, weights) = (self.vectors::<S>(0), S::as_simd_f64s(weights.as_flattened()).0);
        let (coefficients, _) = S::as_simd_f64s(coefficients.as_flattened());
        let (by_weights, _) = S::as_mut_simd_f64s(by_weights.as_flattened_mut());
        let (by_coefficients, _) = S::as_mut_simd_f64s(by_coefficients.as_flattened_mut());
        let blocks = weights.chunks_exact(width).zip(coefficients.chunks_exact(width));
        for (values, (weights, coefficients)) in values.chunks_exact(self.count().max(1) * width).zip(blocks) {
            let parts = by_weights.chunks_exact_mut(width).zip(by_coefficients.chunks_exact_mut(width));
            for ((values, u), (by_weight, by_coefficient)) in values.chunks_exact(width).zip(center).zip(parts) {
                let u = simd.splat_f64s(*u);
                for lanes in 0..width {
                    let x = values[lanes];
                    let difference = simd.mul_f64s(weights[lanes], simd.sub_f64s(u, x));
                    by_weight[lanes] = simd.add_f64s(by_weight[lanes], difference);
                    let product = simd.mul_f64s(coefficients[lanes], simd.sub_f64s(simd.mul_f64s(two, x), one));
                    by_coefficient[lanes] = simd.add_f64s(by_coefficient[lanes], product);
                }
            }
        }
    }

    /// Sets `sums`, with one column for each of the C `centers` (length d), to `start` and `term(j, x_j, u_j)` of each feature
    /// for the points `x` from block `first` on and the center `u`.
    #[inline(always)]
    fn add_each<S: Simd, const C: usize>(
        &self,
        simd: S,
        first: usize,
        centers: &[[f64; C]],
        start: f64,
        sums: &mut [Block],
        term: impl Fn(usize, S::f64s, S::f64s) -> S::f64s,
    ) {
        let width = width::<S>();
        let (sums, _) = S::as_mut_simd_f64s(sums.as_flattened_mut());
        let start = simd.splat_f64s(start);
        if self.count() == 0 {
            return sums.fill(start);
        }
        let per_center = sums.len() / C;
        for (block, values) in self.vectors::<S>(first).chunks_exact(self.count() * width).enumerate() {
            for lanes in 0..width {
                let mut of_block = [start; C];
                for (j, (values, center)) in values.chunks_exact(width).zip(centers).enumerate() {
                    for (sum, u) in of_block.iter_mut().zip(center) {
                        *sum = simd.add_f64s(*sum, term(j, values[lanes], simd.splat_f64s(*u)));
                    }
                }
                for (c, sum) in of_block.into_iter().enumerate() {
                    sums[c * per_center + block * width + lanes] = sum;
                }
            }
        }
    }

    /// Features of the points from block `first` on.
    #[inline(always)]
    fn vectors<S: Simd>(&self, first: usize) -> &[S::f64s] {
        S::as_simd_f64s(self.values[first * self.count()..].as_flattened()).0
    }
}

/// Number of vectors per block.
#[inline(always)]
const fn width<S: Simd>() -> usize {
    size_of::<Block>() / size_of::<S::f64s>()
}
