//! A packed lower triangle, for loops over all of its entries.

use std::ops::Range;

use nalgebra::DMatrix;

use super::elementary::{Block, LANES};

/// The columns of a lower triangle (n x n), each from its diagonal down in whole blocks. The last block of a column is
/// padded with zeros.
#[derive(Debug, Clone)]
pub(crate) struct LowerBlocks {
    rows: usize,
    /// The first block of each column.
    starts: Vec<usize>,
    blocks: Vec<Block>,
}

impl LowerBlocks {
    /// A triangle of `rows` rows, all zeros.
    pub(crate) fn zeros(rows: usize) -> Self {
        let mut count = 0;
        let mut starts = Vec::with_capacity(rows);
        for column in 0..rows {
            starts.push(count);
            count += (rows - column).div_ceil(LANES);
        }
        Self { rows, starts, blocks: vec![[0.0; LANES]; count] }
    }

    /// The lower triangle of `matrix` (n x n).
    pub(crate) fn of(matrix: &DMatrix<f64>) -> Self {
        let n = matrix.nrows();
        let mut lower = Self::zeros(n);
        for (k, column) in matrix.as_slice().chunks_exact(n.max(1)).enumerate() {
            lower.column_mut(k).as_flattened_mut()[..n - k].copy_from_slice(&column[k..]);
        }
        lower
    }

    /// A matrix (n x n) with this lower triangle and zeros above.
    pub(crate) fn to_matrix(&self) -> DMatrix<f64> {
        let n = self.rows;
        let mut matrix = DMatrix::zeros(n, n);
        for (k, column) in matrix.as_mut_slice().chunks_exact_mut(n.max(1)).enumerate() {
            column[k..].copy_from_slice(&self.column(k).as_flattened()[..n - k]);
        }
        matrix
    }

    /// Column `k` from its diagonal down.
    #[inline(always)]
    pub(crate) fn column(&self, k: usize) -> &[Block] {
        &self.blocks[self.range(k)]
    }

    /// As [`Self::column`], mutable. Values written to the padding are kept.
    #[inline(always)]
    pub(crate) fn column_mut(&mut self, k: usize) -> &mut [Block] {
        let range = self.range(k);
        &mut self.blocks[range]
    }

    /// All columns.
    #[inline(always)]
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// As [`Self::blocks`], mutable.
    #[inline(always)]
    pub(crate) fn blocks_mut(&mut self) -> &mut [Block] {
        &mut self.blocks
    }

    #[inline(always)]
    fn range(&self, k: usize) -> Range<usize> {
        let start = self.starts[k];
        start..start + (self.rows - k).div_ceil(LANES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion_keeps_the_lower_triangle_only() {
        for n in [0, 1, 7, 8, 9, 20] {
            let matrix = DMatrix::from_fn(n, n, |i, j| (1 + i + 100 * j) as f64);
            let lower = LowerBlocks::of(&matrix);
            assert_eq!(lower.to_matrix(), matrix.lower_triangle());
            assert_eq!(lower.blocks().len(), (1..=n).map(|rows| rows.div_ceil(LANES)).sum::<usize>());
            assert_eq!(lower.blocks().as_flattened().iter().sum::<f64>(), matrix.lower_triangle().sum());
            assert!((0..n).all(|k| lower.column(k)[0][0] == matrix[(k, k)]));
        }
    }
}
