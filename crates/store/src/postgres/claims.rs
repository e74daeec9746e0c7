//! Job ownership: rows of the table `claims`, with leases on the database's clock.
//!
//! A lease begins at `clock_timestamp()`, evaluated once the row is locked. `now()` is the start of the transaction: a claim
//! that waited for a transaction of the former owner would be granted with an expired lease.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{broadcast, watch};

use super::PostgresStore;
use super::notifications::{self, CHANNEL, MEASUREMENTS, Notices};
use super::records::statement;
use crate::record::RecordError;
use crate::sharing::{Claim, JobClaims, JobOwner, Notice, QueuedJobs, Renewal};
use crate::sql::{Row, number, values};
use crate::{Store, StoreError};
use tunesmith_domain::{IdError, JobId, StudyId, TrialId};

/// Renewals per lease; two may fail.
const RENEWALS: u32 = 3;

/// Claims of one of several servers on a [`PostgresStore`].
#[derive(Debug)]
pub struct PostgresClaims {
    pub(super) store: Arc<PostgresStore>,
    pub(super) owner: String,
    owner_name: String,
    lease: Duration,
    pub(super) notices: Notices,
}

impl PostgresClaims {
    /// Claims of the server `owner`, an ID that survives restarts, displayed as `owner_name`. An unrenewed claim
    /// expires after `lease`.
    pub fn new(store: Arc<PostgresStore>, owner: String, owner_name: String, lease: Duration) -> Self {
        let notices = super::notifications::listen(&store.core, owner.clone());
        Self { store, owner, owner_name, lease, notices }
    }

    pub(super) fn lease_millis(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }

    pub(super) fn job(&self, text: &str) -> Result<JobId, StoreError> {
        text.parse().map_err(|error: IdError| {
            RecordError::Malformed { detail: error.to_string() }.of(&self.store.core.place, &format!("job {text}"))
        })
    }
}

#[async_trait]
impl JobClaims for PostgresClaims {
    fn interval(&self) -> Option<Duration> {
        Some(self.lease / RENEWALS)
    }

