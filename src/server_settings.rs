//! Service settings from a server configuration.

use std::path::Path;
use std::sync::Arc;

use crate::devices;
use tunesmith_api::ai_platform::machines::MachineMap;
use tunesmith_config::{ConfigErrors, Devices, ExecutorConfig, KnownExecutor, Limits, ServerConfig};
use tunesmith_jobs::QueueLimits;
use tunesmith_jobs::allowed_folders::{AllowedFolder, AllowedFolderError};
use tunesmith_jobs::resource_pool::{Capacity, Device, PoolSettings, RunningLimits};

/// Machines and limits of the services. By default, the published names without accounting or limits.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerSettings {
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
        let ServerConfig { executor, machines, capacity, allowed_folders, limits, queue_deadline } =
            tunesmith_config::load_server(path, executor)?;
        let allowed_folders = allowed_folders
            .iter()
            .enumerate()
            .map(|(index, text)| text.parse().map_err(|source| SettingsError::AllowedFolder { index, source }));
        let allowed_folders = allowed_folders.collect::<Result<_, _>>()?;
        let devices = match capacity.devices {
            None => None,
            Some(Devices::Listed(listed)) => Some(listed.into_iter().map(|(id, kind)| Device { id, kind }).collect()),
            Some(Devices::Discovered) => {
                let found = devices::discover().map_err(SettingsError::Devices)?;
                for device in &found {
                    tracing::info!(device.id, device.kind, "found an accelerator");
                }
                Some(found)
            }
        };
        let capacity = Capacity { milli_cpus: capacity.milli_cpus, memory_bytes: capacity.memory_bytes, devices };
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
            executor,
            machines: Arc::new(machines),
            pool: PoolSettings { capacity, limits, queue_deadline, ..PoolSettings::default() },
            allowed_folders,
            queue: QueueLimits { cluster: queued_cluster, project: queued_project, principal: queued_principal },
        })
    }
}
