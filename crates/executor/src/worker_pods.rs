//! Workers of models in the pods of a cluster.

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;

use crate::Resources;
use crate::remote::Subscription;

/// Specification of a group of equal workers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerSpec {
    /// Random identifier of lower-case letters and digits, never used again.
    pub id: String,
    /// Model and version, for people.
    pub title: String,
    /// `None` for the default image of the engine.
    pub image: Option<String>,
    /// Program with its arguments.
    pub command: Vec<String>,
    pub environment: BTreeMap<String, String>,
    /// Variables with secret values.
    pub secrets: BTreeMap<String, String>,
    pub resources: Resources,
    /// Maximum size of the working folder, in bytes.
    pub disk_bytes: u64,
}

/// A pod as last seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerPod {
    pub name: String,
    /// Number of times that its container has ended.
    pub ends: u32,
    pub last_end: Option<WorkerEnd>,
    /// Whether its container runs.
    pub is_running: bool,
    /// Whether it is being removed.
    pub is_leaving: bool,
}

/// End of a worker's container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerEnd {
    /// Such as `exit code 137, OOMKilled`.
    pub status: String,
    /// Last lines of its output.
    pub output: String,
}

/// A group of workers as last seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkersState {
    /// `None` before the first look at the cluster.
    pub pods: Option<Vec<WorkerPod>>,
    /// Whether the cluster has the group; `false` before the first look at it, too.
    pub exists: bool,
    /// Why pods cannot be created or cannot start, until that changes.
    pub failure: Option<String>,
    /// Why a pod has not started yet.
    pub waiting: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerPodsError {
    /// The cluster refuses the request. It may accept it later, such as after the change of a quota.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Unreachable(String),
}

/// An engine that runs workers of models. All methods can be called concurrently.
#[async_trait]
pub trait WorkerPods: Debug + Send + Sync + 'static {
    /// Checks what can be told about `spec` without a request.
    ///
    /// # Errors
    /// The reason why it can never run.
    fn check(&self, spec: &WorkerSpec) -> Result<(), String>;

    /// Makes the cluster run `replicas` workers of `spec`. Can be repeated.
    ///
    /// # Errors
    /// [`WorkerPodsError`].
    async fn apply(&self, spec: &WorkerSpec, replicas: usize) -> Result<(), WorkerPodsError>;

    /// States whether `pod` is the first to be removed when the number of workers falls.
    ///
    /// # Errors
    /// [`WorkerPodsError`].
    async fn prefer_removal(&self, pod: &str, is_preferred: bool) -> Result<(), WorkerPodsError>;

    /// Kills `pod`. The cluster replaces it.
    ///
    /// # Errors
    /// [`WorkerPodsError`].
    async fn kill(&self, pod: &str) -> Result<(), WorkerPodsError>;

    /// Removes all objects of the group `id`.
    ///
    /// # Errors
    /// [`WorkerPodsError`].
    async fn remove(&self, id: &str) -> Result<(), WorkerPodsError>;

    /// Removes the groups of this server that are not `live`, such as those of a process that was killed. `live` gets IDs of
    /// groups after they were listed.
    ///
    /// # Errors
    /// [`WorkerPodsError`].
    async fn sweep(&self, live: &(dyn for<'a> Fn(&'a str) -> bool + Sync)) -> Result<(), WorkerPodsError>;

    fn state(&self, id: &str) -> WorkersState;

    /// Changes of the state of the group `id`.
    fn changes(&self, id: &str) -> Subscription<String>;

    /// The end of what the workers of the group `id` have printed, at most about `limit` bytes.
    ///
    /// # Errors
    /// [`WorkerPodsError`].
    async fn log(&self, id: &str, limit: u64) -> Result<String, WorkerPodsError>;
}
