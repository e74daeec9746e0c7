//! Slots of running jobs.
//!
//! Jobs with programs on this machine take local slots, which bound processor load. Jobs with programs elsewhere mostly
//! wait for capacity, quotas or queues of a cluster; their remote slots bound only memory, so waiting jobs do not block
//! others.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::Jobs;
use crate::trainer::placement;
use tunesmith_domain::Job;
use tunesmith_executor::Placement;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotKind {
    Local,
    Remote,
}

/// Concurrency limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotCounts {
    pub local: NonZeroUsize,
    pub remote: NonZeroUsize,
}

impl SlotCounts {
    fn of(&self, kind: SlotKind) -> usize {
        match kind {
            SlotKind::Local => self.local,
            SlotKind::Remote => self.remote,
        }
        .get()
    }
}

#[derive(Debug, Clone)]
pub(super) struct Slots {
    counts: SlotCounts,
    /// One token per [`SlotKind`], cloned by each slot in use.
    tokens: Arc<[Arc<()>; 2]>,
}

impl Slots {
    pub(super) fn new(counts: SlotCounts) -> Self {
        Self { counts, tokens: Arc::default() }
    }

    pub(super) fn has_free(&self, kind: SlotKind) -> bool {
        let (used, all) = self.load(kind);
        used < all
    }

    /// Used and total slots.
    pub(super) fn load(&self, kind: SlotKind) -> (usize, usize) {
        (Arc::strong_count(&self.tokens[kind as usize]) - 1, self.counts.of(kind))
    }

    /// Occupies a slot until the returned value is dropped.
    pub(super) fn take(&self, kind: SlotKind) -> Arc<()> {
        Arc::clone(&self.tokens[kind as usize])
    }
}

impl Jobs {
    pub(super) fn slot_kind(&self, job: &Job) -> SlotKind {
        // Workers of models run on this machine.
        if job.prediction.is_some() {
            return SlotKind::Local;
        }
        // A job with an unreadable plan can only end.
        job.plan().map_or(SlotKind::Local, |plan| self.slot_kind_in(&placement(&plan.machines)))
    }

    /// Slot kind of jobs without a named executor.
    pub(super) fn usual_slot_kind(&self) -> SlotKind {
        self.slot_kind_in(&Placement::default())
    }

    fn slot_kind_in(&self, placement: &Placement) -> SlotKind {
        match self.services.executor.capabilities(placement).runs_here {
            true => SlotKind::Local,
            false => SlotKind::Remote,
        }
    }
}
