//! Products with triangular matrices and with tall thin matrices, for which nalgebra's general product does unnecessary
//! work.
//!
//! Wide matrices are split into blocks for nalgebra's product (by `matrixmultiply`). docs/experiments/041 rejects
//! `faer` and `gemm`. For a few columns, the factor is read from memory once and applied to all of them.

use nalgebra::{Const, DMatrix, DMatrixView, DMatrixViewMut, Dim, Dyn, MatrixView};
use pulp::{Simd, WithSimd};

use super::elementary::{LANES, sum, total, vectorized};

/// Maximum number of columns of a thin matrix.
pub(crate) const THIN: usize = 16;
/// Number of rows per product of wider matrices.
pub(super) const BLOCK: usize = 64;
/// Number of columns of the factor added together.
const TOGETHER: usize = 4;

/// `a' b`, for `a` (k x n) and `b` (k x m): n x m.
pub(crate) fn transposed_product(a: &DMatrix<f64>, b: &DMatrix<f64>) -> DMatrix<f64> {
    if a.ncols() > THIN && b.ncols() > THIN {
        return a.transpose() * b;
    }
    let mut result = DMatrix::zeros(a.ncols(), b.ncols());
    vectorized(Dots { a, b, lower: false, result: &mut result });
    result
}

/// `lower b` for a lower triangular `lower` (n x n, explicit zeros above the diagonal) and `b` (n x m): n x m.
pub(crate) fn lower_product(lower: &DMatrix<f64>, b: &DMatrix<f64>) -> DMatrix<f64> {
    let (n, m) = b.shape();
    let mut result = DMatrix::zeros(n, m);
    if m <= THIN {
        vectorized(ThinLower { lower, b, result: result.as_mut_slice() });
        return result;
    }
    let (lower, b) = (part(lower.as_slice(), n, (0, 0), (n, n)), part(b.as_slice(), n, (0, 0), (n, m)));
    lower_product_into(&lower, &b, &mut part_mut(result.as_mut_slice(), n, (0, 0), (n, m)));
    result
}

/// Sets `result` to [`lower_product`], for a `b` of any layout.
pub(super) fn lower_product_into<RB: Dim, CB: Dim>(
    lower: &DMatrixView<'_, f64, Const<1>, Dyn>,
    b: &MatrixView<'_, f64, Dyn, Dyn, RB, CB>,
    result: &mut DMatrixViewMut<'_, f64, Const<1>, Dyn>,
) {
    let n = lower.nrows();
    for start in (0..n).step_by(BLOCK) {
        let count = BLOCK.min(n - start);
        let end = start + count;
        result.rows_mut(start, count).gemm(1.0, &lower.view((start, 0), (count, end)), &b.rows(0, end), 0.0);
    }
}

/// `lower' b`, shapes as in [`lower_product`]; for few columns.
pub(crate) fn lower_transposed_product(lower: &DMatrix<f64>, b: &DMatrix<f64>) -> DMatrix<f64> {
    let mut result = DMatrix::zeros(b.nrows(), b.ncols());
    vectorized(Dots { a: lower, b, lower: true, result: &mut result });
    result
}

/// Sets the lower triangle of `result` (n x n; the rest is unspecified) to `lower' lower` for a lower triangular `lower`
/// (n x n, explicit zeros above the diagonal).
pub(super) fn lower_square_into(lower: &DMatrix<f64>, result: &mut DMatrix<f64>) {
    let n = lower.nrows();
    for start in (0..n).step_by(BLOCK) {
        let count = BLOCK.min(n - start);
        let end = start + count;
        // Rows start..end of the result up to their diagonal. Below row `start`, the columns of the factor are zero
        // above the diagonal.
        let left = transposed_part(lower.as_slice(), n, (start, start), (n - start, count));
        let right = lower.view((start, 0), (n - start, end));
        add_transposed_product(&mut result.view_mut((start, 0), (count, end)), 1.0, &left, &right, 0.0);
    }
}

/// Part of `shape` rows and columns from `start` on of a matrix of `n` rows; `values` may hold only its first columns.
pub(super) fn part(
    values: &[f64],
    n: usize,
    start: (usize, usize),
    shape: (usize, usize),
) -> DMatrixView<'_, f64, Const<1>, Dyn> {
    let from = &values[start.1 * n + start.0..];
    DMatrixView::from_slice_with_strides_generic(from, Dyn(shape.0), Dyn(shape.1), Const::<1>, Dyn(n))
}

/// Mutable [`part`].
pub(super) fn part_mut(
    values: &mut [f64],
    n: usize,
    start: (usize, usize),
    shape: (usize, usize),
) -> DMatrixViewMut<'_, f64, Const<1>, Dyn> {
    let from = &mut values[start.1 * n + start.0..];
    DMatrixViewMut::from_slice_with_strides_generic(from, Dyn(shape.0), Dyn(shape.1), Const::<1>, Dyn(n))
}

/// Transpose of [`part`] without a copy. It may be the right factor of any nalgebra product, but the left one only of
/// [`add_transposed_product`].
pub(super) fn transposed_part(
    values: &[f64],
    n: usize,
    start: (usize, usize),
    shape: (usize, usize),
) -> TransposedPart<'_> {
    let from = &values[start.1 * n + start.0..];
    MatrixView::from_slice_with_strides_generic(from, Dyn(shape.1), Dyn(shape.0), Dyn(n), Dyn(1))
}

pub(super) type TransposedPart<'a> = MatrixView<'a, f64, Dyn, Dyn, Dyn, Dyn>;

