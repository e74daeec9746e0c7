//! Workers in the pods of a cluster, which get files and requests from this server.
//!
//! A pool, or a batch prediction, has one group of equal pods. Each worker of the pool is a *lease* of a pod whose process has
//! loaded the model. The number of leases is the number of pods that the cluster has to run.

mod connection;
mod files;
mod link;
mod supervision;
mod worker;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;
use tunesmith_executor::{Resources, WorkerEnd, WorkerPods, WorkerPodsError, WorkerSpec, WorkersState};

pub use self::link::WorkerLink;
pub(crate) use self::worker::PodWorker;

use self::connection::Connection;
use self::files::SentFiles;
use crate::model_files::VersionFolder;
use crate::models::Inner;
use crate::records::VersionSpec;
use crate::runner::{LoadFailure, pod_command};

/// Interval of looking for the end of predictions when the server ends.
const CLOSING_TICK: Duration = Duration::from_millis(50);

/// Pods of a cluster as the place of workers.
#[derive(Debug, Clone)]
pub struct PodPlatform {
    pub engine: Arc<dyn WorkerPods>,
    /// Base URL of this server, as pods reach it.
    pub server: String,
}

/// A failure to load the model, for the start that waits for it.
#[derive(Debug)]
enum FailedStart {
    /// Reported by the worker.
    Reported(LoadFailure),
    /// The container has ended.
    Ended(WorkerEnd),
}

/// A group of workers. Dropping it removes its pods.
#[derive(Debug)]
pub(crate) struct WorkerGroup(Arc<Group>);

#[derive(Debug)]
pub(crate) struct Group {
    engine: Arc<dyn WorkerPods>,
    spec: WorkerSpec,
    /// Base URL of this server, as pods reach it.
    server: String,
    token: String,
    /// Folder and settings of the version.
    folder: VersionFolder,
    settings: VersionSpec,
    files: OnceCell<SentFiles>,
    state: Mutex<GroupState>,
    /// Wakes the supervision and waiting starts.
    changed: watch::Sender<()>,
    /// Whether the server ends.
    closing: watch::Receiver<bool>,
}

#[derive(Debug, Default)]
struct GroupState {
    /// Number of leases, including those that wait for a pod.
    leases: usize,
    /// By the name of the pod.
    connections: HashMap<String, Arc<Connection>>,
    /// Ends of the container that were noticed, by the name of the pod.
    noticed_ends: HashMap<String, u32>,
    failed_starts: VecDeque<FailedStart>,
    /// Ends that the cluster has not told of yet.
    unexplained: Vec<UnexplainedEnd>,
    /// Why the cluster does not run the number of pods, and how often in a row.
    refusal: Option<(WorkerPodsError, u32)>,
    is_closed: bool,
}

/// End of a process that the next process in its pod has told of.
#[derive(Debug)]
struct UnexplainedEnd {
    connection: Arc<Connection>,
    was_loading: bool,
    since: Instant,
}

impl Drop for WorkerGroup {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.changed.send_replace(());
    }
}

impl Inner {
    /// Workers of `settings`, whose files are in `folder`; `None` if workers are processes of this machine.
    pub(crate) fn worker_group(
        &self,
        (project, model, title): (&str, &str, &str),
        settings: &VersionSpec,
        folder: &VersionFolder,
    ) -> Option<Arc<WorkerGroup>> {
        let platform = self.services.pods.as_ref()?;
        let id = hex::encode(rand::random::<[u8; 6]>());
        let token = hex::encode(rand::random::<[u8; 24]>());
        let url =
            format!("{}/v1/projects/{project}/models/{model}/workers/{id}", platform.server.trim_end_matches('/'));
        let mut environment = BTreeMap::from([("TUNESMITH_WORKER_URL".to_owned(), url)]);
        environment.insert("PYTHONUNBUFFERED".to_owned(), "1".to_owned());
        if let Some(milli) = settings.milli_cpus {
            let threads = milli.div_ceil(1000).max(1).to_string();
            environment.extend(crate::python_worker::THREAD_VARIABLES.map(|name| (name.to_owned(), threads.clone())));
        }
        let spec = WorkerSpec {
            title: title.to_owned(),
            image: settings.image.clone(),
            command: pod_command(),
            environment,
            secrets: BTreeMap::from([("TUNESMITH_WORKER_TOKEN".to_owned(), token.clone())]),
            resources: Resources {
                milli_cpus: settings.milli_cpus,
                memory_bytes: settings.memory_bytes,
                ..Resources::default()
            },
            disk_bytes: self.services.limits.disk_bytes,
            id: id.clone(),
        };
        let group = Arc::new(Group {
            engine: Arc::clone(&platform.engine),
            spec,
            server: platform.server.clone(),
            token,
            folder: folder.clone(),
            settings: settings.clone(),
            files: OnceCell::new(),
            state: Mutex::default(),
            changed: watch::channel(()).0,
            closing: self.is_closing.subscribe(),
        });
        let mut groups = self.worker_groups.lock();
        groups.retain(|_, group| group.strong_count() > 0);
        groups.insert(id, Arc::downgrade(&group));
        drop(groups);
        tokio::spawn(Arc::clone(&group).supervise());
        Some(Arc::new(WorkerGroup(group)))
    }

    /// Removes pods of former processes, and those whose removal has failed.
    pub(crate) async fn sweep_pods(&self) {
        let Some(platform) = &self.services.pods else { return };
        let live = |id: &str| self.worker_groups.lock().get(id).is_some_and(|group| group.strong_count() > 0);
        if let Err(error) = platform.engine.sweep(&live).await {
            tracing::warn!(%error, "workers of a former process remain in the cluster");
        }
    }

    /// Waits for predictions in pods, ends the requests of workers, and removes the pods of this process. Takes up to twice
    /// `limit`.
    pub(crate) async fn close_pods(&self, limit: Duration) {
        let Some(platform) = &self.services.pods else { return };
        let groups: Vec<Arc<Group>> = self.worker_groups.lock().values().filter_map(Weak::upgrade).collect();
        let answered = async {
            while groups.iter().any(|group| group.is_busy()) {
                tokio::time::sleep(CLOSING_TICK).await;
            }
        };
        // The others are answered with the end of their worker.
        let _ = tokio::time::timeout(limit, answered).await;
        self.is_closing.send_replace(true);
        for group in groups {
            group.end_all();
        }
        match tokio::time::timeout(limit, platform.engine.sweep(&|_| false)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "workers remain in the cluster until the next start of this server")
            }
            Err(_) => tracing::warn!("workers remain in the cluster until the next start of this server"),
        }
    }
}

impl WorkerGroup {
    /// Why a pod has not started yet.
    pub(crate) fn waiting(&self) -> Option<String> {
        self.0.seen().waiting
    }

    /// Output of the workers.
    pub(crate) async fn log(&self, limit: u64) -> Result<String, WorkerPodsError> {
        self.0.engine.log(&self.0.spec.id, limit).await
    }
}

impl Group {
    fn seen(&self) -> WorkersState {
        self.engine.state(&self.spec.id)
    }

    fn notify(&self) {
        self.changed.send_replace(());
    }

    fn is_busy(&self) -> bool {
        self.state.lock().connections.values().any(|connection| connection.state.lock().outstanding.is_some())
    }

    /// Ends all workers, since the server ends.
    fn end_all(&self) {
        for connection in self.state.lock().connections.values() {
            connection.end("the server ends", "");
        }
        self.notify();
    }
}
