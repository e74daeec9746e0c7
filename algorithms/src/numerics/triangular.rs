//! Cholesky factors by matrix products.
//!
//! Notation: `K` symmetric positive definite, `K = L L'`, `L` lower triangular; all n x n.
//!
//! The recursion splits `K` in halves and does nearly all of its work in matrix products, for which nalgebra calls a
//! blocked, vectorised kernel; its own Cholesky goes column by column. The inverse of `L` falls out on the way, and it
//! turns each later triangular solve for many points at once into a product as well.
//! Source: Golub & Van Loan 2013, "Matrix Computations", 4.2.9 (block Cholesky).

use nalgebra::DMatrix;

/// Blocks of this size are factorised by scalar loops. Chosen by a coarse measurement: 16 and 64 are slower.
const LEAF: usize = 32;

/// Rows per product in [`InverseFactor::inverse`].
const INVERSE_BLOCK: usize = 64;

/// `inv(L)` and the determinant of one factorisation.
#[derive(Debug, Clone)]
pub struct InverseFactor {
    /// `inv(L)`, n x n, lower triangular with explicit zeros above.
    pub inverse: DMatrix<f64>,
    /// `sum ln L_ii = 0.5 ln det K`.
    pub half_log_determinant: f64,
}

impl InverseFactor {
    /// Factorises `matrix` (n x n; only its lower triangle is read).
    ///
    /// `None` if a pivot is not a positive finite number: the matrix is not positive definite to double precision.
    pub fn new(mut matrix: DMatrix<f64>) -> Option<Self> {
        let n = matrix.nrows();
        let mut factor = Self { inverse: DMatrix::zeros(n, n), half_log_determinant: 0.0 };
        factor.split(&mut matrix, 0, n).then_some(factor)
    }

    /// `inv(K)`, n x n, both triangles.
    pub fn inverse(&self) -> DMatrix<f64> {
        let n = self.inverse.nrows();
        let mut result = DMatrix::zeros(n, n);
        // A block of rows of inv(L) ends at its diagonal, so it only touches the leading square of the result.
        for start in (0..n).step_by(INVERSE_BLOCK) {
            let end = (start + INVERSE_BLOCK).min(n);
            let rows = self.inverse.view((start, 0), (end - start, end)).clone_owned();
            result.view_mut((0, 0), (end, end)).gemm(1.0, &rows.transpose(), &rows, 1.0);
        }
        result
    }

    fn split(&mut self, matrix: &mut DMatrix<f64>, start: usize, size: usize) -> bool {
        if size <= LEAF {
            return self.leaf(matrix, start, size);
        }
        let (upper, lower) = (size / 2, size - size / 2);
        let middle = start + upper;
        if !self.split(matrix, start, upper) {
            return false;
        }
        let upper_inverse = self.inverse.view((start, start), (upper, upper)).clone_owned();
        let coupling = matrix.view((middle, start), (lower, upper)) * upper_inverse.transpose();
        matrix.view_mut((middle, middle), (lower, lower)).gemm(-1.0, &coupling, &coupling.transpose(), 1.0);
        if !self.split(matrix, middle, lower) {
            return false;
        }
        let product = self.inverse.view((middle, middle), (lower, lower)) * (coupling * upper_inverse);
        self.inverse.view_mut((middle, start), (lower, upper)).copy_from(&-product);
        true
    }

    fn leaf(&mut self, matrix: &mut DMatrix<f64>, start: usize, size: usize) -> bool {
        let end = start + size;
        for column in start..end {
            let mut pivot = matrix[(column, column)];
            for k in start..column {
                pivot -= matrix[(column, k)] * matrix[(column, k)];
            }
            if !(pivot > 0.0 && pivot.is_finite()) {
                return false;
            }
            let diagonal = pivot.sqrt();
            self.half_log_determinant += diagonal.ln();
            matrix[(column, column)] = diagonal;
            for row in column + 1..end {
                let mut value = matrix[(row, column)];
                for k in start..column {
                    value -= matrix[(row, k)] * matrix[(column, k)];
                }
                matrix[(row, column)] = value / diagonal;
            }
        }
        for column in start..end {
            self.inverse[(column, column)] = 1.0 / matrix[(column, column)];
            for row in column + 1..end {
                let mut value = 0.0;
                for k in column..row {
                    value -= matrix[(row, k)] * self.inverse[(k, column)];
                }
                self.inverse[(row, column)] = value / matrix[(row, row)];
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(n: usize) -> DMatrix<f64> {
        let base = DMatrix::from_fn(n, n, |i, j| ((i * 7 + j * 13) % 17) as f64 / 17.0 - 0.4);
        &base * base.transpose() + DMatrix::identity(n, n)
    }

    #[test]
    fn agrees_with_the_factor_of_nalgebra_at_sizes_around_the_blocks() {
        for n in [1, 2, 31, 32, 33, 65, 150] {
            let matrix = matrix(n);
            let reference = matrix.clone().cholesky().unwrap();
            let factor = InverseFactor::new(matrix.clone()).unwrap();
            assert!((&factor.inverse * reference.l() - DMatrix::identity(n, n)).amax() < 1e-11);
            assert!((factor.inverse() * matrix - DMatrix::identity(n, n)).amax() < 1e-9);
            let log_determinant: f64 = reference.l().diagonal().iter().map(|v| v.ln()).sum();
            assert!((factor.half_log_determinant - log_determinant).abs() < 1e-10 * log_determinant.abs().max(1.0));
        }
    }

    #[test]
    fn indefinite_and_non_finite_matrices_are_refused() {
        assert!(InverseFactor::new(DMatrix::from_row_slice(2, 2, &[1.0, 0.0, 2.0, 1.0])).is_none());
        assert!(InverseFactor::new(DMatrix::from_element(1, 1, f64::NAN)).is_none());
        assert!(InverseFactor::new(DMatrix::from_element(40, 40, 1.0)).is_none());
    }
}
