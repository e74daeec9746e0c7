//! Service settings from a server configuration.

use std::path::Path;
use std::sync::Arc;

use crate::devices;
use crate::single_sign_on::{SingleSignOn, SingleSignOnError};
use crate::webhooks::{WebhookSettingsError, configured};
use tunesmith_api::ai_platform::machines::MachineMap;
use tunesmith_config::{
    AuditFiles, Capacity as ConfiguredCapacity, ConfigErrors, Devices, ExecutorConfig, KnownExecutor, Limits,
    Retention, ServerConfig,
};
use tunesmith_jobs::QueueLimits;
use tunesmith_jobs::allowed_folders::{AllowedFolder, AllowedFolderError};
use tunesmith_jobs::resource_pool::{Capacity, Device, PoolLimits, PoolSettings, RunningLimits};
use tunesmith_prediction::{PredictionTimes, WorkerLimits};
use tunesmith_webhooks::Webhook;

/// Machines and limits of the services. By default, the published names without accounting or limits.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerSettings {
    /// Configuration that they come from, if any.
    pub(crate) source: Option<Arc<ServerConfig>>,
    /// Executor settings, as far as configured.
    pub(crate) executor: ExecutorConfig,
    /// Resolution of machine names.
    pub(crate) machines: Arc<MachineMap>,
    /// Resources of programs, and limits on running trials.
    pub(crate) pool: PoolSettings,
    /// Limits on queued jobs.
    pub(crate) queue: QueueLimits,
    /// Folders and buckets that jobs may use on a server with tokens.
    pub(crate) allowed_folders: Vec<AllowedFolder>,
    pub(crate) audit: AuditFiles,
    pub(crate) retention: Retention,
    pub(crate) single_sign_on: Option<SingleSignOn>,
    pub(crate) webhooks: Vec<Arc<Webhook>>,
    pub(crate) prediction: PredictionSettings,
}

/// Workers of models.
#[derive(Debug, Clone)]
pub(crate) struct PredictionSettings {
    pub(crate) times: PredictionTimes,
    /// Maximum number of concurrent workers.
    pub(crate) max_workers: usize,
    pub(crate) limits: WorkerLimits,
    /// Base URL of the server; `None` if it serves no workers in pods.
    pub(crate) endpoint: Option<String>,
}

impl Default for PredictionSettings {
    fn default() -> Self {
        Self {
            times: PredictionTimes::default(),
            max_workers: 16,
            limits: WorkerLimits::of_this_machine(),
            endpoint: None,
        }
    }
}

/// Failures to use a server configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error("allowedFolders[{index}]")]
    AllowedFolder {
        index: usize,
        #[source]
        source: AllowedFolderError,
    },
    #[error(transparent)]
    SingleSignOn(#[from] SingleSignOnError),
    #[error(transparent)]
    Webhook(#[from] WebhookSettingsError),
    #[error("resources.discoverDevices: {0:#}")]
    Devices(anyhow::Error),
}

impl ServerSettings {
    /// Loads the server configuration at `path` for a server with `executor`; defaults without a path.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub(crate) fn load(path: Option<&Path>, executor: KnownExecutor<'_>) -> Result<Self, SettingsError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let config = tunesmith_config::load_server(path, executor)?;
        let capacity = counted(&config.capacity)?;
        Self::of(config, capacity)
    }

    /// Settings of `config`, with the resources of this machine.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub(crate) fn of(config: ServerConfig, capacity: Capacity) -> Result<Self, SettingsError> {
        let source = Some(Arc::new(config.clone()));
        let ServerConfig {
            executor,
            machines,
            allowed_folders,
            limits,
            queue_deadline,
            audit,
            retention,
            open_id_connect,
            webhooks,
            capacity: _,
        } = config;
        let allowed_folders = allowed_folders
            .iter()
            .enumerate()
            .map(|(index, text)| text.parse().map_err(|source| SettingsError::AllowedFolder { index, source }));
        let allowed_folders = allowed_folders.collect::<Result<_, _>>()?;
        let Limits {
            running_cluster,
            running_project,
            running_principal,
            running_study,
            queued_cluster,
            queued_project,
            queued_principal,
        } = limits;
        let limits = RunningLimits {
            cluster: running_cluster,
            project: running_project,
            principal: running_principal,
            study: running_study,
        };
        Ok(Self {
            source,
            executor,
            machines: Arc::new(machines),
            pool: PoolSettings {
                capacity,
                limits: PoolLimits { running: limits, queue_deadline },
                ..PoolSettings::default()
            },
            allowed_folders,
            audit,
            retention,
            webhooks: configured(&webhooks)?,
            prediction: PredictionSettings::default(),
            single_sign_on: open_id_connect.map(SingleSignOn::of).transpose()?,
            queue: QueueLimits { cluster: queued_cluster, project: queued_project, principal: queued_principal },
        })
    }
}

/// Resources of this machine as `configured`, with the accelerators found if they are to be discovered.
fn counted(configured: &ConfiguredCapacity) -> Result<Capacity, SettingsError> {
    let devices = match &configured.devices {
        None => None,
        Some(Devices::Listed(listed)) => {
            Some(listed.iter().map(|(id, kind)| Device { id: id.clone(), kind: kind.clone() }).collect())
        }
        Some(Devices::Discovered) => {
            let found = devices::discover().map_err(SettingsError::Devices)?;
            for device in &found {
                tracing::info!(device.id, device.kind, "found an accelerator");
            }
            Some(found)
        }
    };
    Ok(Capacity { milli_cpus: configured.milli_cpus, memory_bytes: configured.memory_bytes, devices })
}
