//! The points of a data set by feature, in blocks of points, and their distances to and products with one point.
//!
//! All functions are `#[inline(always)]`, for [`crate::numerics::elementary::vectorized`]. Distances are summed feature by
//! feature, not from a product of matrices (`|x|^2 + |x'|^2 - 2 x x'`): with the few features of
//! a tuning problem the exponential costs more than the sum, and there is no cancellation.

use nalgebra::DMatrix;
use pulp::Simd;

use crate::numerics::elementary::Block;
use crate::numerics::padded::PaddedColumns;

/// Points (n x d): ordered features in `[0, 1]`, categories as level indices.
pub(super) struct Features<'a> {
    columns: PaddedColumns,
    categorical: &'a [bool],
}

impl<'a> Features<'a> {
    pub(super) fn new(points: &DMatrix<f64>, categorical: &'a [bool]) -> Self {
        Self { columns: PaddedColumns::new(points.as_view()), categorical }
    }

    /// `n`.
    #[inline(always)]
    pub(super) fn points(&self) -> usize {
        self.columns.rows()
    }

    /// `d`.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.categorical.len()
    }

    #[inline(always)]
    pub(super) fn is_categorical(&self, j: usize) -> bool {
        self.categorical[j]
    }

    /// Writes point `i` into `point` (length d).
    #[inline(always)]
    pub(super) fn copy_point(&self, i: usize, point: &mut [f64]) {
        for (j, u) in point.iter_mut().enumerate() {
            *u = self.columns.at(i, j);
        }
    }

    /// Feature `j` of the points from `i` on.
    #[inline(always)]
    pub(super) fn blocks(&self, i: usize, j: usize) -> &[Block] {
        self.columns.blocks(i, j)
    }

    /// Sets `sums` to `sum_j D_j scales_j` for the points from `i` on and `center`, where `D_j` is the squared difference,
    /// or 1 for different categories.
    #[inline(always)]
    pub(super) fn squared_distances<S: Simd>(
        &self,
        simd: S,
        i: usize,
        center: &[f64],
        scales: &[f64],
        sums: &mut [Block],
    ) {
        let (sums, _) = S::as_mut_simd_f64s(sums.as_flattened_mut());
        let none = simd.splat_f64s(0.0);
        sums.fill(none);
        for (j, (&u, &scale)) in center.iter().zip(scales).enumerate() {
            let (others, _) = S::as_simd_f64s(self.blocks(i, j).as_flattened());
            let [u, scale] = [u, scale].map(|value| simd.splat_f64s(value));
            if self.categorical[j] {
                // Level indices are small whole numbers, exactly represented.
                add_each(simd, sums, others, |other| simd.select_f64s(simd.equal_f64s(other, u), none, scale));
            } else {
                add_each(simd, sums, others, |other| {
                    let difference = simd.sub_f64s(other, u);
                    simd.mul_f64s(simd.mul_f64s(difference, difference), scale)
                });
            }
        }
    }

    /// Sets `sums` to `1/4 + v.v'` for the points from `i` on and `center`, `v = 2u - 1` over the ordered features.
    #[inline(always)]
    pub(super) fn products<S: Simd>(&self, simd: S, i: usize, center: &[f64], sums: &mut [Block]) {
        let (sums, _) = S::as_mut_simd_f64s(sums.as_flattened_mut());
        sums.fill(simd.splat_f64s(0.25));
        let [one, two] = [1.0, 2.0].map(|value| simd.splat_f64s(value));
        for (j, u) in center.iter().enumerate().filter(|(j, _)| !self.categorical[*j]) {
            let (others, _) = S::as_simd_f64s(self.blocks(i, j).as_flattened());
            let v = simd.splat_f64s(2.0 * u - 1.0);
            add_each(simd, sums, others, |other| simd.mul_f64s(v, simd.sub_f64s(simd.mul_f64s(two, other), one)));
        }
    }
}

/// Adds `term` of each of `others` to the sum at the same index. Unrolled by four, since loop overhead would otherwise
/// equal the cost of the additions.
#[inline(always)]
fn add_each<S: Simd>(simd: S, sums: &mut [S::f64s], others: &[S::f64s], term: impl Fn(S::f64s) -> S::f64s) {
    let ((sums, sums_rest), (others, others_rest)) = (sums.as_chunks_mut::<4>(), others.as_chunks::<4>());
    for (sums, others) in sums.iter_mut().zip(others) {
        for (sum, other) in sums.iter_mut().zip(others) {
            *sum = simd.add_f64s(*sum, term(*other));
        }
    }
    for (sum, other) in sums_rest.iter_mut().zip(others_rest) {
        *sum = simd.add_f64s(*sum, term(*other));
    }
}
