//! The owners of jobs: rows of the table `claims`, whose leases end by the clock of the database.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use sqlx::Row;
use sqlx::postgres::PgRow;
use tokio::sync::{broadcast, watch};

use super::PostgresStore;
use super::notifications::{self, Notices};
use super::records::number;
use crate::record::RecordError;
use crate::sharing::{Claim, JobClaims, JobOwner, Notice, QueuedJobs, Renewal};
use crate::{Store, StoreError};
use tunesmith_domain::{IdError, JobId, StudyId, TrialId};

/// The number of renewals in one lease: two may fail.
const RENEWALS: u32 = 3;

/// The claims of one of several servers on a [`PostgresStore`].
#[derive(Debug)]
pub struct PostgresClaims {
    pub(super) store: Arc<PostgresStore>,
    pub(super) owner: String,
    owner_name: String,
    lease: Duration,
    pub(super) notices: Notices,
}

impl PostgresClaims {
    /// The claims of the server `owner`, an ID that it keeps when it starts again, with `owner_name` for people. A claim
    /// that is not renewed ends after `lease`.
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
                       VALUES ($1, $2, $3, nextval('fences'), now() + $4 * interval '1 millisecond')
                       ON CONFLICT (job) DO UPDATE
                       SET owner = excluded.owner, owner_name = excluded.owner_name, fence = excluded.fence,
                           until = excluded.until
                       WHERE claims.owner = excluded.owner OR claims.until <= now()
                       RETURNING fence
                   ),
                   noted AS (
                       INSERT INTO job_folders (server, job) SELECT $2, $1 FROM claimed ON CONFLICT DO NOTHING
                   )
                   SELECT fence, coalesce((SELECT owner <> $2 FROM former), false),
                       coalesce((SELECT is_deleted FROM job_folders WHERE server = $2 AND job = $1), false)
                   FROM claimed";
        let row = self.store.core.autocommit("claim a job", |connection| {
            let query = sqlx::query(sql)
                .bind(id.as_str().to_owned())
                .bind(self.owner.clone())
                .bind(self.owner_name.clone())
                .bind(self.lease_millis());
            async move { query.fetch_optional(connection).await }.boxed()
        });
        let read = |row: PgRow| {
            let fence = row.try_get::<i64, _>(0)?.cast_unsigned();
            Ok(Claim { job: id.clone(), fence, is_taken_over: row.try_get(1)?, has_old_folder: row.try_get(2)? })
        };
        row.await?.map(read).transpose().map_err(|source| self.store.core.not_applied("claim a job", source))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>, StoreError> {
        let jobs: Vec<String> = claims.iter().map(|claim| claim.job.as_str().to_owned()).collect();
        let fences: Vec<i64> = claims.iter().map(|claim| number(claim.fence)).collect();
        let sql = "UPDATE claims SET until = now() + $3 * interval '1 millisecond'
                   FROM unnest($1::text[], $2::bigint[]) AS own (job, fence)
                   WHERE claims.job = own.job AND claims.fence = own.fence
                   RETURNING claims.job, (SELECT state FROM jobs WHERE jobs.id = claims.job)";
        let rows = self.store.core.autocommit("renew the claims of jobs", |connection| {
            let query = sqlx::query(sql).bind(jobs.clone()).bind(fences.clone()).bind(self.lease_millis());
            async move { query.fetch_all(connection).await }.boxed()
        });
        let mut kept = std::collections::HashMap::new();
        for row in rows.await? {
            let read = || Ok((row.try_get::<String, _>(0)?, row.try_get::<Option<String>, _>(1)?));
            let (job, state) =
                read().map_err(|source| self.store.core.not_applied("renew the claims of jobs", source))?;
            kept.insert(job, state);
        }
        let renewals = claims.iter().map(|claim| {
            let state = kept.get(claim.job.as_str()).and_then(|state| state.as_deref()?.parse().ok());
            Renewal { job: claim.job.clone(), state }
        });
        Ok(renewals.collect())
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let sql = "UPDATE claims SET until = now() WHERE job = $1 AND fence = $2";
        let done = self.store.core.autocommit("release a job", |connection| {
            let query = sqlx::query(sql).bind(claim.job.as_str().to_owned()).bind(number(claim.fence));
            async move { query.execute(connection).await }.boxed()
        });
        done.await.map(|_| ())
    }

    async fn available(&self) -> Result<Vec<JobId>, StoreError> {
        let sql = "SELECT jobs.id FROM jobs LEFT JOIN claims ON claims.job = jobs.id
                   WHERE jobs.state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')
                       AND (claims.job IS NULL OR claims.until <= now() OR claims.owner = $1)
                   ORDER BY jobs.id";
        let rows = self.store.core.autocommit("find jobs to run", |connection| {
            let query = sqlx::query(sql).bind(self.owner.clone());
            async move { query.fetch_all(connection).await }.boxed()
        });
        let read = |row: PgRow| row.try_get::<String, _>(0);
        let ids: Result<Vec<String>, _> = rows.await?.into_iter().map(read).collect();
        let ids = ids.map_err(|source| self.store.core.not_applied("find jobs to run", source))?;
        ids.iter().map(|id| self.job(id)).collect()
    }

    async fn owner(&self, id: &JobId) -> Result<Option<JobOwner>, StoreError> {
        let sql = "SELECT owner_name, owner = $2, until > now() FROM claims WHERE job = $1";
        let row = self.store.core.autocommit("read the owner of a job", |connection| {
            let query = sqlx::query(sql).bind(id.as_str().to_owned()).bind(self.owner.clone());
            async move { query.fetch_optional(connection).await }.boxed()
        });
        let read =
            |row: PgRow| Ok(JobOwner { name: row.try_get(0)?, is_self: row.try_get(1)?, is_current: row.try_get(2)? });
        row.await?
            .map(read)
            .transpose()
            .map_err(|source| self.store.core.not_applied("read the owner of a job", source))
    }

    async fn deleted(&self) -> Result<Vec<JobId>, StoreError> {
        let sql = "SELECT job FROM job_folders WHERE server = $1 AND is_deleted ORDER BY job";
        let rows = self.store.core.autocommit("find the folders of deleted jobs", |connection| {
            let query = sqlx::query(sql).bind(self.owner.clone());
            let read = |row: &PgRow| row.try_get::<String, _>(0);
            async move { query.fetch_all(connection).await?.iter().map(read).collect::<Result<Vec<_>, _>>() }.boxed()
        });
        rows.await?.iter().map(|id| self.job(id)).collect()
    }

    async fn removed(&self, id: &JobId) -> Result<(), StoreError> {
        // A new job of that name, which this server has claimed, has a folder again.
        let sql = "WITH kept AS (
                       UPDATE job_folders SET is_deleted = false
                       WHERE server = $1 AND job = $2 AND is_deleted AND EXISTS (SELECT FROM jobs WHERE id = $2)
                   )
                   DELETE FROM job_folders
                   WHERE server = $1 AND job = $2 AND is_deleted AND NOT EXISTS (SELECT FROM jobs WHERE id = $2)";
        let done = self.store.core.autocommit("note the removal of a folder", |connection| {
            let query = sqlx::query(sql).bind(self.owner.clone()).bind(id.as_str().to_owned());
            async move { query.execute(connection).await }.boxed()
        });
        done.await.map(|_| ())
    }

    fn store_of(&self, claim: &Claim) -> Arc<dyn Store> {
        Arc::new(self.store.fenced(claim.clone()))
    }

    async fn announce(&self) {
        let sent = self.store.core.autocommit("notify other servers", |connection| {
            let query = sqlx::query("SELECT pg_notify($1, '')").bind(super::notifications::CHANNEL);
            async move { query.execute(connection).await }.boxed()
        });
        // They find the job at their next renewal.
        drop(sent.await);
    }

    fn announcements(&self) -> watch::Receiver<u64> {
        self.notices.jobs.clone()
    }

    async fn queued(&self) -> Result<Option<QueuedJobs>, StoreError> {
        self.queued_jobs().await.map(Some)
    }

    async fn announce_measurements(&self, study: &StudyId, trial: TrialId) {
        let payload = notifications::payload(study, trial);
        let sent = self.store.core.autocommit("notify another server", |connection| {
            let query = sqlx::query("SELECT pg_notify($1, $2)").bind(notifications::MEASUREMENTS).bind(payload.clone());
            async move { query.execute(connection).await }.boxed()
        });
        // It reads the measurements at its next renewal.
        drop(sent.await);
    }

    fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.others.subscribe()
    }
}
