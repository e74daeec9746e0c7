//! Background tasks of a server.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;

use super::ServeArgs;
use super::expiry::Expiry;
use crate::cli::log_args;
use crate::composition::Application;
use crate::{disk, memory};
use tunesmith_data_dir::DataDir;
use tunesmith_jobs::Jobs;
use tunesmith_jobs::packages::Packages;
use tunesmith_packages::Environments;
use tunesmith_studies::Studies;

/// Interval of lease expiry checks.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of package eviction.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Spawns the tasks, which end when the returned set is dropped.
pub(super) fn start(args: &ServeArgs, data_dir: &DataDir, application: &Application, expiry: Expiry) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(expiry.run());
    let tracking = Arc::clone(&application.tracking);
    tasks.spawn(async move { tracking.resume().await });
    if let Some(webhooks) = application.webhooks.clone() {
        tasks.spawn(async move { webhooks.run().await });
    }
    if let Some(days) = args.retention {
        let retention = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
        let (jobs, environments) = (Arc::clone(&application.jobs), Arc::clone(&application.environments));
        tasks.spawn(prune(jobs, application.packages.clone(), environments, retention));
    }
    let models = application.models.clone();
    tasks.spawn(async move { models.run().await });
    tasks.spawn(sweep(Arc::clone(&application.studies)));
    tasks.spawn(log_args::keep(Arc::clone(&application.jobs), args.logs.limits()));
    tasks.spawn(disk::watch(data_dir.path().to_owned()));
    tasks.spawn(memory::keep(Arc::clone(&application.studies), args.memory_bytes()));
    tasks
}

/// Expires leases of clients that missed their deadline.
async fn sweep(studies: Arc<Studies>) {
    let mut interval = tokio::time::interval(SWEEP_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if let Err(error) = studies.check_leases().await {
            tracing::error!(error = &error as &dyn std::error::Error, "the leases could not be checked");
        }
    }
}

/// Evicts packages and environments unused for `retention`, immediately and then hourly.
async fn prune(jobs: Arc<Jobs>, packages: Packages, environments: Arc<Environments>, retention: Duration) {
    let mut interval = tokio::time::interval(PRUNE_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if let Err(error) = prune_once(&jobs, packages.clone(), Arc::clone(&environments), retention).await {
            tracing::error!(error = format!("{error:#}"), "unused packages could not be removed");
        }
    }
}

async fn prune_once(
    jobs: &Jobs,
    packages: Packages,
    environments: Arc<Environments>,
    retention: Duration,
) -> anyhow::Result<()> {
    let unused_since = SystemTime::from(jobs.unused_since(retention).await?);
    let unused_for = SystemTime::now().duration_since(unused_since).unwrap_or(retention);
    for name in packages.prune_shared(unused_for).await? {
        tracing::info!(package.name = name, "removed, since no job has used it");
    }
    let remove = move || anyhow::Ok((packages.prune(unused_since)?, environments.prune(unused_since)?));
    let (packages, environments) = tokio::task::spawn_blocking(remove).await??;
    for path in packages.iter().chain(&environments) {
        tracing::info!(path = %path.display(), "removed, since no job has used it");
    }
    Ok(())
}
