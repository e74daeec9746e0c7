//! Names of the stopping rules.

use std::fmt;
use std::str::FromStr;

/// A stopping rule without its settings.
///
/// ```
/// use tunesmith_algorithms::early_stopping::{StoppingRule, StoppingRuleKind};
///
/// let kind: StoppingRuleKind = "decay_curve".parse()?;
/// assert_eq!(kind, StoppingRuleKind::DecayCurve);
/// assert_eq!(StoppingRule::from(kind).kind(), kind);
/// assert!("convex".parse::<StoppingRuleKind>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StoppingRuleKind {
    /// [`MedianRule`](super::MedianRule).
    Median,
    /// [`DecayCurveRule`](super::DecayCurveRule).
    DecayCurve,
    /// [`AshaRule`](super::AshaRule): asynchronous successive halving.
    Asha,
}

impl StoppingRuleKind {
    /// All rules.
    pub const ALL: [Self; 3] = [Self::Median, Self::DecayCurve, Self::Asha];

    /// Name in snake case: `median`, `decay_curve` or `asha`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Median => "median",
            Self::DecayCurve => "decay_curve",
            Self::Asha => "asha",
        }
    }
}

impl fmt::Display for StoppingRuleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for StoppingRuleKind {
    type Err = UnknownStoppingRule;

    /// Parses the result of [`as_str`](Self::as_str).
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let kind = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        kind.ok_or_else(|| UnknownStoppingRule { name: name.to_owned() })
    }
}

/// Unknown name of a stopping rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown stopping rule {name:?}; the rules are {}", StoppingRuleKind::ALL.map(StoppingRuleKind::as_str).join(", "))]
pub struct UnknownStoppingRule {
    /// Name as given.
    pub name: String,
}
