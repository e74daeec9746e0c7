//! A queue of the cluster of these tests, as Kueue: it suspends new Jobs that name a queue, and admits them up to a quota.

use serde_json::Value;
use tokio::sync::watch;

use super::api_server::{ApiServer, Key};

/// The label of a Job with the name of its queue.
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

pub(super) struct Kueue {
    /// Number of Jobs that are admitted at once.
    quota: watch::Sender<usize>,
}

impl Kueue {
    /// Suspends the new Jobs of `server` that name a queue, and admits none yet.
    pub(super) fn start(server: &ApiServer) -> Self {
        server.admit_by(|plural, object| {
            if plural == "jobs" && is_queued(object) {
                object["spec"]["suspend"] = true.into();
            }
        });
        let quota = watch::Sender::new(0);
        tokio::spawn(run(server.clone(), quota.subscribe()));
        Self { quota }
    }

    /// Sets the number of Jobs that are admitted at once.
    pub(super) fn set_quota(&self, jobs: usize) {
        self.quota.send_replace(jobs);
    }
}

fn is_queued(job: &Value) -> bool {
    !job["metadata"]["labels"][QUEUE_LABEL].is_null()
}

/// Whether `job` waits in its queue; `None` for one without a queue, or that has ended.
fn waits(job: &Value) -> Option<bool> {
    (is_queued(job) && job["status"]["conditions"].is_null()).then(|| job["spec"]["suspend"] == true)
}

async fn run(server: ApiServer, mut quota: watch::Receiver<usize>) {
    let mut changes = server.changes();
    loop {
        changes.mark_unchanged();
        let quota_now = *quota.borrow_and_update();
        let open: Vec<(Key, bool)> = server.view("jobs", |key, job| Some((key.clone(), waits(job)?)));
        let admitted = open.iter().filter(|(_, waits)| !waits).count();
        let waiting = open.into_iter().filter(|(_, waits)| *waits);
        for (key, _) in waiting.take(quota_now.saturating_sub(admitted)) {
            server.change(&key, |job| job["spec"]["suspend"] = false.into());
        }
        let changed = tokio::select! {
            changed = changes.changed() => changed,
            changed = quota.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}
