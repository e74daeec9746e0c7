//! Leases of trials: trials whose clients are silent are given to others.
//!
//! A client can renew its lease only while a server answers. A lease that ended while none did is renewed: its client gets
//! the time to report. With several servers on one store, another server may have answered all along, so they record
//! together when one of them did last ([`Presence`]). Every server checks the leases of all studies; a trial that another
//! server has changed, completed or removed meanwhile needs nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use super::{ReportedOutcome, Studies, StudiesError, TrialRef};
use tunesmith_domain::{Lease, StudyId, Trial, TrialChange, TrialState};
use tunesmith_store::{Documents, StoreError};
use tunesmith_telemetry::telemetry;

/// Maximum number of overdue trials read at once.
const PAGE: usize = 1000;

/// The document that servers touch while they answer requests.
const DOCUMENT: (&str, &str) = ("presence", "any");

/// Age at which that document is touched again.
const TOUCH_AGE: Duration = Duration::from_secs(1);

/// Age of that document above which no server has answered: several times [`TOUCH_AGE`] and the interval of checks.
const ABSENCE: Duration = Duration::from_secs(5);

/// When requests were answered last, by this server or another one on the same store.
pub(super) enum Presence {
    /// The only server on the store; the value states whether it has answered since the last check.
    Alone(AtomicBool),
    /// One of several servers with these documents.
    OfServers(Arc<dyn Documents>),
}

impl Default for Presence {
    fn default() -> Self {
        Self::Alone(AtomicBool::new(false))
    }
}

/// A time in which no server has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absence {
    /// It began this long ago.
    Since(Duration),
    /// Its begin is not known.
    Unknown,
}

impl Presence {
    pub(super) fn of_servers(documents: Arc<dyn Documents>) -> Self {
        Self::OfServers(documents)
    }

    /// The absence that ends now, if there was one.
    async fn absence(&self) -> Result<Option<Absence>, StoreError> {
        match self {
            Self::Alone(was_present) => Ok((!was_present.load(Ordering::Relaxed)).then_some(Absence::Unknown)),
            Self::OfServers(documents) => Ok(match age(&**documents).await? {
                None => Some(Absence::Unknown),
                Some(age) => (age > ABSENCE).then_some(Absence::Since(age)),
            }),
        }
    }

    /// Records that this server answers requests.
    async fn note(&self) -> Result<(), StoreError> {
        match self {
            Self::Alone(was_present) => was_present.store(true, Ordering::Relaxed),
            Self::OfServers(documents) => {
                let (kind, name) = DOCUMENT;
                match age(&**documents).await? {
                    None => documents.put(kind, name, 0, Vec::new()).await?,
                    Some(age) if age >= TOUCH_AGE => drop(documents.touch(kind, name).await?),
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Records that the store did not answer this server.
    fn note_failure(&self) {
        if let Self::Alone(was_present) = self {
            was_present.store(false, Ordering::Relaxed);
        }
    }
}

/// The time since a server has touched the document.
async fn age(documents: &dyn Documents) -> Result<Option<Duration>, StoreError> {
    let listed = documents.list(DOCUMENT.0).await?;
    Ok(listed.into_iter().find(|(name, ..)| name == DOCUMENT.1).map(|(_, _, age)| age))
}

impl Studies {
    /// Takes trials back whose leases have ended, and returns their number. After a time in which no server answered, renews
    /// the leases that ended in it before. To be called before the first request, and regularly.
    ///
    /// # Errors
    /// [`StudiesError::Store`] if the store does not answer. A trial that cannot be changed for another reason is logged,
    /// and tried again by the next call.
    pub async fn check_leases(&self) -> Result<u64, StudiesError> {
        let checked = async {
            if let Some(absence) = self.presence.absence().await? {
                self.renew_leases(absence).await?;
            }
            self.presence.note().await?;
            self.sweep().await
        };
        let checked = checked.await;
        if checked.is_err() {
            self.presence.note_failure();
        }
        checked
    }

    /// Takes trials back whose leases have ended, and returns their number.
    pub(super) async fn sweep(&self) -> Result<u64, StudiesError> {
        let mut swept = 0;
        loop {
            let now = self.clock.steady();
            let overdue = self.store.overdue_trials(now, PAGE).await?;
            let is_last = overdue.len() < PAGE;
            let mut is_complete = true;
            for (study, trial) in overdue {
                match self.take_back(&study, &trial, now).await {
                    Ok(true) => swept += 1,
                    Ok(false) => {}
                    Err(error) if is_outage(&error) => return Err(error),
                    Err(error) => {
                        is_complete = false;
                        let error = &error as &dyn std::error::Error;
                        tracing::error!(study.name = %study, trial.id = %trial.id, error, "a lease could not be ended");
                    }
                }
            }
            if is_last || !is_complete {
                return Ok(swept);
            }
        }
    }

    /// Gives trials new leases whose leases have ended in `absence`. An absence of unknown begin includes all that have
    /// ended, and those that begin in the future: they were measured with the clock of a former process.
    async fn renew_leases(&self, absence: Absence) -> Result<(), StudiesError> {
        let now = self.clock.steady();
        let begin = match absence {
            Absence::Since(age) => now.checked_sub(age).unwrap_or(Timestamp::MIN),
            Absence::Unknown => Timestamp::MIN,
        };
        for (study, trial) in self.store.overdue_trials(Timestamp::MAX, usize::MAX).await? {
            let Some(lease) = trial.lease else { continue };
            let is_plausible = now < lease.deadline && lease.deadline <= Lease::starting(lease.duration, now).deadline;
            if is_plausible || lease.deadline < begin {
                continue;
            }
            let renew = TrialChange::Renew { attempt: trial.attempt, at: now };
            match self.store.change_trial(&study, trial.id, renew).await {
                Ok(_) => {}
                // Its client, or another server, was faster.
                Err(StoreError::Refused(_) | StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes `trial` back, or completes it if its client was asked to stop, and returns whether it did.
    async fn take_back(&self, id: &StudyId, trial: &Trial, now: Timestamp) -> Result<bool, StudiesError> {
        if trial.state != TrialState::Stopping {
            let expire = TrialChange::Expire { attempt: trial.attempt, at: now };
            return match self.store.change_trial(id, trial.id, expire).await {
                Ok(after) if after.state == TrialState::Requested && after.attempt == trial.attempt => {
                    tracing::info!(study.name = %id, trial.id = %trial.id, client = trial.client_id, "a lease expired");
                    telemetry().leases_expired.inc();
                    Ok(true)
                }
                // Its client or another server was faster.
                Ok(_) | Err(StoreError::Refused(_) | StoreError::NotFound { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
        // Its owner was requested to stop and is silent: its measurements are its result.
        let study = match self.store.study(id).await {
            Err(StoreError::NotFound { .. }) => return Ok(false),
            study => study?,
        };
        let key = TrialRef { study: id.clone(), trial: trial.id, attempt: Some(trial.attempt) };
        match self.complete_as_owner(&study, &key, trial.clone(), ReportedOutcome::FromCurve).await {
            Ok(_) => {
                tracing::info!(study.name = %id, trial.id = %trial.id, client = trial.client_id, "a stopped trial ended");
                Ok(true)
            }
            // Its owner completed it meanwhile.
            Err(StudiesError::Store(StoreError::Refused(_) | StoreError::NotFound { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether the store as a whole does not answer, so that no other trial can be changed either.
fn is_outage(error: &StudiesError) -> bool {
    matches!(error, StudiesError::Store(error @ (StoreError::NotApplied { .. } | StoreError::Unknown { .. })) if error.fault().is_some())
}

#[cfg(test)]
mod tests;
