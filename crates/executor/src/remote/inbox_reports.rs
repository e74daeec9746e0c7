//! Reports of the agents of an attempt.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Inbox;
use crate::ExecutorJobId;
use crate::reports::{Reports, SentReports};
use tunesmith_domain::Measurement;

/// Summary of the metrics read by the agents of an attempt. Measurements reach the service directly.
pub(super) struct InboxReports {
    inbox: Arc<Inbox>,
    id: ExecutorJobId,
    sent: SentReports,
}

impl InboxReports {
    pub(super) fn new(inbox: Arc<Inbox>, id: ExecutorJobId) -> Self {
        Self { inbox, id, sent: SentReports::default() }
    }
}

impl Reports for InboxReports {
    fn has_files(&self) -> bool {
        false
    }

    fn poll(&mut self) -> Vec<Measurement> {
        Vec::new()
    }

    fn finish(&mut self) -> Vec<Measurement> {
        match self.inbox.summary(&self.id) {
            Ok(summary) => self.sent = summary,
            Err(error) => self.sent.problems.push(format!("the summary of its agent cannot be read: {error}")),
        }
        Vec::new()
    }

    fn seen_tags(&self) -> BTreeSet<String> {
        self.sent.seen_tags()
    }

    fn problems(&self) -> Vec<String> {
        self.sent.problems()
    }
}
