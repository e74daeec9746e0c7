//! Leases of trials: silent clients lose their trials to others.
//!
//! Clients can renew only while a server responds, so leases that expire during an outage are renewed, giving clients
//! time to report. With several servers, another one may have been available, so they share a record of the last
//! response ([`Presence`]). Every server checks the leases of all studies; conflicting changes by another server are
//! ignored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use super::{ReportedOutcome, Studies, StudiesError, TrialRef};
use tunesmith_domain::{Lease, StudyId, Trial, TrialChange, TrialState};
use tunesmith_store::{Documents, OptionalExtension, StoreError};
use tunesmith_telemetry::telemetry;

const PAGE: usize = 1000;

/// Document touched by servers that are responding.
const DOCUMENT: (&str, &str) = ("presence", "any");

/// Minimum interval between touches of the document.
const TOUCH_AGE: Duration = Duration::from_secs(1);

/// Document age that indicates an outage: several times [`TOUCH_AGE`] and the check interval.
const ABSENCE: Duration = Duration::from_secs(5);

/// Last response to a request by any server on the store.
pub(super) enum Presence {
    /// Single server; true if it has responded since the last check.
    Alone(AtomicBool),
    /// One of several servers sharing these documents.
    OfServers(Arc<dyn Documents>),
}

impl Default for Presence {
    fn default() -> Self {
        Self::Alone(AtomicBool::new(false))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absence {
    /// Known duration.
    Since(Duration),
    /// Unknown start.
    Unknown,
}

impl Presence {
    pub(super) fn of_servers(documents: Arc<dyn Documents>) -> Self {
        Self::OfServers(documents)
    }

    /// The outage that ends now, if any.
    async fn absence(&self) -> Result<Option<Absence>, StoreError> {
        match self {
            Self::Alone(was_present) => Ok((!was_present.load(Ordering::Relaxed)).then_some(Absence::Unknown)),
            Self::OfServers(documents) => Ok(match age(&**documents).await? {
                None => Some(Absence::Unknown),
                Some(age) => (age > ABSENCE).then_some(Absence::Since(age)),
            }),
        }
    }

    /// Records that this server responds.
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

    fn note_failure(&self) {
        if let Self::Alone(was_present) = self {
            was_present.store(false, Ordering::Relaxed);
        }
    }
}

/// Time since the document was last touched.
async fn age(documents: &dyn Documents) -> Result<Option<Duration>, StoreError> {
    let listed = documents.list(DOCUMENT.0).await?;
    Ok(listed.into_iter().find(|(name, ..)| name == DOCUMENT.1).map(|(_, _, age)| age))
}

impl Studies {
    /// Reclaims trials with expired leases, and returns their number. After an outage, first renews leases that expired
    /// during it. Call before the first request, and regularly.
    ///
    /// # Errors
    /// [`StudiesError::Store`] if the store does not respond. Failures of single trials are logged and retried by the
    /// next call.
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

    /// Reclaims trials with expired leases, and returns their number.
    pub(super) async fn sweep(&self) -> Result<u64, StudiesError> {
        let mut swept = 0;
        loop {
            let now = self.clock.steady();
            let overdue = self.store.overdue_trials(now, PAGE).await?;
            let is_last = overdue.len() < PAGE;
            let mut is_complete = true;
            for (study, trial) in overdue {
                match self.expire(&study, &trial, now).await {
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

    /// Renews leases that expired during `absence`. An outage with an unknown start covers all expired leases, and
    /// those starting in the future, which were measured with a previous process's clock.
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
                // The client or another server won the race.
                Err(StoreError::Refused(_) | StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reclaims `trial`, or completes it if it was being stopped; returns whether it did.
    async fn expire(&self, id: &StudyId, trial: &Trial, now: Timestamp) -> Result<bool, StudiesError> {
        if trial.state != TrialState::Stopping {
            let expire = TrialChange::Expire { attempt: trial.attempt, at: now };
            return match self.store.change_trial(id, trial.id, expire).await {
                Ok(after) if after.state == TrialState::Requested && after.attempt == trial.attempt => {
                    tracing::info!(study.name = %id, trial.id = %trial.id, client = trial.client_id, "a lease expired");
                    telemetry().leases_expired.inc();
                    Ok(true)
                }
                // The client or another server won the race.
                Ok(_) | Err(StoreError::Refused(_) | StoreError::NotFound { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
        // A silent owner of a stopping trial: the measurements give the result.
        let Some(study) = self.store.study(id).await.optional()? else { return Ok(false) };
        let key = TrialRef { study: id.clone(), trial: trial.id, attempt: Some(trial.attempt) };
        match self.complete_as_owner(&study, &key, trial.clone(), ReportedOutcome::FromCurve).await {
            Ok(_) => {
                tracing::info!(study.name = %id, trial.id = %trial.id, client = trial.client_id, "a stopped trial ended");
                Ok(true)
            }
            // Completed by its owner meanwhile.
            Err(StudiesError::Store(StoreError::Refused(_) | StoreError::NotFound { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether the whole store is unavailable, so that no other trial can be changed either.
fn is_outage(error: &StudiesError) -> bool {
    matches!(error, StudiesError::Store(error @ (StoreError::NotApplied { .. } | StoreError::Unknown { .. })) if error.fault().is_some())
}

#[cfg(test)]
mod tests;
