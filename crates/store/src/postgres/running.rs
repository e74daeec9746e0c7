//! Running trials and queued jobs of all servers, for the limits on both.
//!
//! Each server has a row per running trial, all renewed with one lease. A dead server's rows expire.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, Row};

use super::PostgresClaims;
use super::notifications::TRIALS;
use super::records::{PostgresRecords, PostgresRow, statement};
use super::sessions::within;
use crate::StoreError;
use crate::sharing::{Admission, Admits, QueuedJobs, RunningTrial, RunningTrials};
use crate::sql::{number, values};
use tunesmith_domain::{IdError, Job, JobId};

/// Advisory lock held while counting running trials: `TnRt`.
const TRIALS_LOCK: i64 = 0x546e_5274;

/// Advisory lock held while counting queued jobs and adding one: `TnQj`.
const QUEUE_LOCK: i64 = 0x546e_516a;

/// Retention of the trials of dead servers.
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
                           WHERE until > clock_timestamp() AND NOT (server = $1 AND ticket = $2)";
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
                               VALUES ($1, $2, $3, $4, clock_timestamp() + $5 * interval '1 millisecond')
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
                 SELECT * FROM unnest($3::bigint[], $4::text[], $5::text[]) AS own (ticket, job, principal)
             ), gone AS (
                 DELETE FROM running_trials WHERE until < now() - interval '{RETENTION}'
                     OR server = $1 AND ticket NOT IN (SELECT ticket FROM own)
             ), kept AS (
                 INSERT INTO running_trials (server, ticket, job, principal, until)
                 SELECT $1, ticket, job, principal, clock_timestamp() + $2 * interval '1 millisecond' FROM own
                 ON CONFLICT (server, ticket) DO UPDATE
                 SET job = excluded.job, principal = excluded.principal,
                     until = clock_timestamp() + $2 * interval '1 millisecond'
             )
             SELECT job, principal FROM running_trials WHERE server <> $1 AND until > now()"
        );
        let statement = || {
            let statement = statement(&sql, values![self.owner.clone(), self.lease_millis()]);
            statement.bind(tickets.clone()).bind(jobs.clone()).bind(principals.clone())
        };
        self.store
            .core
            .rows_of("renew the running trials", statement, |row| {
                running_trial(row.row).map_err(|source| self.store.core.not_applied("read", source))
            })
            .await
    }

    async fn release(&self, ticket: u64) -> Result<(), StoreError> {
        let sql = "WITH gone AS (DELETE FROM running_trials WHERE server = $1 AND ticket = $2 RETURNING ticket)
                   SELECT pg_notify($3, '') FROM gone";
        let values = values![self.owner.clone(), ticket, TRIALS];
        self.store.core.execute("release a running trial", sql, values).await.map(drop)
    }
}

impl PostgresClaims {
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
            sqlx::query(sql).fetch_all(connection).await
        };
        let rows = within(super::ANSWER_TIMEOUT, read(&mut session.connection)).await;
        let rows = rows.map_err(|source| core.not_applied("count the queued jobs", source))?;
        let jobs: Result<Vec<Job>, StoreError> = {
            let records = PostgresRecords::for_reading(&mut session.connection, core.surroundings());
            rows.iter().map(|row| records.job_of(&PostgresRow { row, place: &core.place })).collect()
        };
        Ok(QueuedJobs { jobs: jobs?, lock: Box::new((session, permit)) })
    }
}
