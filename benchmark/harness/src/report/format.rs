//! Number and name formats of all reports.

use tunesmith_benchmark::analysis::{Decision, GroupComparison};

/// Two decimals, signed only below 0, for mean log10 gaps and ranks.
pub(super) fn two(value: f64) -> String {
    // A rounded 0 has no sign.
    let text = format!("{value:.2}");
    if text == "-0.00" { "0.00".to_owned() } else { text }
}

/// Two decimals, always signed.
pub(super) fn signed(value: f64) -> String {
    let text = format!("{value:+.2}");
    if text == "-0.00" { "+0.00".to_owned() } else { text }
}

/// One decimal.
pub(super) fn one(value: f64) -> String {
    let text = format!("{value:.1}");
    if text == "-0.0" { "0.0".to_owned() } else { text }
}

/// Gap, at least 0, with two or three significant digits.
pub(super) fn gap(value: f64) -> String {
    let digits = 1 - (value.log10().floor().clamp(-9.0, 0.0) as i32);
    let digits = usize::try_from(digits).unwrap_or(1);
    let text = format!("{value:.digits$}");
    if text.bytes().all(|byte| matches!(byte, b'0' | b'.')) { "0".to_owned() } else { text }
}

/// Two digits, or `< 0.001`.
pub(super) fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// Milliseconds with three digits and a unit.
pub(super) fn milliseconds(ms: f64) -> String {
    if ms < 1.0 {
        format!("{:.0} µs", ms * 1e3)
    } else if ms < 10.0 {
        format!("{ms:.1} ms")
    } else if ms < 1e3 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.1} s", ms / 1e3)
    }
}

/// Seconds with about three digits and a unit.
pub(super) fn seconds(secs: f64) -> String {
    if secs < 600.0 {
        format!("{secs:.1} s")
    } else if secs < 36_000.0 {
        format!("{:.1} min", secs / 60.0)
    } else {
        format!("{:.1} h", secs / 3600.0)
    }
}

pub(super) fn finding(finding: Decision) -> &'static str {
    match finding {
        Decision::Better => "better",
        Decision::Worse => "worse",
        Decision::NoDifference => "none",
    }
}

/// `bbob, 5 parameters` or `bbob, all dimensions`.
pub(super) fn group_name(suite: &str, dimension: Option<usize>) -> String {
    match dimension {
        None => format!("{suite}, all dimensions"),
        Some(1) => format!("{suite}, 1 parameter"),
        Some(dimension) => format!("{suite}, {dimension} parameters"),
    }
}

pub(super) fn group_title(group: &GroupComparison) -> String {
    group_name(&group.suite, group.dimension)
}

/// `1 problem`, `2 problems`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// A power of ten as such, any other number in full.
pub(super) fn threshold(value: f64) -> String {
    format!("{value:e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        assert_eq!([two(-0.001), two(1.005), signed(0.3), signed(-1.25)], ["0.00", "1.00", "+0.30", "-1.25"]);
        assert_eq!([p_value(0.0004), p_value(0.0314)], ["< 0.001", "0.031"]);
        let times = [0.25, 2.345, 23.4, 2345.6].map(milliseconds);
        assert_eq!(times, ["250 µs", "2.3 ms", "23 ms", "2.3 s"]);
        assert_eq!([5.0, 900.0, 72_000.0].map(seconds), ["5.0 s", "15.0 min", "20.0 h"]);
        assert_eq!([threshold(1e-8), count(1, "problem"), count(2, "problem")], ["1e-8", "1 problem", "2 problems"]);
    }
}
