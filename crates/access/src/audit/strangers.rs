//! Rate limit on records of unauthenticated callers: anyone can send any number of such requests.

use jiff::{SignedDuration, Timestamp};

use super::Record;

const MAX_RECORDS: u64 = 100;

const PERIOD: SignedDuration = SignedDuration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct Strangers {
    begin: Timestamp,
    admitted: u64,
    suppressed: u64,
}

impl Strangers {
    /// Counts a request at `time` and returns whether to record it. Call [`Self::summary`] first.
    pub(super) fn admit(&mut self, time: Timestamp) -> bool {
        if self.admitted == 0 {
            self.begin = time;
        }
        if self.admitted == MAX_RECORDS {
            self.suppressed += 1;
            return false;
        }
        self.admitted += 1;
        true
    }

    /// Ends the current period if it is over at `time`. Returns a record of its unrecorded requests, if any.
    pub(super) fn summary(&mut self, time: Timestamp) -> Option<Record<'static>> {
        let age = time.duration_since(self.begin);
        if (SignedDuration::ZERO..PERIOD).contains(&age) {
            return None;
        }
        self.end(time)
    }

    /// Like [`Self::summary`], after the last request.
    pub(super) fn last_summary(&mut self) -> Option<Record<'static>> {
        self.end(self.begin)
    }

    fn end(&mut self, time: Timestamp) -> Option<Record<'static>> {
        let suppressed = std::mem::take(self).suppressed;
        (suppressed > 0).then_some(Record {
            time,
            principal: "unknown",
            caller_ip: None,
            method: "tunesmith.audit.suppressed",
            resource: "",
            permission: None,
            status: 401,
            request_id: "",
            count: Some(suppressed),
        })
    }
}
