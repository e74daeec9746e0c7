//! Notices between servers, by LISTEN and NOTIFY. They are hints: each server also looks by itself, at longer intervals.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::{broadcast, watch};

use super::Core;
use crate::sharing::Notice;
use tunesmith_domain::{StudyId, TrialId};

/// The channel of all notices of a database.
pub(super) const CHANNEL: &str = "tunesmith_jobs";

/// The pause before a lost connection is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// The channel of notices about trials. Its payloads are a study and the number of a trial.
pub(super) const MEASUREMENTS: &str = "tunesmith_measurements";

/// The channel of notices that a trial has ended, so that another one may run within the limits.
pub(super) const TRIALS: &str = "tunesmith_trials";

/// The channel of requests between servers. The payload is the server that is asked.
pub(super) const ASKED: &str = "tunesmith_asked";

/// The channel of answers. The payload is the server that has asked, and the number of its request.
pub(super) const ANSWERED: &str = "tunesmith_answered";

/// Number of notices about trials that are kept for a slow receiver. It reads everything again if it has missed some.
const KEPT: usize = 256;

/// The receivers of notices.
#[derive(Debug)]
pub(super) struct Notices {
    /// Counts the notices about jobs, and the times that some may have been missed.
    pub(super) jobs: watch::Receiver<u64>,
    /// Sends the other ones.
    pub(super) others: broadcast::Sender<Notice>,
    /// Counts the requests to this server, and the times that some may have been missed.
    pub(super) asked: watch::Receiver<u64>,
    /// Sends the numbers of answered requests of this server.
    pub(super) answered: broadcast::Sender<u64>,
}

/// Listens to the notices of other servers to the server `own` until the returned receivers are dropped.
pub(super) fn listen(core: &Arc<Core>, own: String) -> Notices {
    let (counts, jobs) = watch::channel(0_u64);
    let others = broadcast::Sender::new(KEPT);
    let (requests, asked) = watch::channel(0_u64);
    let answered = broadcast::Sender::new(KEPT);
    let notices = Notices { jobs, others: others.clone(), asked, answered: answered.clone() };
    let options = core.sessions.options();
    core.runtime.spawn(async move {
        // The listener takes its connection from a pool.
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
        // Without a receiver, the notice is not needed.
        let send = |notice| drop(others.send(notice));
        while !counts.is_closed() {
            let listening = async {
                let mut listener = PgListener::connect_with(&pool).await?;
                listener.listen_all([CHANNEL, MEASUREMENTS, TRIALS, ASKED, ANSWERED]).await?;
                counts.send_modify(|count| *count += 1);
                requests.send_modify(|count| *count += 1);
                send(Notice::Missed);
                while let Some(notice) = listener.try_recv().await? {
                    match notice.channel() {
                        MEASUREMENTS => send(measured(notice.payload()).unwrap_or(Notice::Missed)),
                        TRIALS => send(Notice::TrialEnded),
                        ASKED if notice.payload() == own => requests.send_modify(|count| *count += 1),
                        ANSWERED => drop(answer_to(&own, notice.payload()).map(|id| answered.send(id))),
                        ASKED => {}
                        _ => counts.send_modify(|count| *count += 1),
                    }
                }
                Ok::<_, sqlx::Error>(())
            };
            tokio::select! {
                _ = listening => tokio::time::sleep(PAUSE).await,
                () = counts.closed() => {}
            }
        }
    });
    notices
}

/// The payload of a notice of measurements.
pub(super) fn payload(study: &StudyId, trial: TrialId) -> String {
    format!("{study} {trial}")
}

/// The number of the answered request, if the server `own` has made it.
fn answer_to(own: &str, payload: &str) -> Option<u64> {
    let (asker, id) = payload.split_once(' ')?;
    id.parse().ok().filter(|_| asker == own)
}

fn measured(payload: &str) -> Option<Notice> {
    let (study, trial) = payload.rsplit_once(' ')?;
    Some(Notice::Measured(study.parse().ok()?, TrialId(trial.parse().ok()?)))
}
