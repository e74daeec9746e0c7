//! Decides when failed trials fail their job.

use std::collections::BTreeSet;

use tunesmith_domain::{JobPlan, Trial, TrialState};

/// Failures without a success that fail a job with `maxFailedTrials: 0`. A guess.
const FAILURES_WITHOUT_SUCCESS: u64 = 3;

/// Failure accounting of a job.
///
/// A positive `maxFailedTrials` is the number of failed trials that fails the job. With 0, the job fails after three
/// failures without a success, or once more than half of `maxTrials` have failed. In both cases, the job fails if the
/// first successful program reports metric tags but not the configured one: a misspelt tag would fail every further
/// trial too.
#[derive(Debug)]
pub(super) struct FailureRule {
    max_failed_trials: u64,
    max_trials: u64,
    failed: u64,
    succeeded: u64,
    /// Trials stopped without a result.
    stopped: u64,
    last_reason: String,
    wrong_tag: Option<String>,
}

impl FailureRule {
    pub(super) fn new(max_failed_trials: u64, max_trials: u64) -> Self {
        Self {
            max_failed_trials,
            max_trials,
            failed: 0,
            succeeded: 0,
            stopped: 0,
            last_reason: String::new(),
            wrong_tag: None,
        }
    }

    pub(super) fn set_max_trials(&mut self, max_trials: u64) {
        self.max_trials = max_trials;
    }

    /// Counts a trial in a final state.
    pub(super) fn record(&mut self, trial: &Trial) {
        match trial.state {
            TrialState::Succeeded => self.succeeded += 1,
            TrialState::Infeasible if !trial.has_failed() => self.stopped += 1,
            TrialState::Infeasible => {
                self.failed += 1;
                let reason = trial.infeasible_reason.as_deref().unwrap_or_default();
                self.last_reason = format!("trial {}: {reason}", trial.id);
            }
            TrialState::Requested | TrialState::Active | TrialState::Stopping | TrialState::Deleted => {}
        }
    }

    /// Withdraws the result of a trial that was stopped early and goes on.
    pub(super) fn withdraw_success(&mut self) {
        self.succeeded = self.succeeded.saturating_sub(1);
    }

    /// Records the tags reported by `trial` if its program succeeded; `seen` is `None` otherwise.
    pub(super) fn record_tags(&mut self, trial: &Trial, plan: &JobPlan, seen: &Option<BTreeSet<String>>) {
        let Some(seen) = seen.as_ref().filter(|seen| !seen.is_empty()) else { return };
        if self.succeeded > 0 || self.wrong_tag.is_some() {
            return;
        }
        let first = ("hyperparameterMetricTag".to_owned(), &plan.metric_tag);
        let further = plan.further_tags.iter().enumerate();
        let further = further.map(|(index, tag)| (format!("tunesmith.metrics[{index}].metric"), tag));
        let Some((field, tag)) = std::iter::once(first).chain(further).find(|(_, tag)| !seen.contains(*tag)) else {
            return;
        };
        // An unreadable line with the metric's own name explains more than another name.
        let reason = trial.infeasible_reason.as_deref().unwrap_or_default();
        if reason.contains(&format!("is not a report of {tag:?}")) {
            self.wrong_tag = Some(format!("trial {}: {reason}", trial.id));
            return;
        }
        let wanted: Vec<&str> = plan.tags().collect();
        let nearest = seen
            .iter()
            .filter(|name| !wanted.contains(&name.as_str()))
            .max_by(|a, b| strsim::jaro_winkler(a, tag).total_cmp(&strsim::jaro_winkler(b, tag)));
        let hint = nearest.map(|nearest| format!("; did you mean {nearest:?}?")).unwrap_or_default();
        let listed: Vec<String> = seen.iter().map(|name| format!("{name:?}")).collect();
        self.wrong_tag =
            Some(format!("trial {} never reported {field} {tag:?}; it reported {}{hint}", trial.id, listed.join(", ")));
    }

    /// Reason for failing the job now, if any.
    pub(super) fn failure(&self) -> Option<String> {
        if let Some(wrong_tag) = &self.wrong_tag {
            return Some(wrong_tag.clone());
        }
        let last = &self.last_reason;
        if self.max_failed_trials > 0 {
            return (self.failed >= self.max_failed_trials).then(|| {
                format!("{} trials failed, maxFailedTrials is {}; {last}", self.failed, self.max_failed_trials)
            });
        }
        if self.succeeded == 0 && self.failed >= FAILURES_WITHOUT_SUCCESS {
            return Some(format!("the first {} trials all failed; {last}", self.failed));
        }
        (self.max_trials > 1 && self.failed > self.max_trials / 2)
            .then(|| format!("{} of {} trials failed; {last}", self.failed, self.max_trials))
    }

