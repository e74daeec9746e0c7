//! The trials that run on all servers, and the jobs that wait, for the limits on both.
//!
//! Each server has a row for each of its running trials, with a lease that it renews for all of them at once. The rows of a
//! server that dies end with their leases.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, Row};

use super::PostgresClaims;
use super::notifications::TRIALS;
use super::records::{PostgresRecords, job_row, number};
use super::sessions::within;
use crate::StoreError;
use crate::sharing::{Admission, Admits, QueuedJobs, RunningTrial, RunningTrials};
use tunesmith_domain::{IdError, Job, JobId};

/// The key of the advisory lock that is held while running trials are counted: `TnRt`.
const TRIALS_LOCK: i64 = 0x546e_5274;

/// The key of the advisory lock that is held while queued jobs are counted and one is added: `TnQj`.
const QUEUE_LOCK: i64 = 0x546e_516a;

/// The trials of servers that ended longer ago are removed.
const RETENTION: &str = "1 hour";

/// Reads the columns `job, principal`.
fn running_trial(row: &PgRow) -> Result<RunningTrial, sqlx::Error> {
    let job: JobId = row.try_get::<&str, _>(0)?.parse().map_err(|error: IdError| sqlx::Error::Decode(error.into()))?;
    Ok(RunningTrial { job, principal: row.try_get(1)? })
}

#[async_trait]
impl RunningTrials for PostgresClaims {
    async fn admit(&self, ticket: u64, trial: &RunningTrial, admits: Admits) -> Result<Admission, StoreError> {
        let lease = self.lease_millis();
        let admission = self.store.core.autocommit("count the running trials", |connection| {
            let (server, trial, admits) = (self.owner.clone(), trial.clone(), Arc::clone(&admits));
            async move {
                let mut transaction = connection.begin().await?;
                sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(TRIALS_LOCK).execute(&mut *transaction).await?;
                let sql = "SELECT job, principal, server = $1 FROM running_trials
                           WHERE until > now() AND NOT (server = $1 AND ticket = $2)";
                let query = sqlx::query(sql).bind(server.clone()).bind(number(ticket));
                let (mut running, mut others) = (Vec::new(), Vec::new());
                for row in query.fetch_all(&mut *transaction).await? {
                    let other = running_trial(&row)?;
                    if !row.try_get::<bool, _>(2)? {
                        others.push(other.clone());
                    }
                    running.push(other);
                }
                let is_admitted = admits(&running);
                if is_admitted {
                    let sql = "INSERT INTO running_trials (server, ticket, job, principal, until)
                               VALUES ($1, $2, $3, $4, now() + $5 * interval '1 millisecond')
                               ON CONFLICT (server, ticket) DO UPDATE
                               SET job = excluded.job, principal = excluded.principal, until = excluded.until";
                    let insert = sqlx::query(sql).bind(server).bind(number(ticket));
                    let insert = insert.bind(trial.job.as_str().to_owned()).bind(trial.principal).bind(lease);
                    insert.execute(&mut *transaction).await?;
                }
                transaction.commit().await?;
                Ok(Admission { is_admitted, others })
            }
            .boxed()
        });
        admission.await
    }

    async fn renew(&self, held: &[(u64, RunningTrial)]) -> Result<Vec<RunningTrial>, StoreError> {
        let tickets: Vec<i64> = held.iter().map(|(ticket, _)| number(*ticket)).collect();
        let jobs: Vec<String> = held.iter().map(|(_, trial)| trial.job.as_str().to_owned()).collect();
        let principals: Vec<Option<String>> = held.iter().map(|(_, trial)| trial.principal.clone()).collect();
        let sql = format!(
            "WITH own AS (
                 SELECT * FROM unnest($2::bigint[], $3::text[], $4::text[]) AS own (ticket, job, principal)
             ), gone AS (
                 DELETE FROM running_trials WHERE until < now() - interval '{RETENTION}'
                     OR server = $1 AND ticket NOT IN (SELECT ticket FROM own)
             ), kept AS (
                 INSERT INTO running_trials (server, ticket, job, principal, until)
                 SELECT $1, ticket, job, principal, now() + $5 * interval '1 millisecond' FROM own
                 ON CONFLICT (server, ticket) DO UPDATE
                 SET job = excluded.job, principal = excluded.principal, until = excluded.until
             )
             SELECT job, principal FROM running_trials WHERE server <> $1 AND until > now()"
        );
        let rows = self.store.core.autocommit("renew the running trials", |connection| {
            let query = sqlx::query(sqlx::AssertSqlSafe(sql.clone()))
                .bind(self.owner.clone())
                .bind(tickets.clone())
                .bind(jobs.clone())
                .bind(principals.clone())
                .bind(self.lease_millis());
            async move { query.fetch_all(connection).await?.iter().map(running_trial).collect() }.boxed()
        });
        rows.await
    }

    async fn release(&self, ticket: u64) -> Result<(), StoreError> {
        let sql = "WITH gone AS (DELETE FROM running_trials WHERE server = $1 AND ticket = $2 RETURNING ticket)
                   SELECT pg_notify($3, '') FROM gone";
        let done = self.store.core.autocommit("release a running trial", |connection| {
            let query = sqlx::query(sql).bind(self.owner.clone()).bind(number(ticket)).bind(TRIALS);
            async move { query.execute(connection).await }.boxed()
        });
        done.await.map(|_| ())
    }
}

impl PostgresClaims {
    /// See [`crate::JobClaims::queued`].
    pub(super) async fn queued_jobs(&self) -> Result<QueuedJobs, StoreError> {
        let core = &self.store.core;
        let permit = core.sessions.permit().await;
        // The lock ends with the session.
        let mut session =
            core.sessions.connect().await.map_err(|source| core.cannot_connect("count the queued jobs", source))?;
        let read = async |connection: &mut PgConnection| {
            sqlx::query("SELECT pg_advisory_lock($1)").bind(QUEUE_LOCK).execute(&mut *connection).await?;
            let sql = "SELECT id, body, crc FROM jobs LEFT JOIN claims ON claims.job = jobs.id
                       WHERE state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')
                           AND (claims.job IS NULL OR claims.until <= now())
                       ORDER BY id";
            sqlx::query(sql).fetch_all(connection).await?.iter().map(job_row).collect::<Result<Vec<_>, _>>()
        };
        let rows = within(super::ANSWER_TIMEOUT, read(&mut session.connection)).await;
        let rows = rows.map_err(|source| core.not_applied("count the queued jobs", source))?;
        let jobs: Result<Vec<Job>, StoreError> = {
            let records = PostgresRecords::for_reading(&mut session.connection, core.surroundings());
            rows.iter().map(|row| records.decode_job(row)).collect()
        };
        Ok(QueuedJobs { jobs: jobs?, lock: Box::new((session, permit)) })
    }
}
