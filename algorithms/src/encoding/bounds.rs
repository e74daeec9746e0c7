//! Values at the ends of their ranges, which indicate that a range is too narrow.

use super::Encoding;
use crate::problem::{ParameterKind, ParameterValue, ParameterValues, SearchSpace};

/// Maximum distance of a value at an end, as a share of the range on its scale. A guess.
const NEAR: f64 = 0.01;

/// Minimum number of values for a meaningful end: of two values, one is always best.
const FEWEST_VALUES: u64 = 3;

/// End of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Lower end.
    Lower,
    /// Upper end.
    Upper,
}

/// A parameter whose value is at a movable end of its range.
#[derive(Debug, Clone, PartialEq)]
pub struct AtBound {
    /// Name of the parameter.
    pub parameter: String,
    /// End of the range.
    pub bound: Bound,
    /// Value of that end.
    pub limit: ParameterValue,
}

/// Parameters of `point`, a point of `space`, with values at an end of their range, in the order of the space.
///
/// Skips ends that probably cannot move: the lower end 0 of any range, and the upper end 1 of a double from 0 on, which
/// is a share or a probability. Also skips ranges of fewer than three values, and categories, which have no order.
pub fn at_bounds(space: &SearchSpace, point: &ParameterValues) -> Vec<AtBound> {
    let encoding = Encoding::new(space);
    let Ok(coordinates) = encoding.encode(point) else { return Vec::new() };
    let found = space.parameters().iter().filter_map(|spec| {
        point.get(spec.name())?;
        let (lower, upper) = match spec.kind() {
            ParameterKind::Double { min, max, .. } => (ParameterValue::Double(*min), ParameterValue::Double(*max)),
            ParameterKind::Integer { min, max, .. } => (ParameterValue::Integer(*min), ParameterValue::Integer(*max)),
            ParameterKind::Discrete { values, .. } => {
                (ParameterValue::Discrete(*values.first()?), ParameterValue::Discrete(*values.last()?))
            }
            ParameterKind::Categorical { .. } => return None,
        };
        if spec.cardinality().is_some_and(|count| count < FEWEST_VALUES) {
            return None;
        }
        let place = encoding.features().iter().position(|feature| feature.name == spec.name())?;
        let is = |value: &ParameterValue, number: f64| match value {
            ParameterValue::Double(value) | ParameterValue::Discrete(value) => *value == number,
            ParameterValue::Integer(value) => *value as f64 == number,
            ParameterValue::Categorical(_) => false,
        };
        let is_share = matches!(spec.kind(), ParameterKind::Double { .. }) && is(&lower, 0.0) && is(&upper, 1.0);
        let (bound, limit) = match coordinates[place] {
            u if u <= NEAR && !is(&lower, 0.0) => (Bound::Lower, lower),
            u if u >= 1.0 - NEAR && !is_share => (Bound::Upper, upper),
            _ => return None,
        };
        Some(AtBound { parameter: spec.name().to_owned(), bound, limit })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{ParameterSpec, ScaleType};

    fn double(min: f64, max: f64, scale: ScaleType) -> ParameterKind {
        ParameterKind::Double { min, max, scale }
    }

    #[track_caller]
    fn check(kind: ParameterKind, value: ParameterValue, expected: Option<Bound>) {
        let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
        let found = at_bounds(&space, &[("x".to_owned(), value)].into());
        assert_eq!(found.first().map(|found| found.bound), expected, "{found:?}");
    }

    #[test]
    fn ends_that_can_be_moved_are_named_on_the_scale_of_the_range() {
        use ParameterValue::{Discrete, Double, Integer};
        use ScaleType::{UnitLinear, UnitLog};
        let rate = || double(1e-6, 1e-3, UnitLog);
        check(rate(), Double(0.00097), Some(Bound::Upper));
        check(rate(), Double(0.0009), None);
        check(rate(), Double(1.05e-6), Some(Bound::Lower));
        // Linear, 1e-6 to 1e-5 would be at the end.
        check(rate(), Double(1e-5), None);
        let layers = |min| ParameterKind::Integer { min, max: 4, scale: UnitLinear };
        check(layers(1), Integer(1), Some(Bound::Lower));
        check(layers(1), Integer(4), Some(Bound::Upper));
        check(layers(1), Integer(2), None);
        let batches = |values: &[f64]| ParameterKind::Discrete { values: values.to_vec(), scale: UnitLinear };
        check(batches(&[16.0, 32.0, 64.0]), Discrete(64.0), Some(Bound::Upper));
        // Immovable ends, and choices without an order.
        check(layers(0), Integer(0), None);
        check(double(0.0, 0.5, UnitLinear), Double(0.0), None);
        check(double(0.0, 0.5, UnitLinear), Double(0.5), Some(Bound::Upper));
        check(double(0.0, 1.0, UnitLinear), Double(1.0), None);
        check(batches(&[16.0, 32.0]), Discrete(32.0), None);
        check(ParameterKind::Integer { min: 3, max: 4, scale: UnitLinear }, Integer(4), None);
        let levels = ParameterKind::Categorical { values: vec!["a".into(), "b".into(), "c".into()] };
        check(levels, ParameterValue::Categorical("c".into()), None);
    }
}
