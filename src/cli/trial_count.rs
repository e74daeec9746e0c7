//! Trial count argument.

use std::str::FromStr;

/// Number of trials of a job or study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrialCount {
    /// `20`: in total.
    Total(u64),
    /// `+10`: in addition to the current number.
    More(u64),
}

/// Maximum number of trials, as in AI Platform's configuration.
const MAX: u64 = i32::MAX as u64;

impl TrialCount {
    /// Total for a job or study whose maximum is `now`.
    pub(super) fn total(self, now: u64) -> u64 {
        match self {
            Self::Total(count) => count,
            Self::More(count) => now.saturating_add(count).min(MAX),
        }
    }
}

impl FromStr for TrialCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, make): (&str, fn(u64) -> Self) = match text.strip_prefix('+') {
            Some(number) => (number, Self::More),
            None => (text, Self::Total),
        };
        match number.parse::<u64>() {
            Ok(count) if (1..=MAX).contains(&count) && number.starts_with(|c: char| c.is_ascii_digit()) => {
                Ok(make(count))
            }
            _ => Err(format!("expected a number of trials such as 20, or +10 for ten more; 1 to {MAX} are allowed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_is_total_or_relative() {
        assert_eq!("20".parse(), Ok(TrialCount::Total(20)));
        assert_eq!("+10".parse(), Ok(TrialCount::More(10)));
        assert_eq!((TrialCount::Total(20).total(12), TrialCount::More(10).total(12)), (20, 22));
        for bad in ["", "0", "+0", "-3", "++3", "2147483648", "ten"] {
            assert!(bad.parse::<TrialCount>().is_err(), "{bad}");
        }
    }
}
