//! Early stopping rules and thresholds in jobs and studies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tunesmith_algorithms::early_stopping::{AshaRule, DecayCurveRule, MedianRule, StoppingRuleKind};

use super::violations::Violations;
use super::{Double, Int64};
use tunesmith_domain::StoppingRule;

/// Thresholds of an early stopping rule; each rule uses some of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct EarlyStoppingSettings {
    /// (Tunesmith) `MEDIAN`: completed trials required before any trial is stopped, at least 1; default 5.
    /// `DECAY_CURVE`: trials that ran to their end, at least 2; default 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_trials: Option<u32>,
    /// (Tunesmith) `MEDIAN` and `DECAY_CURVE`: reports of a trial required before it is stopped, at least 1. Default 4
    /// for `MEDIAN`, capped at one fewer than the longest curve has, and 1 for `DECAY_CURVE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_reports: Option<u32>,
    /// (Tunesmith) `MEDIAN` and `DECAY_CURVE`: fraction of the usual last step that a trial must reach before it is
    /// stopped, from 0 to 1. Default 0.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_progress: Option<Double>,
    /// (Tunesmith) `DECAY_CURVE`: probability of becoming the best trial below which a trial is stopped, above 0 and
    /// below 1. Default 0.05.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_probability: Option<Double>,
    /// (Tunesmith) `ASHA`: one in `eta` trials continues past a rung, at least 2. Default 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<u32>,
    /// (Tunesmith) `ASHA`: step of the first rung, at least 1. Default: a hundredth of the largest reported step, at
    /// least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_resource: Option<Int64>,
}

/// Path of [`EarlyStoppingSettings`] in the additions of jobs and studies.
pub(super) const SETTINGS: &str = "tunesmith.earlyStoppingSettings";

/// Creates the rule `kind` with `settings`; reports violations and returns `None` if invalid.
pub(super) fn stopping_rule(
    kind: StoppingRuleKind,
    settings: &EarlyStoppingSettings,
    violations: &mut Violations,
) -> Option<StoppingRule> {
    let EarlyStoppingSettings { min_trials, min_reports, min_progress, max_probability, eta, min_resource } = settings;
    let fields = [
        ("minTrials", min_trials.is_some(), kind != StoppingRuleKind::Asha),
        ("minReports", min_reports.is_some(), kind != StoppingRuleKind::Asha),
        ("minProgress", min_progress.is_some(), kind != StoppingRuleKind::Asha),
        ("maxProbability", max_probability.is_some(), kind == StoppingRuleKind::DecayCurve),
        ("eta", eta.is_some(), kind == StoppingRuleKind::Asha),
        ("minResource", min_resource.is_some(), kind == StoppingRuleKind::Asha),
    ];
    let own: Vec<&str> = fields.iter().filter(|(_, _, is_own)| *is_own).map(|(name, ..)| *name).collect();
    let mut is_valid = true;
    for (name, is_given, is_own) in fields {
        if is_given && !is_own {
            is_valid = false;
            violations.error(
                format_args!("{SETTINGS}.{name}"),
                format_args!("is not a threshold of {}", name_of(kind)),
                format_args!("with {}: {}", name_of(kind), own.join(", ")),
            );
        }
    }
    let fewest_trials = if kind == StoppingRuleKind::DecayCurve { 2 } else { 1 };
    let mut check = |name: &str, value: Option<f64>, is_allowed: &dyn Fn(f64) -> bool, allowed: &str| {
        if let Some(value) = value.filter(|value| !is_allowed(*value)) {
            is_valid = false;
            violations.error(
                format_args!("{SETTINGS}.{name}"),
                format_args!("{} is out of range", Double(value)),
                allowed,
            );
        }
    };
    let trials = format!("a whole number from {fewest_trials} on");
    check("minTrials", min_trials.map(f64::from), &|count| count >= f64::from(fewest_trials), &trials);
    check("minReports", min_reports.map(f64::from), &|count| count >= 1.0, "a whole number from 1 on");
    check(
        "minProgress",
        min_progress.map(|share| share.0),
        &|share| (0.0..=1.0).contains(&share),
        "a number from 0 to 1",
    );
    let is_probability = |probability: f64| probability > 0.0 && probability < 1.0;
    check("maxProbability", max_probability.map(|share| share.0), &is_probability, "a number above 0 and below 1");
    check("eta", eta.map(f64::from), &|eta| eta >= 2.0, "a whole number from 2 on");
    check("minResource", min_resource.map(|step| step.0 as f64), &|step| step >= 1.0, "a step from 1 on");
    if !is_valid {
        return None;
    }
    let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let reports = min_reports.map(count);
    // Settings accepted above are valid.
    Some(match kind {
        StoppingRuleKind::Median => {
            let usual = MedianRule::default();
            let trials = min_trials.map_or(usual.min_completed(), count);
            let progress = min_progress.map_or(usual.min_progress(), |share| share.0);
            StoppingRule::Median(MedianRule::new(trials, reports, progress).ok()?)
        }
        StoppingRuleKind::DecayCurve => {
            let usual = DecayCurveRule::default();
            let trials = min_trials.map_or(usual.min_finished(), count);
            let progress = min_progress.map_or(usual.min_progress(), |share| share.0);
            let probability = max_probability.map_or(usual.probability(), |share| share.0);
            StoppingRule::DecayCurve(DecayCurveRule::new(trials, reports, progress, probability).ok()?)
        }
        StoppingRuleKind::Asha => {
            let eta = eta.unwrap_or(AshaRule::default().eta());
            StoppingRule::Asha(AshaRule::new(eta, min_resource.map(|step| step.0)).ok()?)
        }
    })
}

