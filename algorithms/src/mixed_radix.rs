//! Numbering of the points of a finite product space.

/// Numbers whose digit at each place counts to a base of its own; the last digit moves fastest.
///
/// ```
/// use tunesmith_algorithms::mixed_radix::MixedRadix;
///
/// let clock = MixedRadix::new(vec![24, 60]);
/// assert_eq!(clock.size(), Some(1440));
/// assert_eq!(clock.digits(75), [1, 15]);
/// assert_eq!(clock.index(&[1, 15]), Some(75));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MixedRadix {
    /// Each at least 1 and at most 2^64.
    radices: Vec<u128>,
}

impl MixedRadix {
    /// Numbers with one digit below each of `radices`; without any there is one number.
    ///
    /// # Panics
    /// If a radix is 0 or above 2^64, where digits would not fit `u64`.
    pub fn new(radices: Vec<u128>) -> Self {
        assert!(radices.iter().all(|radix| (1..=1 << 64).contains(radix)), "a digit is a u64 of at least one value");
        Self { radices }
    }

    /// The base of each digit.
    pub fn radices(&self) -> &[u128] {
        &self.radices
    }

    /// How many numbers there are; `None` above `u128::MAX`.
    pub fn size(&self) -> Option<u128> {
        self.radices.iter().try_fold(1_u128, |size, &radix| size.checked_mul(radix))
    }

    /// The digits of `index`, shape `[radices]`; an index past the end starts again at the first number.
    pub fn digits(&self, index: u128) -> Vec<u64> {
        let mut rest = index;
        let mut digits = vec![0; self.radices.len()];
        for (digit, &radix) in digits.iter_mut().zip(&self.radices).rev() {
            // A remainder by at most 2^64 fits u64.
            *digit = (rest % radix) as u64;
            rest /= radix;
        }
        digits
    }

    /// The number with these digits, each below its radix; `None` above `u128::MAX`.
    ///
    /// # Panics
    /// If there are more or fewer digits than radices.
    pub fn index(&self, digits: &[u64]) -> Option<u128> {
        assert_eq!(digits.len(), self.radices.len(), "one digit per radix");
        digits.iter().zip(&self.radices).try_fold(0_u128, |index, (&digit, &radix)| {
            debug_assert!(u128::from(digit) < radix, "digit {digit} is not below {radix}");
            index.checked_mul(radix)?.checked_add(u128::from(digit))
        })
    }

    /// The number with these digits modulo 2^128: equal for equal digits, and different for different ones unless
    /// there are more than 2^128 numbers.
    ///
    /// # Panics
    /// If there are more or fewer digits than radices.
    pub fn wrapping_index(&self, digits: &[u64]) -> u128 {
        assert_eq!(digits.len(), self.radices.len(), "one digit per radix");
        let append = |index: u128, (&digit, &radix)| index.wrapping_mul(radix).wrapping_add(u128::from(digit));
        digits.iter().zip(&self.radices).fold(0, append)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn index_and_digits_are_inverse(radices in proptest::collection::vec(1_u128..50, 0..8), index in any::<u64>()) {
            let numbers = MixedRadix::new(radices);
            let index = u128::from(index) % numbers.size().unwrap();
            prop_assert_eq!(numbers.index(&numbers.digits(index)), Some(index));
            prop_assert_eq!(numbers.wrapping_index(&numbers.digits(index)), index);
        }
    }

    #[test]
    fn sizes_beyond_memory_and_beyond_u128_work_at_small_indices() {
        let large = MixedRadix::new(vec![1 << 64; 3]);
        assert_eq!(large.size(), None);
        assert_eq!(large.digits((1 << 64) + 1), [0, 1, 1]);
        assert_eq!(large.index(&[0, 1, 1]), Some((1 << 64) + 1));
        assert_eq!(large.index(&[u64::MAX; 3]), None);
        assert_eq!(large.wrapping_index(&[u64::MAX; 3]), u128::MAX);
    }

    #[test]
    fn counting_visits_every_number_once_in_order() {
        let numbers = MixedRadix::new(vec![2, 1, 3]);
        let all: Vec<_> = (0..6).map(|index| numbers.digits(index)).collect();
        assert_eq!(all, [[0, 0, 0], [0, 0, 1], [0, 0, 2], [1, 0, 0], [1, 0, 1], [1, 0, 2]]);
        assert_eq!(MixedRadix::new(vec![]).size(), Some(1));
    }
}
