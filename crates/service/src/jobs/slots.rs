//! The slots of running jobs.
//!
//! A job whose programs run on this machine takes one of the job slots, which bound the load of its processors. Programs on other
//! machines take none of them, and most of their time such a job only waits: for a place, a quota or a queue of its cluster. It takes
//! memory, which the remote slots bound, and two jobs that wait do not hold a third one up.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Jobs;
use crate::trainer::placement;
use tunesmith_domain::Job;
use tunesmith_executor::Placement;

/// The slot that a job takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotKind {
    /// Of a job whose programs run on this machine.
    Local,
    /// Of a job whose programs run on other machines.
    Remote,
}

/// Maximum numbers of jobs that run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotCounts {
    /// Jobs whose programs run on this machine.
    pub local: NonZeroUsize,
    /// Jobs whose programs run on other machines.
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

/// The slots of a process, and those in use.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    counts: SlotCounts,
    /// By [`SlotKind`].
    used: Arc<[AtomicUsize; 2]>,
}

impl Slots {
    pub(super) fn new(counts: SlotCounts) -> Self {
        Self { counts, used: Arc::default() }
    }

    pub(super) fn has_free(&self, kind: SlotKind) -> bool {
        let (used, all) = self.load(kind);
        used < all
    }

    /// Number of slots in use and of all slots.
    pub(super) fn load(&self, kind: SlotKind) -> (usize, usize) {
        (self.used[kind as usize].load(Ordering::Relaxed), self.counts.of(kind))
    }

    /// Takes a slot until the returned value is dropped.
    pub(super) fn take(&self, kind: SlotKind) -> SlotInUse {
        self.used[kind as usize].fetch_add(1, Ordering::Relaxed);
        SlotInUse { used: Arc::clone(&self.used), kind }
    }
}

/// A slot in use.
#[derive(Debug)]
pub(super) struct SlotInUse {
    used: Arc<[AtomicUsize; 2]>,
    kind: SlotKind,
}

impl Drop for SlotInUse {
    fn drop(&mut self) {
        self.used[self.kind as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

impl Jobs {
    /// The slot that `job` takes.
    pub(super) fn slot_kind(&self, job: &Job) -> SlotKind {
        // A job whose plan cannot be read only ends.
        job.plan().map_or(SlotKind::Local, |plan| self.slot_kind_in(&placement(&plan.machines)))
    }

    /// The slot of jobs that name no executor.
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
