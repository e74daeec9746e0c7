//! Representable doubles of a range, by number.

/// Maximum number of doubles to count: more than any study has trials.
const MOST_COUNTED: u64 = 1 << 32;

/// Doubles from `min` to `max`, both included, numbered from 0 in increasing order. `0.0` and `-0.0` are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Doubles {
    first: i64,
    count: u64,
}

impl Doubles {
    /// Doubles from `min` to `max`, which are finite and in order; `None` if there are more than 2^32.
    pub(crate) fn between(min: f64, max: f64) -> Option<Self> {
        let first = position(min);
        // Positions are at least `-i64::MAX`, so the difference fits `u64`.
        let count = position(max).abs_diff(first) + 1;
        (count <= MOST_COUNTED).then_some(Self { first, count })
    }

    pub(crate) fn count(self) -> u64 {
        self.count
    }

    /// Number of `value`; `None` outside the range.
    pub(crate) fn number(self, value: f64) -> Option<u64> {
        let number = position(value).checked_sub(self.first)?;
        u64::try_from(number).ok().filter(|number| *number < self.count)
    }

    /// Double with this number, or the last one if there are fewer.
    pub(crate) fn value(self, number: u64) -> f64 {
        let position = self.first.saturating_add_unsigned(number.min(self.count - 1));
        let magnitude = f64::from_bits(position.unsigned_abs());
        if position < 0 { -magnitude } else { magnitude }
    }
}

/// Position of `value` among all doubles: 0 for zero, 1 for the smallest one above it.
fn position(value: f64) -> i64 {
    let magnitude = value.abs().to_bits().cast_signed();
    if value < 0.0 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_numbered_in_order() {
        let tiny = 5e-324;
        for (min, max, count) in [
            (1.0, 1.0_f64.next_up(), 2),
            (0.0, 4e-323, 9),
            (-tiny, tiny, 3),
            (-0.0, 0.0, 1),
            (2.0_f64.next_down(), 2.0_f64.next_up(), 3),
            (-f64::MAX, -f64::MAX, 1),
        ] {
            let doubles = Doubles::between(min, max).unwrap();
            assert_eq!(doubles.count(), count, "{min} {max}");
            let values: Vec<f64> = (0..count).map(|number| doubles.value(number)).collect();
            assert_eq!((values[0], values[values.len() - 1]), (min, max));
            assert!(values.windows(2).all(|pair| pair[0].next_up() == pair[1]), "{values:?}");
            for (number, value) in (0..count).zip(values) {
                assert_eq!(doubles.number(value), Some(number));
            }
            assert_eq!((doubles.number(min.next_down()), doubles.number(max.next_up())), (None, None));
            assert_eq!(doubles.value(count + 7), max);
        }
    }

    #[test]
    fn wide_ranges_are_not_counted() {
        assert_eq!(Doubles::between(0.0, 1.0), None);
        assert_eq!(Doubles::between(-f64::MAX, f64::MAX), None);
        assert_eq!(Doubles::between(1.0, 1.0 + 1e-7).map(Doubles::count), Some(450_359_964));
    }
}
