//! Notifications between servers, by LISTEN and NOTIFY. They are hints: each server also polls, at longer intervals.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::{broadcast, watch};

use super::Core;
use crate::sharing::Notice;
use tunesmith_domain::{StudyId, TrialId};

/// Channel of notices about jobs.
pub(super) const CHANNEL: &str = "tunesmith_jobs";

const PAUSE: Duration = Duration::from_secs(1);

/// Channel of notices about measurements. The payload is a study and a trial number.
pub(super) const MEASUREMENTS: &str = "tunesmith_measurements";

/// Channel of notices that a trial has ended, making room within the limits.
pub(super) const TRIALS: &str = "tunesmith_trials";

/// Channel of requests between servers. The payload is the recipient.
pub(super) const ASKED: &str = "tunesmith_asked";

/// Channel of responses. The payload is the requesting server and its request number.
pub(super) const ANSWERED: &str = "tunesmith_answered";

/// Notices buffered for a slow receiver, which rereads everything after an overflow.
const KEPT: usize = 256;

#[derive(Debug)]
pub(super) struct Notices {
    /// Counts notices about jobs and possible losses.
    pub(super) jobs: watch::Receiver<u64>,
    pub(super) others: broadcast::Sender<Notice>,
    /// Counts requests to this server and possible losses.
    pub(super) asked: watch::Receiver<u64>,
    /// Sends the numbers of this server's answered requests.
    pub(super) answered: broadcast::Sender<u64>,
}

/// Listens for notices to the server `own` until the returned receivers are dropped.
pub(super) fn listen(core: &Arc<Core>, own: String) -> Notices {
    let (counts, jobs) = watch::channel(0_u64);
    let others = broadcast::Sender::new(KEPT);
    let (requests, asked) = watch::channel(0_u64);
    let answered = broadcast::Sender::new(KEPT);
    let notices = Notices { jobs, others: others.clone(), asked, answered: answered.clone() };
    let options = core.sessions.options();
    core.runtime.spawn(async move {
        // The listener obtains its connection from a pool.
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
        // Without a receiver, the notice is irrelevant.
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

pub(super) fn payload(study: &StudyId, trial: TrialId) -> String {
    format!("{study} {trial}")
}

/// Number of the answered request, if made by the server `own`.
fn answer_to(own: &str, payload: &str) -> Option<u64> {
    let (asker, id) = payload.split_once(' ')?;
    id.parse().ok().filter(|_| asker == own)
}

fn measured(payload: &str) -> Option<Notice> {
    let (study, trial) = payload.rsplit_once(' ')?;
    Some(Notice::Measured(study.parse().ok()?, TrialId(trial.parse().ok()?)))
}
