//! Numbers for human readers. Machine-readable output keeps every digit instead.

use std::fmt;

use crate::problem::ParameterValue;

/// Maximum number of significant digits.
const DIGITS: usize = 6;

/// Decimal exponents written in plain notation.
const PLAIN_EXPONENTS: std::ops::Range<i32> = -4..9;

/// Displays a number with at most six significant digits: `0.01` for `0.010000000000000004`. Numbers from 0.0001 up to
/// 1e9 have no exponent. Trailing zeros are dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rounded(pub f64);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scientific = format!("{:.*e}", DIGITS - 1, self.0);
        // NaN and the infinities have no exponent.
        let Some((mantissa, exponent)) = scientific.split_once('e') else { return f.pad(&scientific) };
        let exponent: i32 = exponent.parse().map_err(|_| fmt::Error)?;
        if PLAIN_EXPONENTS.contains(&exponent) {
            // Parsing the rounded text gives the number whose shortest text it is.
            let rounded: f64 = scientific.parse().map_err(|_| fmt::Error)?;
            return f.pad(&(rounded + 0.0).to_string());
        }
        let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
        f.pad(&format!("{mantissa}e{exponent}"))
    }
}

/// Displays a parameter value: numbers as [`Rounded`], integers and texts unchanged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundedValue<'a>(pub &'a ParameterValue);

impl fmt::Display for RoundedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ParameterValue::Double(number) | ParameterValue::Discrete(number) => Rounded(*number).fmt(f),
            ParameterValue::Integer(_) | ParameterValue::Categorical(_) => f.pad(&self.0.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_at_most_six_significant_digits() {
        for (number, text) in [
            (0.010000000000000004, "0.01"),
            (0.1 + 0.2, "0.3"),
            (0.123_456_789, "0.123457"),
            (-1234.5678, "-1234.57"),
            (32.0, "32"),
            (1e-5, "1e-5"),
            (9.999_999_9e-5, "0.0001"),
            (1.234_567_8e-6, "1.23457e-6"),
            (1e-9, "1e-9"),
            (123_456_789.0, "123457000"),
            (999_999_999.0, "1e9"),
            (-2.5e12, "-2.5e12"),
            (0.0, "0"),
            (-0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::MIN_POSITIVE, "2.22507e-308"),
        ] {
            assert_eq!(Rounded(number).to_string(), text);
        }
        assert_eq!(format!("[{:>6}]", Rounded(0.5)), "[   0.5]");
    }

    #[test]
    fn only_numbers_of_parameters_are_rounded() {
        let texts = [
            ParameterValue::Double(0.010000000000000004),
            ParameterValue::Discrete(32.0),
            ParameterValue::Integer(123_456_789),
            ParameterValue::Categorical("0.010000000000000004".to_owned()),
        ]
        .map(|value| RoundedValue(&value).to_string());
        assert_eq!(texts, ["0.01", "32", "123456789", "0.010000000000000004"]);
    }
}
