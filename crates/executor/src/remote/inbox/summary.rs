//! Summary of tags and problems reported by an attempt's agents, within limits.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::super::messages::AgentReport;
use crate::reports::SentReports;
use tunesmith_metrics::{MAX_SEEN_TAG_BYTES, MAX_SEEN_TAGS};

/// Maximum number of problems of one attempt, as in a collector.
const MAX_PROBLEMS: usize = 64;

#[derive(Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Summary {
    seen_tags: BTreeSet<String>,
    problems: Vec<String>,
}

impl Summary {
    /// Adds the new tags and problems of `report`. Returns whether there are any.
    pub(super) fn add(&mut self, report: &AgentReport) -> bool {
        let before = (self.seen_tags.len(), self.problems.len());
        for tag in &report.seen_tags {
            if self.seen_tags.len() < MAX_SEEN_TAGS && tag.len() <= MAX_SEEN_TAG_BYTES {
                self.seen_tags.insert(tag.clone());
            }
        }
        report.problems.iter().for_each(|problem| {
            self.add_problem(problem);
        });
        before != (self.seen_tags.len(), self.problems.len())
    }

    /// Adds `problem`, and returns whether it is new and within the limit.
    pub(super) fn add_problem(&mut self, problem: &str) -> bool {
        // A linear search is fast enough: the number of problems is limited.
        let is_kept = self.problems.len() < MAX_PROBLEMS && !self.problems.iter().any(|known| known == problem);
        if is_kept {
            self.problems.push(problem.to_owned());
        }
        is_kept
    }
}

impl From<Summary> for SentReports {
    fn from(Summary { seen_tags, problems }: Summary) -> Self {
        Self { seen_tags, problems }
    }
}