/// Sets `result` to `alpha a b + beta result`.
pub(super) fn add_transposed_product(
    result: &mut DMatrixViewMut<'_, f64, Const<1>, Dyn>,
    alpha: f64,
    a: &TransposedPart<'_>,
    b: &DMatrixView<'_, f64, Const<1>, Dyn>,
    beta: f64,
) {
    // nalgebra 0.35 has separate code for small matrices, which mistakes the length of the memory behind a strided
    // column for the number of its rows.
    if a.nrows().min(a.ncols()).min(b.ncols()) < THIN {
        result.gemm(alpha, &a.clone_owned(), b, beta);
    } else {
        result.gemm(alpha, a, b, beta);
    }
}

struct ThinLower<'a> {
    lower: &'a DMatrix<f64>,
    b: &'a DMatrix<f64>,
    /// n x m, zeros.
    result: &'a mut [f64],
}

impl WithSimd for ThinLower<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { lower, b, result } = self;
        let n = lower.nrows();
        let column = |j: usize, from: usize| &lower.as_slice()[j * n + from..(j + 1) * n];
        let whole = n - n % TOGETHER;
        for j in (0..whole).step_by(TOGETHER) {
            let [c0, c1, c2, c3] = [column(j, j), column(j + 1, j), column(j + 2, j), column(j + 3, j)];
            for k in 0..b.ncols() {
                let [b0, b1, b2, b3] = [b[(j, k)], b[(j + 1, k)], b[(j + 2, k)], b[(j + 3, k)]];
                let target = &mut result[k * n + j..(k + 1) * n];
                for ((((value, l0), l1), l2), l3) in target.iter_mut().zip(c0).zip(c1).zip(c2).zip(c3) {
                    *value += (l0 * b0 + l1 * b1) + (l2 * b2 + l3 * b3);
                }
            }
        }
        for j in whole..n {
            for k in 0..b.ncols() {
                let factor = b[(j, k)];
                for (value, l) in result[k * n + j..(k + 1) * n].iter_mut().zip(column(j, j)) {
                    *value += l * factor;
                }
            }
        }
    }
}

struct Dots<'a> {
    a: &'a DMatrix<f64>,
    b: &'a DMatrix<f64>,
    /// Whether `a` is lower triangular.
    lower: bool,
    result: &'a mut DMatrix<f64>,
}

impl WithSimd for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { a, b, lower, result } = self;
        let n = a.nrows();
        for j in 0..a.ncols() {
            let from = if lower { j } else { 0 };
            let column = &a.as_slice()[j * n + from..(j + 1) * n];
            let other = |k: usize| &b.as_slice()[k * n + from..(k + 1) * n];
            let whole = b.ncols() - b.ncols() % TOGETHER;
            for k in (0..whole).step_by(TOGETHER) {
                let dots = dots(column, [other(k), other(k + 1), other(k + 2), other(k + 3)]);
                for (offset, dot) in dots.into_iter().enumerate() {
                    result[(j, k + offset)] = dot;
                }
            }
            for k in whole..b.ncols() {
                result[(j, k)] = sum(column, other(k), |a, b| a * b);
            }
        }
    }
}

/// Dot products of `a` with several vectors of its length. Each equals the result of [`sum`]; interleaving hides the
/// latency of additions.
#[inline(always)]
fn dots(a: &[f64], b: [&[f64]; TOGETHER]) -> [f64; TOGETHER] {
    let mut parts = [[0.0; LANES]; TOGETHER];
    let (a_whole, a_rest) = a.as_chunks::<LANES>();
    let [(b0, r0), (b1, r1), (b2, r2), (b3, r3)] = b.map(|b| b.as_chunks::<LANES>());
    for ((((a, b0), b1), b2), b3) in a_whole.iter().zip(b0).zip(b1).zip(b2).zip(b3) {
        for lane in 0..LANES {
            parts[0][lane] += a[lane] * b0[lane];
            parts[1][lane] += a[lane] * b1[lane];
            parts[2][lane] += a[lane] * b2[lane];
            parts[3][lane] += a[lane] * b3[lane];
        }
    }
    for (lane, a) in a_rest.iter().enumerate() {
        parts[0][lane] += a * r0[lane];
        parts[1][lane] += a * r1[lane];
        parts[2][lane] += a * r2[lane];
        parts[3][lane] += a * r3[lane];
    }
    parts.map(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_match_nalgebra() {
        let matrix =
            |n: usize, m: usize| DMatrix::from_fn(n, m, |i, j| ((i * 7 + j * 13 + 3) % 17) as f64 / 17.0 - 0.4);
        for (k, m) in [(1, 1), (3, 2), (17, 7), (65, 129), (131, 16), (300, 17)] {
            let close = |a: DMatrix<f64>, b: DMatrix<f64>| assert!((a - b).amax() < 1e-11, "{k} {m}");
            for n in [1, 5, 40] {
                close(transposed_product(&matrix(k, n), &matrix(k, m)), matrix(k, n).transpose() * matrix(k, m));
            }
            let lower = matrix(k, k).lower_triangle();
            close(lower_product(&lower, &matrix(k, m)), &lower * matrix(k, m));
            close(lower_transposed_product(&lower, &matrix(k, m)), lower.transpose() * matrix(k, m));
            let mut square = matrix(k, k);
            lower_square_into(&lower, &mut square);
            close(square.lower_triangle(), (lower.transpose() * &lower).lower_triangle());
        }
    }
}
