//! Early stopping in a comparison: a rule of the service, the baselines i-Epoch and Hyperband, or the optimizer's own.
//!
//! i-Epoch stops every trial after a small fixed number of reports; when all have stopped, the best few resume and
//! finish. Source: Egele et al. 2024, "The Unreasonable Effectiveness Of Early Discarding After One Epoch In Neural
//! Network Hyperparameter Optimization", arXiv 2404.04111, section 3. The service has no such rule.
//!
//! Hyperband runs successive halving in brackets that differ in their first rung; `simulation::hyperband` describes it.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use tunesmith_algorithms::early_stopping::StoppingRuleKind;

const I_EPOCH: &str = "i_epoch";
const HYPERBAND: &str = "hyperband";
const OPTIMIZER: &str = "optimizer";
const RESUME: &str = ":resume";
/// Default number of resumed trials, from the source.
const USUALLY_KEPT: u32 = 3;

/// A way to end trials early.
///
/// ```
/// use tunesmith_benchmark::early_stopping::EarlyStopping;
///
/// let baseline: EarlyStopping = "i_epoch:2".parse()?;
/// assert_eq!(baseline.to_string(), "i_epoch:2:3");
/// assert_eq!("median:resume".parse::<EarlyStopping>()?.to_string(), "median:resume");
/// assert!("i_epoch:0".parse::<EarlyStopping>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EarlyStopping {
    /// A service rule with default settings.
    Rule(StoppingRuleKind),
    /// A service rule with default settings, whose stopped trials resume from their last report as soon as the rule, with
    /// the curves since, would no longer stop them. They do not count again against the budget.
    Resuming(StoppingRuleKind),
    Epochs(Epochs),
    /// Asynchronous Hyperband; one in three trials passes each rung.
    Hyperband,
    /// The optimizer decides after each report.
    Optimizer,
}

/// Settings of i-Epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epochs {
    /// Number of reports after which a trial stops.
    pub reports: NonZeroU32,
    /// Number of trials that resume after all have stopped; they count against the budget.
    pub kept: u32,
}

impl fmt::Display for EarlyStopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => rule.fmt(f),
            Self::Resuming(rule) => write!(f, "{rule}{RESUME}"),
            Self::Epochs(Epochs { reports, kept }) => write!(f, "{I_EPOCH}:{reports}:{kept}"),
            Self::Hyperband => f.write_str(HYPERBAND),
            Self::Optimizer => f.write_str(OPTIMIZER),
        }
    }
}

impl FromStr for EarlyStopping {
    type Err = UnknownEarlyStopping;

    /// Parses `RULE` or `RULE:resume` with the name of a rule, `hyperband`, `optimizer`, or `i_epoch[:REPORTS[:KEPT]]` with
    /// defaults 1 and 3.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownEarlyStopping { text: text.to_owned() };
        match text {
            HYPERBAND => return Ok(Self::Hyperband),
            OPTIMIZER => return Ok(Self::Optimizer),
            _ => {}
        }
        let mut parts = text.split(':');
        if parts.next() != Some(I_EPOCH) {
            let (rule, form): (_, fn(StoppingRuleKind) -> Self) = match text.strip_suffix(RESUME) {
                Some(rule) => (rule, Self::Resuming),
                None => (text, Self::Rule),
            };
            return rule.parse().map(form).map_err(|_| unknown());
        }
        let mut number = |usual: u32| parts.next().map_or(Ok(usual), |part| part.parse().map_err(|_| unknown()));
        let (reports, kept) = (number(1)?, number(USUALLY_KEPT)?);
        match (NonZeroU32::new(reports), parts.next()) {
            (Some(reports), None) => Ok(Self::Epochs(Epochs { reports, kept })),
            _ => Err(unknown()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown early stopping {text:?}; it is one of {}, {HYPERBAND}, {OPTIMIZER}, or {I_EPOCH}[:REPORTS[:KEPT]] with at \
     least one report",
    StoppingRuleKind::ALL.map(|rule| format!("{rule}[{RESUME}]")).join(", ")
)]
pub struct UnknownEarlyStopping {
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(reports: u32, kept: u32) -> EarlyStopping {
        EarlyStopping::Epochs(Epochs { reports: NonZeroU32::new(reports).unwrap(), kept })
    }

    #[test]
    fn rules_and_the_baseline_are_read_by_name() {
        assert_eq!("asha".parse(), Ok(EarlyStopping::Rule(StoppingRuleKind::Asha)));
        assert_eq!("asha:resume".parse(), Ok(EarlyStopping::Resuming(StoppingRuleKind::Asha)));
        let resuming = EarlyStopping::Resuming(StoppingRuleKind::DecayCurve);
        for baseline in [EarlyStopping::Hyperband, EarlyStopping::Optimizer, resuming] {
            assert_eq!(baseline.to_string().parse(), Ok(baseline));
        }
        for (text, expected) in [("i_epoch", epochs(1, 3)), ("i_epoch:4", epochs(4, 3)), ("i_epoch:2:0", epochs(2, 0))]
        {
            assert_eq!(text.parse(), Ok(expected), "{text}");
            assert_eq!(expected.to_string().parse(), Ok(expected));
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        let epochs = ["i_epoch:", "i_epoch:0", "i_epoch:-1", "i_epoch:1:x", "i_epoch:1:2:3", "i_epoch:resume"];
        let others = ["", "bohb", "hyperband:3", "asha:2", "asha:resume:resume", "hyperband:resume", ":resume"];
        for text in epochs.into_iter().chain(others) {
            let message = text.parse::<EarlyStopping>().unwrap_err().to_string();
            let allowed = "it is one of median[:resume], decay_curve[:resume], asha[:resume], hyperband, optimizer, or \
                           i_epoch[:REPORTS[:KEPT]] with at least one report";
            assert_eq!(message, format!("unknown early stopping {text:?}; {allowed}"));
        }
    }
}
