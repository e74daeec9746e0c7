//! Ends a job whose run cannot continue: stops its programs and records its end.
//!
//! Depends only on the store and the executor, so a job with an unusable folder or plan can still end. After a store
//! error, another call completes the rest.

use std::pin::pin;

use futures::TryStreamExt;

use super::{JobServices, time_of_change};
use tunesmith_domain::{Completion, Job, JobChange, JobId, JobState, StudyId, Trial, TrialChange};
use tunesmith_executor::{ExecutorError, ExecutorJobId, ExecutorJobState, StopMode};
use tunesmith_store::{StoreError, pages};

/// Stops every program of the job and moves it to the final `state`. A job being cancelled becomes `CANCELLED` and
/// keeps its reason.
pub(crate) async fn end_job(
    services: &JobServices,
    id: &JobId,
    state: JobState,
    reason: &str,
) -> Result<Job, StoreError> {
    let job = services.store.job(id).await?;
    if job.state.is_final() {
        return Ok(job);
    }
    let (state, reason) = match job.state {
        JobState::Cancelling => (JobState::Cancelled, job.error_message.as_str()),
        _ => (state, reason),
    };
    end_programs(services, &job, reason).await?;
    let change = JobChange::Become { state, error_message: reason.to_owned(), at: services.clock.now() };
    services.store.change_job(id, change).await
}

/// Stops every program of `job`, and completes its unfinished trials for `reason`.
pub(crate) async fn end_programs(services: &JobServices, job: &Job, reason: &str) -> Result<(), StoreError> {
    match &job.study {
        Some(study) => end_trials(services, &job.id, study, reason).await,
        None => {
            end_single_run(services, &job.id).await;
            Ok(())
        }
    }
}

/// Stops the programs of all unfinished trials concurrently, and completes the trials without a result.
async fn end_trials(services: &JobServices, job: &JobId, study: &StudyId, reason: &str) -> Result<(), StoreError> {
    let trials: Vec<Trial> = pin!(pages::open_trials(&*services.store, study)).try_collect().await?;
    let ids =
        trials.iter().map(|trial| ExecutorJobId { job: job.clone(), trial: Some(trial.id), attempt: trial.attempt });
    let ids: Vec<ExecutorJobId> = ids.collect();
    futures::future::join_all(ids.iter().map(|id| stop(services, id))).await;
    for trial in &trials {
        let change = TrialChange::Complete {
            attempt: trial.attempt,
            measurements: Vec::new(),
            completion: Completion::Infeasible { reason: format!("stopped, because {reason}") },
            at: time_of_change(trial, services.clock.now()),
        };
        match services.store.change_trial(study, trial.id, change).await {
            // Ended or deleted since it was read.
            Ok(_) | Err(StoreError::Refused(_) | StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Kills this machine's programs of a job that another server runs or has since run; in the latter case the `latest`
/// attempts are kept. Changes no records.
pub(crate) async fn stop_superseded(
    services: &JobServices,
    job: &Job,
    latest: LatestAttempt,
) -> Result<(), StoreError> {
    let Some(study) = &job.study else {
        if latest == LatestAttempt::Spared {
            return Ok(());
        }
        for attempt in 1.. {
            let id = ExecutorJobId { job: job.id.clone(), trial: None, attempt };
            if kill(services, &id).await == ExecutorJobState::Unknown {
                break;
            }
        }
        return Ok(());
    };
    let mut trials = pin!(pages::trials(&*services.store, study));
    while let Some(trial) = trials.try_next().await? {
        let spared = u64::from(latest == LatestAttempt::Spared);
        for attempt in 1..=trial.attempt.saturating_sub(spared) {
            kill(services, &ExecutorJobId { job: job.id.clone(), trial: Some(trial.id), attempt }).await;
        }
    }
    Ok(())
}

/// Treatment of each trial's latest attempt when earlier ones are superseded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LatestAttempt {
    Spared,
    /// Superseded as well.
    Killed,
}

/// Kills the program if it runs; returns its previous state.
async fn kill(services: &JobServices, id: &ExecutorJobId) -> ExecutorJobState {
    let state = services.executor.state(id).await;
    let killed = match &state {
        Ok(ExecutorJobState::Running) => services.executor.stop(id, StopMode::Immediate).await,
        _ => Ok(()),
    };
    if let Err(error) = killed {
        let error = &error as &dyn std::error::Error;
        tracing::error!(executor.job = %id, error, "a program of a job of another server may still run");
    }
    state.unwrap_or(ExecutorJobState::Unknown)
}

/// Stops the running attempt. Attempts are numbered from 1; the first unknown one was never submitted.
async fn end_single_run(services: &JobServices, job: &JobId) {
    for attempt in 1.. {
        let id = ExecutorJobId { job: job.clone(), trial: None, attempt };
        if stop(services, &id).await == ExecutorJobState::Unknown {
            return;
        }
    }
}

/// Stops the program and waits for its end; an undeterminable state counts as unknown.
async fn stop(services: &JobServices, id: &ExecutorJobId) -> ExecutorJobState {
    match stop_and_wait(services, id).await {
        Ok(state) => state,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(executor.job = %id, error, "a program of a job that ends may still run");
            ExecutorJobState::Unknown
        }
    }
}

async fn stop_and_wait(services: &JobServices, id: &ExecutorJobId) -> Result<ExecutorJobState, ExecutorError> {
    services.executor.stop(id, StopMode::Graceful).await?;
    services.executor.wait(id).await
}
