//! Failed runs and unsupported problems, by reason.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::record::{Failure, RunRecord};

/// Runs of one optimizer in one suite that ended for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureSummary {
    #[serde(rename = "contestant")]
    pub optimizer: String,
    pub suite: String,
    /// Unsupported by the optimizer, which is not a failure.
    pub is_unsupported: bool,
    /// Reason reported by the optimizer or its runner.
    pub reason: String,
    pub runs: usize,
    pub problems: usize,
    /// First problem by name.
    pub example: String,
}

/// Summaries in the order of `optimizers`, failures first, then by suite and reason.
pub(super) fn failures(optimizers: &[String], failed: &[(String, &RunRecord)]) -> Vec<FailureSummary> {
    let mut by_reason: BTreeMap<(usize, bool, &str, &str), Vec<&str>> = BTreeMap::new();
    for (label, record) in failed {
        let (is_unsupported, reason) = match &record.failure {
            Some(Failure::Unsupported(reason)) => (true, reason),
            Some(Failure::Failed(reason)) => (false, reason),
            None => continue,
        };
        let Some(optimizer) = optimizers.iter().position(|name| name == label) else { continue };
        let key = (optimizer, is_unsupported, record.key.suite.as_str(), reason.as_str());
        by_reason.entry(key).or_default().push(&record.key.problem);
    }
    let summary =
        |((optimizer, is_unsupported, suite, reason), mut problems): ((usize, bool, &str, &str), Vec<&str>)| {
            let runs = problems.len();
            problems.sort_unstable();
            problems.dedup();
            FailureSummary {
                optimizer: optimizers[optimizer].clone(),
                suite: suite.to_owned(),
                is_unsupported,
                reason: reason.to_owned(),
                runs,
                problems: problems.len(),
                example: problems.first().copied().unwrap_or_default().to_owned(),
            }
        };
    by_reason.into_iter().map(summary).collect()
}

#[cfg(test)]
mod tests {
    use super::super::synthetic_fixture::record;
    use super::*;

    #[test]
    fn failures_are_counted_by_reason() {
        let failed = |problem: &str, seed: u64, failure: Failure| RunRecord {
            failure: Some(failure),
            ..record("tpe", problem, seed, &[1.0])
        };
        let died = || Failure::Failed("died".to_owned());
        let records = [
            failed("f2", 1, died()),
            failed("f1", 1, died()),
            failed("f1", 2, died()),
            failed("f3", 1, Failure::Unsupported("one metric".to_owned())),
        ];
        let named: Vec<(String, &RunRecord)> = records.iter().map(|record| ("tpe".to_owned(), record)).collect();
        let found = failures(&["tpe".to_owned()], &named);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].runs, found[0].problems, found[0].example.as_str()), (3, 2, "f1"));
        assert_eq!((found[1].is_unsupported, found[1].reason.as_str(), found[1].runs), (true, "one metric", 1));
    }
}
