use super::random;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matrix {
    size: usize,
    /// Shape `size * size`, row by row.
    entries: Vec<f64>,
}

impl Matrix {
    /// Random orthogonal matrix: normally distributed columns, orthonormalised in order by the Gram-Schmidt method
    /// (report, section 0.2). It may include a reflection.
    pub(super) fn rotation(size: usize, seed: i64) -> Self {
        let numbers = random::gaussian(size * size, seed);
        let mut columns: Vec<Vec<f64>> = Vec::with_capacity(size);
        for numbers in numbers.chunks(size) {
            let mut column = numbers.to_vec();
            for earlier in &columns {
                let projection = dot(&column, earlier);
                for (entry, other) in column.iter_mut().zip(earlier) {
                    *entry -= projection * other;
                }
            }
            let norm = dot(&column, &column).sqrt();
            column.iter_mut().for_each(|entry| *entry /= norm);
            columns.push(column);
        }
        let entries = (0..size).flat_map(|row| columns.iter().map(move |column| column[row])).collect();
        Self { size, entries }
    }

    /// Multiplies row `i` by `factors[i]`: diag(factors) self.
    pub(super) fn with_rows_scaled(mut self, factors: &[f64]) -> Self {
        for (row, factor) in self.entries.chunks_mut(self.size).zip(factors) {
            row.iter_mut().for_each(|entry| *entry *= factor);
        }
        self
    }

    /// self diag(factors) `other`.
    pub(super) fn conditioned_product(&self, factors: &[f64], other: &Self) -> Self {
        let mut entries = vec![0.0; self.size * self.size];
        for (row, result) in self.entries.chunks(self.size).zip(entries.chunks_mut(self.size)) {
            for ((entry, factor), other_row) in row.iter().zip(factors).zip(other.entries.chunks(self.size)) {
                let weight = entry * factor;
                for (sum, value) in result.iter_mut().zip(other_row) {
                    *sum += weight * value;
                }
            }
        }
        Self { size: self.size, entries }
    }

    /// Product with a vector of length `size`.
    pub(super) fn apply(&self, vector: &[f64]) -> Vec<f64> {
        self.entries.chunks(self.size).map(|row| dot(row, vector)).collect()
    }

    /// Sum of each column: the transpose times the vector of ones.
    pub(super) fn column_sums(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.size];
        for row in self.entries.chunks(self.size) {
            for (sum, entry) in sums.iter_mut().zip(row) {
                *sum += entry;
            }
        }
        sums
    }
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_preserves_lengths_and_angles() {
        let rotation = Matrix::rotation(7, 10_001);
        for i in 0..7 {
            for j in 0..7 {
                let unit = |index| (0..7).map(|k| f64::from(u8::from(k == index))).collect::<Vec<_>>();
                let product = dot(&rotation.apply(&unit(i)), &rotation.apply(&unit(j)));
                assert!((product - f64::from(u8::from(i == j))).abs() < 1e-14, "columns {i} and {j}: {product}");
            }
        }
    }

    #[test]
    fn products_are_applied_from_the_right() {
        let (first, second) = (Matrix::rotation(4, 1), Matrix::rotation(4, 2));
        let (factors, vector) = ([1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 2.0, 0.25]);
        let at_once = first.conditioned_product(&factors, &second).apply(&vector);
        let by_steps = first.apply(&second.with_rows_scaled(&factors).apply(&vector));
        for (a, b) in at_once.iter().zip(by_steps) {
            assert!((a - b).abs() < 1e-14);
        }
    }
}
