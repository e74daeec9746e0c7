//! Reload of the certificate and of the server configuration on SIGHUP.
//!
//! Everything is read and checked before anything changes. Settings that exist only at the start, such as executors, are
//! compared; a file that changes them is rejected.

use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::{ServeArgs, service_manager};
use crate::cli::output::notice;
use crate::composition::{self, Application};
use crate::server_settings::ServerSettings;
use tunesmith_access::AuditLog;
use tunesmith_config::{KnownExecutor, Retention, ServerConfig};
use tunesmith_data_dir::{DataDir, StoreKind};
use tunesmith_http::server::{ServerIdentity, SharedMachines};
use tunesmith_jobs::Jobs;
use tunesmith_jobs::allowed_folders::{AllowedFolder, AllowedFolders};
use tunesmith_jobs::resource_pool::{Capacity, RunningLimits};

/// Parts of a server whose settings can change.
pub(super) struct Reload {
    /// Configuration in use; `None` without a file.
    config: Option<Arc<ServerConfig>>,
    /// Executor of the data folder.
    kept: Option<&'static str>,
    /// Certificate of the listener; `None` without HTTPS.
    identity: Option<Arc<ServerIdentity>>,
    has_shared_store: bool,
    machines: SharedMachines,
    jobs: Arc<Jobs>,
    allowed_folders: Arc<AllowedFolders>,
    audit_logs: Vec<Arc<AuditLog>>,
    retention: watch::Sender<Retention>,
    hangups: Signal,
}

/// Parts of [`Reload`] from other sources than the application.
pub(super) struct ReloadParts {
    pub(super) identity: Option<Arc<ServerIdentity>>,
    pub(super) kept: Option<&'static str>,
    pub(super) allowed_folders: Arc<AllowedFolders>,
    pub(super) audit_logs: Vec<Arc<AuditLog>>,
    pub(super) retention: watch::Sender<Retention>,
}

impl Reload {
    /// Handles SIGHUP from now on.
    pub(super) fn new(
        config: Option<Arc<ServerConfig>>,
        data_dir: &DataDir,
        application: &Application,
        parts: ReloadParts,
    ) -> std::io::Result<Self> {
        let ReloadParts { identity, kept, allowed_folders, audit_logs, retention } = parts;
        Ok(Self {
            config,
            kept,
            identity,
            has_shared_store: data_dir.kind() == StoreKind::Postgres,
            machines: Arc::clone(&application.machines),
            jobs: Arc::clone(&application.jobs),
            allowed_folders,
            audit_logs,
            retention,
            hangups: signal(SignalKind::hangup())?,
        })
    }

    /// Reloads after each SIGHUP. `reloaded` gets the settings in use. Never completes.
    pub(super) async fn run(mut self, args: &ServeArgs, mut reloaded: impl FnMut(&ServerSettings)) {
        while self.hangups.recv().await.is_some() {
            service_manager::reloading();
            match tokio::task::block_in_place(|| self.reload(args)) {
                Ok((parts, settings)) => {
                    settings.as_ref().map(&mut reloaded);
                    notice(&format!("reloaded: {parts}"));
                }
                Err(error) => notice(&format!("error: not reloaded, and nothing has changed: {error:#}")),
            }
            service_manager::reloaded();
        }
        std::future::pending().await
    }

    /// Reads everything, then changes it. Returns what was reloaded.
    fn reload(&mut self, args: &ServeArgs) -> anyhow::Result<(String, Option<ServerSettings>)> {
        let certificate = self.identity.as_ref().map(|identity| identity.read_again()).transpose()?;
        let known = KnownExecutor { wanted: args.executor.name(), kept: self.kept };
        let config = args.server_config.config(known)?.map(Arc::new);
        let settings = match (&self.config, &config) {
            (Some(old), Some(new)) => Some(self.changed(old, new)?),
            _ => None,
        };
        if let Some(settings) = &settings {
            // The only change that can fail, and changes nothing then.
            self.allowed_folders.set_listed(allowed_folders(args, settings)).context("allowedFolders")?;
        }
        let mut parts = Vec::new();
        if let (Some(identity), Some(certificate)) = (&self.identity, certificate) {
            parts.push(if identity.install(certificate) { "a new certificate" } else { "the same certificate" });
        }
        if let Some(settings) = &settings {
            *self.machines.write() = Arc::clone(&settings.machines);
            self.jobs.set_limits(settings.queue, settings.pool.limits);
            for log in &self.audit_logs {
                log.set_rotation(composition::rotation(settings.audit));
            }
            self.retention.send_replace(settings.retention);
            parts.push("the server configuration");
            self.config = config;
        }
        if parts.is_empty() {
            parts.push("nothing, since the server has neither a certificate nor a server configuration");
        }
        Ok((parts.join(", "), settings))
    }

    /// Settings of `new`, unless they differ from `old` in what exists only at the start.
    fn changed(&self, old: &ServerConfig, new: &ServerConfig) -> anyhow::Result<ServerSettings> {
        let restart = "only a restart changes that";
        ensure!(
            old.executor == new.executor,
            "executor, executors, slurm, ray, kubernetes, prediction or placementTimeout: {restart}"
        );
        ensure!(old.capacity == new.capacity, "resources: {restart}");
        ensure!(old.webhooks == new.webhooks, "webhooks: {restart}");
        ensure!(old.open_id_connect == new.open_id_connect, "openIdConnect: {restart}");
        if let Some(name) = new.machines.other_executors().difference(&old.machines.other_executors()).next() {
            bail!("machineTypes or regions: the executor {name} is not in use: {restart}");
        }
        let queues = old.machines.queues();
        for (executor, named) in new.machines.queues() {
            if let Some(queue) =
                named.iter().find(|queue| !queues.get(&executor).is_some_and(|old| old.contains(*queue)))
            {
                bail!("machineTypes or regions: the queue {queue} of {executor} is not in use: {restart}");
            }
        }
        let settings = ServerSettings::of(new.clone(), Capacity::default())?;
        let is_limited = |limits: RunningLimits| limits != RunningLimits::default();
        let running = settings.pool.limits.running;
        if self.has_shared_store && is_limited(running) && !is_limited(self.jobs.resources().limits) {
            bail!("limits.runningTrials: other servers on the database are counted only from the start: {restart}");
        }
        Ok(settings)
    }
}

/// Folders of the configuration and of the flags.
pub(super) fn allowed_folders(args: &ServeArgs, settings: &ServerSettings) -> Vec<AllowedFolder> {
    settings.allowed_folders.iter().chain(&args.allowed_folder).cloned().collect()
}
