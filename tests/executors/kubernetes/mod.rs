//! The engine for Kubernetes, against an API server in this process whose pods are processes of this machine, and against the cluster
//! of `KUBECONFIG`.
//!
//! The first shows the engine from end to end: its requests, its watch, the agent in a pod, and what it concludes from the states that
//! the documentation of Kubernetes describes. It does not show that a cluster accepts the objects, schedules them, or reports
//! these states. The second shows that.

mod admission;
mod api_answers;
mod api_server;
mod cluster;
mod deployment;
mod engine;
mod kubelet;
mod kueue;
mod manifests;
mod outages;
mod places;
mod queues;
mod rendering;
mod runs;
mod scale;
mod served;
mod survivor;
mod volumes;
mod worker_failures;
mod worker_servers;
mod workers;
mod workers_node;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use tempfile::TempDir;
use tunesmith_contract::executor::Harness;
use tunesmith_executor::remote::{Inbox, RemoteExecutor};
use tunesmith_executor::{Executor, ExecutorJobSpec};
use tunesmith_kubernetes::{KubernetesEngine, KubernetesSettings, PodSettings};

use self::api_server::ApiServer;
use self::kubelet::Kubelet;
use super::agent_contract;

/// A folder of this machine with an inbox, and a cluster in this process.
struct InProcess {
    folder: TempDir,
    inbox: Arc<Inbox>,
    api: OnceLock<(ApiServer, Option<Kubelet>)>,
    server: OnceLock<String>,
    has_node: bool,
    /// The file in the image of agents that is copied.
    agent_path: &'static str,
}

impl InProcess {
    /// A cluster with one node.
    fn new() -> Self {
        // It fails if one is installed.
        drop(rustls::crypto::ring::default_provider().install_default());
        let folder = TempDir::new().unwrap();
        let inbox = Arc::new(Inbox::new(folder.path().join("inbox")));
        for name in ["pods", "elsewhere"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let agent_path = env!("CARGO_BIN_EXE_tunesmith");
        Self { folder, inbox, api: OnceLock::new(), server: OnceLock::new(), has_node: true, agent_path }
    }

    /// A cluster without controllers and nodes.
    fn without_nodes() -> Self {
        Self { has_node: false, ..Self::new() }
    }

    fn cluster(&self) -> &(ApiServer, Option<Kubelet>) {
        self.api.get_or_init(|| {
            let api = ApiServer::start();
            let start = || Kubelet::start(&api, &self.folder.path().join("pods"), self.working_directory());
            let kubelet = self.has_node.then(start);
            (api, kubelet)
        })
    }

    fn api(&self) -> &ApiServer {
        &self.cluster().0
    }

    fn kubelet(&self) -> &Kubelet {
        self.cluster().1.as_ref().unwrap()
    }

    fn engine(&self) -> KubernetesEngine {
        self.engine_with(|_| {})
    }

    /// The engine with `changed` settings.
    fn engine_with(&self, change: impl FnOnce(&mut KubernetesSettings)) -> KubernetesEngine {
        let server = self.server.get_or_init(|| agent_contract::serve(&self.inbox, self.directory())).clone();
        let mut settings = KubernetesSettings {
            queues: Default::default(),
            store: None,
            cluster: Default::default(),
            namespace: Some("tests".to_owned()),
            pods: PodSettings {
                agent_image: "tunesmith:test".to_owned(),
                agent_path: self.agent_path.to_owned(),
                default_image: Some("trainer:1".to_owned()),
                server: Some(server),
                ..PodSettings::default()
            },
            registry: self.folder.path().join("kubernetes"),
        };
        change(&mut settings);
        KubernetesEngine::new(settings, kube::Config::new(self.api().url.parse().unwrap())).unwrap()
    }

    /// The name of the Job of `spec`, which must be the only one of its trial.
    fn job_of(&self, spec: &ExecutorJobSpec) -> String {
        let trial = spec.id.trial.unwrap().to_string();
        let jobs = self.api().all("jobs");
        let mut found = jobs.into_iter().filter(|(_, job)| job["metadata"]["labels"]["tunesmith.dev/trial"] == *trial);
        let (key, _) = found.next().expect("it has a Job");
        assert!(found.next().is_none(), "it has one Job");
        key.2
    }
}

impl Harness for InProcess {
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(RemoteExecutor::new(self.engine(), Arc::clone(&self.inbox)))
    }

    fn directory(&self) -> &Path {
        self.folder.path()
    }

    fn working_directory(&self) -> &Path {
        Box::leak(Box::new(self.folder.path().join("elsewhere")))
    }
}

tunesmith_contract::executor_contract!(InProcess::new());
