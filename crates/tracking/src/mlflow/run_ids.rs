//! IDs of runs, for the programs of trials.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tunesmith_algorithms::problem::TrialId;

/// Maximum times of a wait for a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Before the run of the job is known.
    pub(crate) first: Duration,
    pub(crate) later: Duration,
}

/// IDs of the runs of one job as they become known.
#[derive(Debug, Default)]
pub struct RunIds {
    ids: Mutex<Ids>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Ids {
    parent: Option<String>,
    trials: HashMap<TrialId, String>,
    /// Whether waiting is useless for now, since MLflow did not respond in time.
    is_stalled: bool,
}

impl RunIds {
    pub(super) fn set_parent(&self, run: &str) {
        self.ids.lock().parent = Some(run.to_owned());
        self.changed.notify_waiters();
    }

    pub(super) fn set_trial(&self, trial: TrialId, run: &str) {
        self.ids.lock().trials.insert(trial, run.to_owned());
        self.changed.notify_waiters();
    }

    pub(super) fn clear(&self) {
        let mut ids = self.ids.lock();
        ids.parent = None;
        ids.trials.clear();
    }

    /// Records whether the last pass succeeded. No program waits after a failure.
    pub(crate) fn note_pass(&self, has_succeeded: bool) {
        self.ids.lock().is_stalled = !has_succeeded;
        self.changed.notify_waiters();
    }

    /// Run of `trial`, or of the job. Waits for it within `limits` unless MLflow is known not to respond.
    pub(crate) async fn wait(&self, trial: Option<TrialId>, limits: Limits) -> Option<String> {
        let limit = if self.ids.lock().parent.is_some() { limits.later } else { limits.first };
        let found = tokio::time::timeout(limit, async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                // Registers before the check, so that no change is missed.
                changed.as_mut().enable();
                if let Some(found) = self.known(trial) {
                    return found;
                }
                changed.await;
            }
        });
        found.await.unwrap_or_else(|_| {
            self.ids.lock().is_stalled = true;
            None
        })
    }

    /// The run, if known; the inner value is `None` if waiting is useless.
    #[expect(clippy::option_option, reason = "unknown differs from known to be absent")]
    fn known(&self, trial: Option<TrialId>) -> Option<Option<String>> {
        let ids = self.ids.lock();
        let run = match trial {
            Some(trial) => ids.trials.get(&trial),
            None => ids.parent.as_ref(),
        };
        match run {
            Some(run) => Some(Some(run.clone())),
            None => ids.is_stalled.then_some(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_program_waits_for_its_run_once_and_no_longer_after_a_failure() {
        let ids = Arc::new(RunIds::default());
        let limits = Limits { first: Duration::from_secs(15), later: Duration::from_secs(5) };
        ids.set_parent("p");
        let waiting = tokio::spawn({
            let ids = Arc::clone(&ids);
            async move { ids.wait(Some(TrialId(1)), limits).await }
        });
        tokio::task::yield_now().await;
        ids.set_trial(TrialId(1), "a");
        assert_eq!(waiting.await.unwrap().as_deref(), Some("a"));
        let start = tokio::time::Instant::now();
        assert_eq!(ids.wait(Some(TrialId(2)), limits).await, None);
        assert_eq!(start.elapsed(), limits.later);
        assert_eq!(ids.wait(Some(TrialId(3)), limits).await, None);
        assert_eq!(start.elapsed(), limits.later, "no program waits for a server that did not respond");
        ids.note_pass(true);
        assert_eq!(ids.wait(None, limits).await.as_deref(), Some("p"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_programs_of_a_job_wait_longer() {
        let limits = Limits { first: Duration::from_secs(15), later: Duration::from_secs(5) };
        let start = tokio::time::Instant::now();
        assert_eq!(RunIds::default().wait(Some(TrialId(1)), limits).await, None);
        assert_eq!(start.elapsed(), limits.first);
    }
}
