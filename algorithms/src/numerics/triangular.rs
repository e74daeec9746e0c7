//! Cholesky factorisation by matrix products.
//!
//! Notation: `K` symmetric positive definite, `K = L L'`, `L` lower triangular; all n x n.
//!
//! The recursion halves `K` and does nearly all of its work in matrix products, for which nalgebra calls a blocked,
//! vectorised kernel; nalgebra's Cholesky proceeds column by column. The recursion also yields the inverse of `L`,
//! which turns later triangular solves for many points into products. Source: Golub & Van Loan 2013, "Matrix
//! Computations", 4.2.9 (block Cholesky).

use nalgebra::DMatrix;
use pulp::{Simd, WithSimd};

use super::elementary::{Block, LANES, vectorized};
use super::padded::PaddedColumns;
use super::products::{
    BLOCK, add_transposed_product, lower_product_into, lower_square_into, part, part_mut, transposed_part,
};

/// Largest block factorised column by column. A guess: as small as the products of [`BLOCK`] rows.
const LEAF: usize = 64;

/// `inv(L)` and the determinant of a factorisation.
#[derive(Debug, Clone)]
pub struct InverseFactor {
    /// `inv(L)`, n x n, lower triangular with explicit zeros above.
    pub inverse: DMatrix<f64>,
    /// `sum ln L_ii = 0.5 ln det K`.
    pub half_log_determinant: f64,
}

impl InverseFactor {
    /// Factorises `matrix` (n x n; only the lower triangle is read).
    ///
    /// Returns `None` if a pivot is not a positive finite number: the matrix is not positive definite in double
    /// precision.
    pub fn new(mut matrix: DMatrix<f64>) -> Option<Self> {
        let mut factor = Self::zeros(matrix.nrows());
        factor.replace(&mut matrix).then_some(factor)
    }

    /// Empty factor, for [`Self::replace`].
    pub(crate) fn zeros(n: usize) -> Self {
        Self { inverse: DMatrix::zeros(n, n), half_log_determinant: 0.0 }
    }

    /// Replaces this factor by that of `matrix` (n x n; only the lower triangle is read), which is destroyed. Returns
    /// false if the matrix is not positive definite in double precision; the factor may then only be replaced again.
    pub(crate) fn replace(&mut self, matrix: &mut DMatrix<f64>) -> bool {
        self.half_log_determinant = 0.0;
        let n = matrix.nrows();
        self.split(matrix, 0, n)
    }

    /// Lower triangle of `inv(K)`, n x n; the rest is unspecified.
    pub fn inverse(&self) -> DMatrix<f64> {
        let mut inverse = DMatrix::zeros(self.inverse.nrows(), self.inverse.nrows());
        self.inverse_into(&mut inverse);
        inverse
    }

    /// Writes [`Self::inverse`] into `inverse` (n x n).
    pub(crate) fn inverse_into(&self, inverse: &mut DMatrix<f64>) {
        lower_square_into(&self.inverse, inverse);
    }

    /// Replaces the rows and columns from `start` on. The block above the diagonal of the inverse and the block below
    /// the diagonal of `matrix` hold intermediate results, so that nothing is allocated.
    fn split(&mut self, matrix: &mut DMatrix<f64>, start: usize, size: usize) -> bool {
        if size <= LEAF {
            return self.leaf(matrix, start, size);
        }
        let n = matrix.nrows();
        let (upper, lower) = (size / 2, size - size / 2);
        let middle = start + upper;
        if !self.split(matrix, start, upper) {
            return false;
        }
        // Transposed block of L below the diagonal.
        let (left, right) = self.inverse.as_mut_slice().split_at_mut(middle * n);
        let upper_inverse = part(left, n, (start, start), (upper, upper));
        let below = transposed_part(matrix.as_slice(), n, (middle, start), (lower, upper));
        lower_product_into(&upper_inverse, &below, &mut part_mut(right, n, (start, 0), (upper, lower)));
        let factor = right;
        for first in (0..lower).step_by(BLOCK) {
            let count = BLOCK.min(lower - first);
            let columns = part(factor, n, (start, first), (upper, count));
            let rows = transposed_part(factor, n, (start, first), (upper, lower - first));
            let mut corner = matrix.view_mut((middle + first, middle + first), (lower - first, count));
            add_transposed_product(&mut corner, -1.0, &rows, &columns, 1.0);
        }
        if !self.split(matrix, middle, lower) {
            return false;
        }
        let (left, right) = self.inverse.as_mut_slice().split_at_mut(middle * n);
        for first in (0..upper).step_by(BLOCK) {
            let count = BLOCK.min(upper - first);
            let columns = part(left, n, (start + first, start + first), (upper - first, count));
            let rows = transposed_part(right, n, (start + first, 0), (upper - first, lower));
            let mut product = matrix.view_mut((middle, start + first), (lower, count));
            add_transposed_product(&mut product, -1.0, &rows, &columns, 0.0);
        }
        let lower_inverse = part(right, n, (middle, 0), (lower, lower));
        let product = part(matrix.as_slice(), n, (middle, start), (lower, upper));
        lower_product_into(&lower_inverse, &product, &mut part_mut(left, n, (middle, start), (lower, upper)));
        part_mut(right, n, (start, 0), (upper, lower)).fill(0.0);
        true
    }

