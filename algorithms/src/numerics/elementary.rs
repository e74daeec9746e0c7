//! Elementary functions and sums for long loops, without branches, so that the compiler vectorises the loops.
//! [`vectorized`] runs a loop with the widest instructions of the processor.
//!
//! There is no fused multiply-add, so results are bit-identical at any vector width.

use pulp::{Arch, Simd, WithSimd};

/// Number of interleaved partial sums, independent of the processor: as many as the widest registers hold.
pub(crate) const LANES: usize = 8;

/// One value per partial sum.
pub(crate) type Block = [f64; LANES];

/// Outside these bounds `exp` leaves the normal numbers.
const EXP_BOUNDS: (f64, f64) = (-708.0, 709.0);
/// Adding and subtracting this constant rounds to an integer, which is then in the lowest bits: 1.5 * 2^52.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// `ln 2` in two parts. The product of the first part with any exponent is exact (FreeBSD's `e_exp.c`).
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// `1 / k!` from `k = 12` down to 2. The first omitted term is below 2e-16 for `|r| <= ln(2) / 2`.
const TAYLOR: [f64; 11] = [
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    1.0 / 2.0,
];

/// Runs `operation` with the widest available vector instructions. All of its code must be `#[inline(always)]`.
pub(crate) fn vectorized<O: WithSimd>(operation: O) -> O::Output {
    Arch::new().dispatch(operation)
}

/// `e^x` with a relative error below 1e-15. Arguments are clamped to -708 and 709.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    let x = if x < EXP_BOUNDS.0 { EXP_BOUNDS.0 } else { x };
    let x = if x > EXP_BOUNDS.1 { EXP_BOUNDS.1 } else { x };
    let rounded = x * std::f64::consts::LOG2_E + ROUNDER;
    let exponent = rounded - ROUNDER;
    let r = (x - exponent * LN_2_HIGH) - exponent * LN_2_LOW;
    let mut sum = TAYLOR[0];
    for coefficient in &TAYLOR[1..] {
        sum = sum * r + coefficient;
    }
    let power = f64::from_bits((rounded.to_bits() << 52).wrapping_add(1023 << 52));
    ((sum * r + 1.0) * r + 1.0) * power
}

/// `sum_i term(a_i, b_i)` over two slices of equal length.
#[inline(always)]
pub(crate) fn sum(a: &[f64], b: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    let mut parts = [0.0; LANES];
    let ((a_whole, a_rest), (b_whole, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a_whole.iter().zip(b_whole) {
        for lane in 0..LANES {
            parts[lane] += term(a[lane], b[lane]);
        }
    }
    for ((part, a), b) in parts.iter_mut().zip(a_rest).zip(b_rest) {
        *part += term(*a, *b);
    }
    total(parts)
}

/// Adds `term(a_i, b_i)` to the partial sum of `i`, for all values of two slices of blocks.
#[inline(always)]
pub(crate) fn add_terms<S: Simd>(
    simd: S,
    parts: &mut Block,
    a: &[Block],
    b: &[Block],
    term: impl Fn(S::f64s, S::f64s) -> S::f64s,
) {
    let mut sums = *parts;
    let (vectors, _) = S::as_mut_simd_f64s(&mut sums);
    for (a, b) in a.iter().zip(b) {
        let ((a, _), (b, _)) = (S::as_simd_f64s(a), S::as_simd_f64s(b));
        for ((sum, a), b) in vectors.iter_mut().zip(a).zip(b) {
            *sum = simd.add_f64s(*sum, term(*a, *b));
        }
    }
    *parts = sums;
}

#[inline(always)]
pub(crate) fn total([a, b, c, d, e, f, g, h]: Block) -> f64 {
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_match_the_standard_library() {
        let mut largest: f64 = 0.0;
        for step in -70_800..=70_900 {
            let x = f64::from(step) / 100.0 + 1e-3 * f64::from(step % 7);
            let x = x.clamp(EXP_BOUNDS.0, EXP_BOUNDS.1);
            largest = largest.max((exp(x) / x.exp() - 1.0).abs());
        }
        assert!(largest < 1e-15, "{largest:e}");
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-1e9), exp(-708.0));
        assert!(exp(-1e9) < 1e-307 && exp(1e9).is_finite() && exp(f64::NAN).is_nan());
    }

    struct Exponentials<'a>(&'a mut [f64]);

    impl WithSimd for Exponentials<'_> {
        type Output = f64;

        #[inline(always)]
        fn with_simd<S: pulp::Simd>(self, _simd: S) -> f64 {
            for value in self.0.iter_mut() {
                *value = exp(*value);
            }
            sum(self.0, self.0, |value, _| value)
        }
    }

    #[test]
    fn results_are_bit_identical_with_vector_instructions() {
        let mut values: Vec<f64> = (0..1003).map(|i| 1e-2 * f64::from(i) - 7.0).collect();
        let expected: Vec<f64> = values.iter().map(|value| exp(*value)).collect();
        let total = vectorized(Exponentials(&mut values));
        assert_eq!(values, expected);
        assert_eq!(total, sum(&expected, &expected, |value, _| value));
        assert!((total - expected.iter().sum::<f64>()).abs() < 1e-12 * total);
    }
}