    async fn claim(&self, id: &JobId) -> Result<Option<Claim>, StoreError> {
        let sql = "WITH former AS (SELECT owner FROM claims WHERE job = $1),
                   claimed AS (
                       INSERT INTO claims (job, owner, owner_name, fence, until)
                       VALUES ($1, $2, $3, nextval('fences'), clock_timestamp() + $4 * interval '1 millisecond')
                       ON CONFLICT (job) DO UPDATE
                       SET owner = excluded.owner, owner_name = excluded.owner_name, fence = excluded.fence,
                           until = clock_timestamp() + $4 * interval '1 millisecond'
                       WHERE claims.owner = excluded.owner OR claims.until <= now()
                       RETURNING fence
                   ),
                   noted AS (
                       INSERT INTO job_folders (server, job) SELECT $2, $1 FROM claimed ON CONFLICT DO NOTHING
                   )
                   SELECT fence, coalesce((SELECT owner <> $2 FROM former), false),
                       coalesce((SELECT is_deleted FROM job_folders WHERE server = $2 AND job = $1), false)
                   FROM claimed";
        let values = values![id, self.owner.clone(), self.owner_name.clone(), self.lease_millis()];
        let claims = self.store.core.rows("claim a job", sql, values, |row| {
            let (fence, is_taken_over) = (row.number(0)?.cast_unsigned(), row.get(1)?);
            Ok(Claim { job: id.clone(), fence, is_taken_over, has_old_folder: row.get(2)? })
        });
        Ok(claims.await?.pop())
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>, StoreError> {
        let jobs: Vec<String> = claims.iter().map(|claim| claim.job.as_str().to_owned()).collect();
        let fences: Vec<i64> = claims.iter().map(|claim| number(claim.fence)).collect();
        let sql = "UPDATE claims SET until = clock_timestamp() + $1 * interval '1 millisecond'
                   FROM (
                       SELECT job, fence
                       FROM claims JOIN unnest($2::text[], $3::bigint[]) AS own (job, fence) USING (job, fence)
                       FOR UPDATE OF claims
                   ) AS held
                   WHERE claims.job = held.job AND claims.fence = held.fence
                   RETURNING claims.job, (SELECT state FROM jobs WHERE jobs.id = claims.job)";
        let statement = || statement(sql, values![self.lease_millis()]).bind(jobs.clone()).bind(fences.clone());
        let kept = self
            .store
            .core
            .rows_of("renew the claims of jobs", statement, |row| Ok((row.text(0)?, row.get::<Option<String>>(1)?)));
        let kept: HashMap<String, Option<String>> = kept.await?.into_iter().collect();
        let renewals = claims.iter().map(|claim| {
            let state = kept.get(claim.job.as_str()).and_then(|state| state.as_deref()?.parse().ok());
            Renewal { job: claim.job.clone(), state }
        });
        Ok(renewals.collect())
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let sql = "UPDATE claims SET until = now() WHERE job = $1 AND fence = $2";
        let values = values![&claim.job, claim.fence];
        self.store.core.execute("release a job", sql, values).await.map(drop)
    }

    async fn available(&self) -> Result<Vec<JobId>, StoreError> {
        let sql = "SELECT jobs.id FROM jobs LEFT JOIN claims ON claims.job = jobs.id
                   WHERE jobs.state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')
                       AND (claims.job IS NULL OR claims.until <= now() OR claims.owner = $1)
                   ORDER BY jobs.id";
        let ids = self.store.core.rows("find jobs to run", sql, values![self.owner.clone()], |row| row.text(0));
        ids.await?.iter().map(|id| self.job(id)).collect()
    }

    async fn owner(&self, id: &JobId) -> Result<Option<JobOwner>, StoreError> {
        let sql = "SELECT owner_name, owner = $2, until > now() FROM claims WHERE job = $1";
        let values = values![id, self.owner.clone()];
        let owner = self.store.core.rows("read the owner of a job", sql, values, |row| {
            Ok(JobOwner { name: row.text(0)?, is_self: row.get(1)?, is_current: row.get(2)? })
        });
        Ok(owner.await?.pop())
    }

    async fn deleted(&self) -> Result<Vec<JobId>, StoreError> {
        let sql = "SELECT job FROM job_folders WHERE server = $1 AND is_deleted ORDER BY job";
        let values = values![self.owner.clone()];
        let ids = self.store.core.rows("find the folders of deleted jobs", sql, values, |row| row.text(0));
        ids.await?.iter().map(|id| self.job(id)).collect()
    }

    async fn removed(&self, id: &JobId) -> Result<(), StoreError> {
        // A namesake claimed by this server has a folder again.
        let sql = "WITH kept AS (
                       UPDATE job_folders SET is_deleted = false
                       WHERE server = $1 AND job = $2 AND is_deleted AND EXISTS (SELECT FROM jobs WHERE id = $2)
                   )
                   DELETE FROM job_folders
                   WHERE server = $1 AND job = $2 AND is_deleted AND NOT EXISTS (SELECT FROM jobs WHERE id = $2)";
        let values = values![self.owner.clone(), id];
        self.store.core.execute("note the removal of a folder", sql, values).await.map(drop)
    }

    fn store_of(&self, claim: &Claim) -> Arc<dyn Store> {
        Arc::new(self.store.fenced(claim.clone()))
    }

    async fn announce(&self) {
        // Otherwise discovered at the next renewal.
        drop(self.store.core.execute("notify other servers", "SELECT pg_notify($1, '')", values![CHANNEL]).await);
    }

    fn announcements(&self) -> watch::Receiver<u64> {
        self.notices.jobs.clone()
    }

    async fn queued(&self) -> Result<Option<QueuedJobs>, StoreError> {
        self.queued_jobs().await.map(Some)
    }

    async fn announce_measurements(&self, study: &StudyId, trial: TrialId) {
        let values = values![MEASUREMENTS, notifications::payload(study, trial)];
        // Otherwise it reads the measurements at its next renewal.
        drop(self.store.core.execute("notify another server", "SELECT pg_notify($1, $2)", values).await);
    }

    fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.others.subscribe()
    }
}
