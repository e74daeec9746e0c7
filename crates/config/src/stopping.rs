//! Description of the stopping rules of trials and studies.

use tunesmith_algorithms::rounded::Rounded;
use tunesmith_domain::{StoppingRule, StudyStopping, StudyTime};

/// Rule and thresholds for stopping trials.
pub(super) fn stopping_rule(rule: &StoppingRule) -> String {
    let progress = |progress: f64| format!("{}% of the usual steps", Rounded(100.0 * progress));
    match rule {
        StoppingRule::Median(rule) => format!(
            "median rule, after {}, {} and {}",
            counted(rule.min_completed(), "completed trial"),
            rule.min_reports()
                .map_or_else(|| "4 reports (fewer for short curves)".to_owned(), |count| counted(count, "report")),
            progress(rule.min_progress())
        ),
        StoppingRule::DecayCurve(rule) => format!(
            "decay-curve rule, after {}, {} and {}, below a chance of {}%",
            counted(rule.min_finished(), "finished trial"),
            counted(rule.min_reports().unwrap_or(1), "report"),
            progress(rule.min_progress()),
            Rounded(100.0 * rule.probability())
        ),
        StoppingRule::Asha(rule) => {
            let first = match rule.first_rung() {
                Some(step) => format!("step {step}"),
                None => "a hundredth of the largest step".to_owned(),
            };
            format!("asynchronous successive halving, one in {} continues, first at {first}", rule.eta())
        }
    }
}

/// Rules that end the job, one line each.
pub(super) fn study_stopping(rules: &StudyStopping) -> Vec<String> {
    let time = |time: StudyTime| match time {
        StudyTime::After(duration) => format!("{} s after its start", Rounded(duration.as_secs_f64())),
        StudyTime::At(time) => time.to_string(),
    };
    let mut lines = Vec::new();
    if let Some(most) = rules.max_trials_without_progress {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        lines.push(format!("after {} without progress", counted(most, "trial")));
    }
    if let Some(limit) = rules.max_time_without_progress {
        lines.push(format!("after {} s without progress", Rounded(limit.as_secs_f64())));
    }
    if let Some(gain) = rules.min_expected_gain {
        lines.push(format!("when a further trial is expected to gain less than {}", Rounded(gain)));
    }
    if let Some(limit) = rules.max_time {
        lines.push(format!("at the latest {}", time(limit)));
    }
    let least = rules.min_trials.map(|least| counted(usize::try_from(least).unwrap_or(usize::MAX), "trial"));
    let least = least.into_iter().chain(rules.min_time.map(time)).collect::<Vec<_>>().join(" and ");
    if !least.is_empty() {
        lines.push(format!("not before {least}"));
    }
    lines
}

/// `1 trial`, `2 trials`.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