    fn leaf(&mut self, matrix: &DMatrix<f64>, start: usize, size: usize) -> bool {
        let mut factor = PaddedColumns::new(matrix.view((start, start), (size, size)));
        let mut inverse_transposed = PaddedColumns::zeros(size, size);
        let leaf = Leaf { factor: &mut factor, inverse_transposed: &mut inverse_transposed };
        let Some(half_log_determinant) = vectorized(leaf) else { return false };
        self.half_log_determinant += half_log_determinant;
        let n = self.inverse.nrows();
        for (j, column) in self.inverse.as_mut_slice().chunks_exact_mut(n.max(1)).skip(start).take(size).enumerate() {
            let values = column[start..start + size].iter_mut().zip(inverse_transposed.row(j));
            values.skip(j).for_each(|(value, inverse)| *value = inverse);
        }
        true
    }
}

/// Factor and inverse of a block. The output is its part of [`InverseFactor::half_log_determinant`].
///
/// Each entry accumulates its subtractions in a register and is written once.
struct Leaf<'a> {
    /// Block of at most [`LEAF`] rows; replaced by its factor.
    factor: &'a mut PaddedColumns,
    /// Zeros; replaced by the transposed inverse of the factor.
    inverse_transposed: &'a mut PaddedColumns,
}

impl WithSimd for Leaf<'_> {
    type Output = Option<f64>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> Option<f64> {
        let Self { factor, inverse_transposed } = self;
        let mut half_log_determinant = 0.0;
        let mut row = [0.0; LEAF];
        for k in 0..factor.rows() {
            let row = &mut row[..k];
            row.iter_mut().enumerate().for_each(|(m, value)| *value = factor.at(k, m));
            let (before, blocks) = factor.before_and_blocks(k, k);
            for (index, block) in blocks.iter_mut().enumerate() {
                subtract_products(block, row, before.clone(), k + index * LANES);
            }
            let pivot = blocks[0][0];
            if !(pivot > 0.0 && pivot.is_finite()) {
                return None;
            }
            let diagonal = pivot.sqrt();
            half_log_determinant += diagonal.ln();
            let reciprocal = diagonal.recip();
            blocks.as_flattened_mut().iter_mut().for_each(|value| *value *= reciprocal);

            let (before, blocks) = inverse_transposed.before_and_blocks(0, k);
            blocks[k / LANES][k % LANES] = 1.0;
            for (index, block) in blocks.iter_mut().enumerate().take(k / LANES + 1) {
                // The inverse of a lower triangle is zero in the columns of this block before its row `first`.
                let first = index * LANES;
                subtract_products(block, &row[first..], before.clone().skip(first), first);
                block.iter_mut().for_each(|value| *value /= diagonal);
            }
        }
        Some(half_log_determinant)
    }
}

/// Subtracts from `block` the product of each of `factors` with the block of its column that starts at `row`.
#[inline(always)]
fn subtract_products<'a>(block: &mut Block, factors: &[f64], columns: impl Iterator<Item = &'a [f64]>, row: usize) {
    let mut rest = *block;
    for (factor, column) in factors.iter().zip(columns) {
        for (value, other) in rest.iter_mut().zip(&column[row..row + LANES]) {
            *value -= factor * other;
        }
    }
    *block = rest;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(n: usize) -> DMatrix<f64> {
        let base = DMatrix::from_fn(n, n, |i, j| ((i * 7 + j * 13) % 17) as f64 / 17.0 - 0.4);
        &base * base.transpose() + DMatrix::identity(n, n)
    }

    #[test]
    fn factors_match_nalgebra_at_sizes_around_the_block_size() {
        for n in [1, 2, 31, 32, 33, 65, 150] {
            let matrix = matrix(n);
            let reference = matrix.clone().cholesky().unwrap();
            let factor = InverseFactor::new(matrix.clone()).unwrap();
            assert!((&factor.inverse * reference.l() - DMatrix::identity(n, n)).amax() < 1e-11);
            let mut inverse = factor.inverse();
            inverse.fill_upper_triangle_with_lower_triangle();
            assert!((inverse * matrix - DMatrix::identity(n, n)).amax() < 1e-9);
            let log_determinant: f64 = reference.l().diagonal().iter().map(|v| v.ln()).sum();
            assert!((factor.half_log_determinant - log_determinant).abs() < 1e-10 * log_determinant.abs().max(1.0));
        }
    }

    #[test]
    fn indefinite_and_non_finite_matrices_are_rejected() {
        assert!(InverseFactor::new(DMatrix::from_row_slice(2, 2, &[1.0, 0.0, 2.0, 1.0])).is_none());
        assert!(InverseFactor::new(DMatrix::from_element(1, 1, f64::NAN)).is_none());
        assert!(InverseFactor::new(DMatrix::from_element(40, 40, 1.0)).is_none());
    }
}