    /// Reason for failing a job that has finished all trials without a success.
    pub(super) fn nothing_succeeded(&self) -> Option<String> {
        (self.succeeded == 0).then(|| match (self.failed, self.stopped) {
            (0, 0) => "no trial was run".to_owned(),
            (0, stopped) => format!("all {stopped} trials were stopped before they had a result"),
            (failed, _) => format!("all {failed} trials failed; {}", self.last_reason),
        })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tunesmith_algorithms::problem::TrialId;

    use super::*;
    use tunesmith_contract::samples;
    use tunesmith_domain::{Completion, Measurement, NewTrial, ReportKey, TrialChange, TrialStart};

    fn trial(id: u64, ok: bool) -> Trial {
        let mut trial = Trial::new(NewTrial {
            id: TrialId(id),
            parameters: Default::default(),
            origin: None,
            fallback_reason: None,
            fixed_parameters: Vec::new(),
            client_id: "c".into(),
            start: TrialStart::Given,
            create_time: Timestamp::UNIX_EPOCH,
            request_key: None,
        })
        .unwrap();
        let completion = if ok {
            let final_measurement =
                Measurement { step: 1, wall_time_secs: 0.0, elapsed_secs: None, key: ReportKey::Http, metrics: vec![] };
            Completion::Succeeded { final_measurement }
        } else {
            Completion::Infeasible { reason: "exit code 1".into() }
        };
        let at = Timestamp::UNIX_EPOCH;
        trial.apply(TrialChange::Complete { attempt: 0, measurements: vec![], completion, at }).unwrap();
        trial
    }

    fn rule(max_failed: u64, outcomes: &[bool]) -> FailureRule {
        let mut rule = FailureRule::new(max_failed, 10);
        for (index, ok) in outcomes.iter().enumerate() {
            rule.record(&trial(index as u64 + 1, *ok));
        }
        rule
    }

    #[test]
    fn max_failed_trials_fails_the_job() {
        assert_eq!(rule(2, &[false, true]).failure(), None);
        let failure = rule(2, &[false, true, false]).failure().unwrap();
        assert_eq!(failure, "2 trials failed, maxFailedTrials is 2; trial 3: exit code 1");
    }

    #[test]
    fn without_a_limit_three_initial_or_more_than_half_failures_fail_the_job() {
        assert_eq!(rule(0, &[false, false]).failure(), None);
        assert!(rule(0, &[false, false, false]).failure().unwrap().starts_with("the first 3 trials all failed"));
        assert_eq!(rule(0, &[true, false, false, false, false, false]).failure(), None);
        let failure = rule(0, &[true, false, false, false, false, false, false]).failure().unwrap();
        assert!(failure.starts_with("6 of 10 trials failed"));
    }

    #[test]
    fn unreported_tag_fails_the_job_with_the_first_trial() {
        let mut rule = rule(0, &[false]);
        let seen = Some(BTreeSet::from(["accuracy".to_owned(), "loss".to_owned()]));
        let plan = JobPlan { metric_tag: "acuracy".to_owned(), ..samples::plan() };
        rule.record_tags(&trial(1, false), &plan, &seen);
        assert_eq!(
            rule.failure().unwrap(),
            "trial 1 never reported hyperparameterMetricTag \"acuracy\"; it reported \"accuracy\", \"loss\"; \
             did you mean \"accuracy\"?"
        );
    }

    #[test]
    fn unreported_further_metric_fails_the_job_with_the_first_trial() {
        let seen = Some(BTreeSet::from(["accuracy".to_owned(), "latency".to_owned()]));
        let further_tags = vec!["latncy".to_owned()];
        let plan = JobPlan { metric_tag: "accuracy".to_owned(), further_tags, ..samples::plan() };
        let mut misspelt = rule(0, &[false]);
        misspelt.record_tags(&trial(1, false), &plan, &seen);
        assert_eq!(
            misspelt.failure().unwrap(),
            "trial 1 never reported tunesmith.metrics[0].metric \"latncy\"; it reported \"accuracy\", \"latency\"; \
             did you mean \"latency\"?"
        );
        let mut right = rule(0, &[false]);
        right.record_tags(&trial(1, false), &JobPlan { further_tags: vec!["latency".to_owned()], ..plan }, &seen);
        assert_eq!(right.failure(), None);
    }
}
