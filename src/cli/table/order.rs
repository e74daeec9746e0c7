//! Natural order of names.

use std::cmp::Ordering;

/// Compares names, with embedded numbers by value: `units_2` precedes `units_10`.
pub(in crate::cli) fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let ((left_text, left_digits, left_rest), (right_text, right_digits, right_rest)) = (split(left), split(right));
        let by_value = || {
            let (x, y) = (left_digits.trim_start_matches('0'), right_digits.trim_start_matches('0'));
            x.len().cmp(&y.len()).then_with(|| x.cmp(y))
        };
        let order = left_text.cmp(right_text).then_with(by_value);
        if order != Ordering::Equal {
            return order;
        }
        if left_rest.is_empty() || right_rest.is_empty() {
            // Complete names break ties such as `a1` and `a01`.
            return left_rest.len().cmp(&right_rest.len()).then_with(|| a.cmp(b));
        }
        (left, right) = (left_rest, right_rest);
    }
}

/// Splits `name` into the text before its first number, the number, and the rest.
fn split(name: &str) -> (&str, &str, &str) {
    let start = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let (text, rest) = name.split_at(start);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, rest) = rest.split_at(end);
    (text, digits, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_compared_by_value() {
        let mut names =
            ["units_10", "units_2", "b", "units_2_b", "a01", "a1", "units", "units_02", "x99999999999999999999"];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(
            names,
            ["a01", "a1", "b", "units", "units_02", "units_2", "units_2_b", "units_10", "x99999999999999999999"]
        );
    }
}