/// Thresholds of `rule` that differ from the default.
pub(super) fn settings_of(rule: &StoppingRule) -> EarlyStoppingSettings {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let other = |value: f64, usual: f64| (value != usual).then_some(Double(value));
    let mut settings = EarlyStoppingSettings::default();
    match rule {
        StoppingRule::Median(rule) => {
            let usual = MedianRule::default();
            settings.min_trials = (rule.min_completed() != usual.min_completed()).then(|| count(rule.min_completed()));
            settings.min_reports = rule.min_reports().map(count);
            settings.min_progress = other(rule.min_progress(), usual.min_progress());
        }
        StoppingRule::DecayCurve(rule) => {
            let usual = DecayCurveRule::default();
            settings.min_trials = (rule.min_finished() != usual.min_finished()).then(|| count(rule.min_finished()));
            settings.min_reports = rule.min_reports().map(count);
            settings.min_progress = other(rule.min_progress(), usual.min_progress());
            settings.max_probability = other(rule.probability(), usual.probability());
        }
        StoppingRule::Asha(rule) => {
            settings.eta = (rule.eta() != AshaRule::default().eta()).then(|| rule.eta());
            settings.min_resource = rule.first_rung().map(Int64);
        }
    }
    settings
}

pub(super) fn name_of(kind: StoppingRuleKind) -> &'static str {
    match kind {
        StoppingRuleKind::Median => "MEDIAN",
        StoppingRuleKind::DecayCurve => "DECAY_CURVE",
        StoppingRuleKind::Asha => "ASHA",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(kind: StoppingRuleKind, json: &str) -> Result<StoppingRule, Vec<(String, String)>> {
        let mut violations = Violations::default();
        let rule = stopping_rule(kind, &serde_json::from_str(json).unwrap(), &mut violations);
        let violations: Vec<_> = violations
            .into_vec()
            .into_iter()
            .map(|one| (one.field, format!("{}; {}", one.message, one.allowed)))
            .collect();
        assert_eq!(rule.is_some(), violations.is_empty());
        rule.ok_or(violations)
    }

    #[test]
    fn settings_without_thresholds_are_the_defaults_and_others_are_rendered() {
        for kind in StoppingRuleKind::ALL {
            assert_eq!(rule(kind, "{}"), Ok(StoppingRule::from(kind)));
            assert_eq!(settings_of(&StoppingRule::from(kind)), EarlyStoppingSettings::default());
        }
        for (kind, json) in [
            (StoppingRuleKind::Median, r#"{"minTrials":2,"minReports":3,"minProgress":0.5}"#),
            (StoppingRuleKind::DecayCurve, r#"{"minTrials":4,"minReports":1,"minProgress":0,"maxProbability":0.2}"#),
            (StoppingRuleKind::Asha, r#"{"eta":4,"minResource":"2"}"#),
        ] {
            let rule = rule(kind, json).unwrap();
            assert_ne!(rule, StoppingRule::from(kind));
            assert_eq!(serde_json::to_string(&settings_of(&rule)).unwrap(), json);
        }
    }

    #[test]
    fn thresholds_of_another_rule_and_out_of_range_are_refused() {
        let text = |field: &str, message: &str| (format!("{SETTINGS}.{field}"), message.to_owned());
        assert_eq!(
            rule(StoppingRuleKind::Median, r#"{"eta": 3, "minTrials": 0}"#),
            Err(vec![
                text("eta", "is not a threshold of MEDIAN; with MEDIAN: minTrials, minReports, minProgress"),
                text("minTrials", "0 is out of range; a whole number from 1 on"),
            ])
        );
        assert_eq!(
            rule(StoppingRuleKind::DecayCurve, r#"{"minTrials": 1, "minProgress": 1.5, "maxProbability": "NaN"}"#),
            Err(vec![
                text("minTrials", "1 is out of range; a whole number from 2 on"),
                text("minProgress", "1.5 is out of range; a number from 0 to 1"),
                text("maxProbability", "NaN is out of range; a number above 0 and below 1"),
            ])
        );
        assert_eq!(
            rule(StoppingRuleKind::Asha, r#"{"minReports": 1, "eta": 1, "minResource": 0}"#),
            Err(vec![
                text("minReports", "is not a threshold of ASHA; with ASHA: eta, minResource"),
                text("eta", "1 is out of range; a whole number from 2 on"),
                text("minResource", "0 is out of range; a step from 1 on"),
            ])
        );
    }
}
