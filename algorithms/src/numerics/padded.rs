//! Matrix columns with padding, for loops over whole blocks from any row on.
//!
//! A loop over a slice ends with up to [`LANES`] - 1 single values, and compilers leave more when they unroll it. With
//! fifty rows that is most of the work.

use std::ops::Range;
use std::slice::ChunksExact;

use nalgebra::DMatrixView;

use super::elementary::{Block, LANES};

/// Matrix stored by columns. Zeros complete the last block of each column for any first row.
#[derive(Debug, Clone)]
pub(crate) struct PaddedColumns {
    rows: usize,
    stride: usize,
    values: Vec<f64>,
}

impl PaddedColumns {
    pub(crate) fn zeros(rows: usize, columns: usize) -> Self {
        let stride = rows + LANES - 1;
        Self { rows, stride, values: vec![0.0; stride * columns] }
    }

    pub(crate) fn new(matrix: DMatrixView<'_, f64>) -> Self {
        let mut padded = Self::zeros(matrix.nrows(), matrix.ncols());
        for (j, column) in matrix.column_iter().enumerate() {
            padded.values[j * padded.stride..][..column.len()].copy_from_slice(column.as_slice());
        }
        padded
    }

    #[inline(always)]
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    pub(crate) fn at(&self, i: usize, j: usize) -> f64 {
        self.values[j * self.stride + i]
    }

    pub(crate) fn row(&self, i: usize) -> impl Iterator<Item = f64> {
        self.values.iter().skip(i).step_by(self.stride).copied()
    }

    /// Column `j` from row `i` on, in whole blocks. The last block may end with padding.
    #[inline(always)]
    pub(crate) fn blocks(&self, i: usize, j: usize) -> &[Block] {
        self.values[self.range(i, j)].as_chunks().0
    }

    /// The columns before `j` with their padding, and mutable [`Self::blocks`]. Values written to the padding are kept.
    #[inline(always)]
    pub(crate) fn before_and_blocks(&mut self, i: usize, j: usize) -> (ChunksExact<'_, f64>, &mut [Block]) {
        let range = self.range(i, j);
        let (before, rest) = self.values.split_at_mut(j * self.stride);
        let blocks = rest[range.start - before.len()..range.end - before.len()].as_chunks_mut().0;
        (before.chunks_exact(self.stride), blocks)
    }

    #[inline(always)]
    fn range(&self, i: usize, j: usize) -> Range<usize> {
        let start = j * self.stride + i;
        start..start + (self.rows - i).next_multiple_of(LANES)
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::DMatrix;

    use super::*;

    #[test]
    fn blocks_from_any_row_end_in_zeros() {
        for rows in [1, 7, 8, 9, 20] {
            let matrix = DMatrix::from_fn(rows, 3, |i, j| (1 + i + 100 * j) as f64);
            let padded = PaddedColumns::new(matrix.as_view());
            assert_eq!((padded.rows(), padded.at(rows - 1, 2)), (rows, matrix[(rows - 1, 2)]));
            for (i, j) in (0..rows).flat_map(|i| (0..3).map(move |j| (i, j))) {
                let values = padded.blocks(i, j).as_flattened();
                assert_eq!(values.len(), (rows - i).next_multiple_of(LANES));
                let (inside, padding) = values.split_at(rows - i);
                assert_eq!(inside, &matrix.as_slice()[j * rows + i..(j + 1) * rows]);
                assert!(padding.iter().all(|value| *value == 0.0));
            }
            assert_eq!(
                padded.row(rows - 1).collect::<Vec<_>>(),
                matrix.row(rows - 1).iter().copied().collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn column_is_writable_while_earlier_columns_are_read() {
        let mut padded = PaddedColumns::zeros(3, 2);
        let (before, blocks) = padded.before_and_blocks(1, 1);
        assert_eq!((before.len(), blocks.len()), (1, 1));
        blocks[0][1] = 5.0;
        assert_eq!(padded.row(2).collect::<Vec<_>>(), [0.0, 5.0]);
    }
}
