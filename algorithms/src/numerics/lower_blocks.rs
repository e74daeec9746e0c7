//! Packed lower triangle, for loops over all of its entries.

use std::ops::Range;

use super::elementary::{Block, LANES};

/// Columns of a lower triangle (n x n) in whole blocks. Rows and columns are padded to whole blocks too, and each
/// column starts at the block that contains its diagonal, so [`LANES`] columns in a row have the same blocks.
#[derive(Debug, Clone)]
pub(crate) struct LowerBlocks {
    /// Number of blocks of the first column.
    height: usize,
    blocks: Vec<Block>,
}

impl LowerBlocks {
    pub(crate) fn zeros(rows: usize) -> Self {
        let height = rows.div_ceil(LANES);
        Self { height, blocks: vec![[0.0; LANES]; LANES * height * (height + 1) / 2] }
    }

    /// First block of rows of the columns around `k`.
    #[inline(always)]
    pub(crate) fn first_block(k: usize) -> usize {
        k / LANES
    }

    #[inline(always)]
    pub(crate) fn padded_columns(&self) -> usize {
        self.height * LANES
    }

    /// Column `k` from its first block down.
    #[inline(always)]
    pub(crate) fn column(&self, k: usize) -> &[Block] {
        self.columns(k, 1)
    }

    #[inline(always)]
    pub(crate) fn column_mut(&mut self, k: usize) -> &mut [Block] {
        self.columns_mut(k, 1)
    }

    /// `count` consecutive columns from `k` on with the same first block.
    #[inline(always)]
    pub(crate) fn columns(&self, k: usize, count: usize) -> &[Block] {
        &self.blocks[self.range(k, count)]
    }

    #[inline(always)]
    pub(crate) fn columns_mut(&mut self, k: usize, count: usize) -> &mut [Block] {
        let range = self.range(k, count);
        &mut self.blocks[range]
    }

    #[inline(always)]
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    #[inline(always)]
    fn range(&self, k: usize, count: usize) -> Range<usize> {
        let group = k / LANES;
        debug_assert!(k % LANES + count <= LANES);
        let height = self.height - group;
        // All groups have (height + 1) height / 2 blocks of LANES columns, and those from this one on in the same way.
        let before = LANES * (self.height * (self.height + 1) - height * (height + 1)) / 2;
        let start = before + k % LANES * height;
        start..start + count * height
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::DMatrix;

    use super::*;

    #[test]
    fn columns_start_at_the_block_of_their_diagonal() {
        for n in [0, 1, 7, 8, 9, 20] {
            let matrix = DMatrix::from_fn(n, n, |i, j| (1 + i + 100 * j) as f64);
            let mut lower = LowerBlocks::zeros(n);
            for k in 0..n {
                let below = matrix.view((k, k), (n - k, 1)).clone_owned();
                lower.column_mut(k).as_flattened_mut()[k % LANES..][..n - k].copy_from_slice(below.as_slice());
            }
            assert_eq!(lower.padded_columns(), n.next_multiple_of(LANES));
            assert_eq!(lower.blocks().as_flattened().iter().sum::<f64>(), matrix.lower_triangle().sum());
            for k in 0..n {
                let first = LANES * LowerBlocks::first_block(k);
                let column = lower.column(k).as_flattened();
                assert_eq!(column.len(), n.next_multiple_of(LANES) - first);
                assert!((first..n).all(|i| column[i - first] == if i < k { 0.0 } else { matrix[(i, k)] }));
            }
            let whole: usize = (0..lower.padded_columns()).step_by(4).map(|k| lower.columns(k, 4).len()).sum();
            assert_eq!(whole, lower.blocks().len());
        }
    }
}
