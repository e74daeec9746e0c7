//! Workers of models as Deployments.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use futures::FutureExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::Config as WatchConfig;
use parking_lot::Mutex;
use serde_json::json;

use super::client::{ApiError, Client, Purpose, innermost};
use super::names::selector;
use super::submission::check_address;
use super::watch::{Watch, watch};
use super::worker_objects::{GROUP_LABEL, WORKER, deployment, image, name_of, secret};
use super::{KubernetesSettings, KubernetesUnusable, check_permissions, worker_state};
use tunesmith_executor::remote::{Changes, Submitted, Subscription};
use tunesmith_executor::{WorkerPods, WorkerPodsError, WorkerSpec, WorkersState};

/// Permissions that workers of models need: group, resource with its subresource, verb.
pub const WORKER_PERMISSIONS: [(&str, &str, &str); 13] = [
    ("apps", "deployments", "create"),
    ("apps", "deployments", "get"),
    ("apps", "deployments", "list"),
    ("apps", "deployments", "watch"),
    ("apps", "deployments", "patch"),
    ("apps", "deployments", "delete"),
    ("", "pods", "list"),
    ("", "pods", "watch"),
    ("", "pods", "patch"),
    ("", "pods", "delete"),
    ("", "pods/log", "get"),
    ("", "secrets", "create"),
    ("", "secrets", "patch"),
];

/// Pods whose output is read for a log.
const MAX_LOGS: usize = 20;

/// Lines and bytes that are read of each.
const LOG_LINES: i64 = 2000;
const LOG_BYTES: i64 = 1 << 20;

/// Annotation by which a controller chooses the pod to remove, and the value for the first ones.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const CHEAP: &str = "-100";

/// Runs workers of models as Deployments.
pub struct KubernetesWorkers {
    settings: KubernetesSettings,
    namespace: String,
    client: Client,
    /// Value of the label of this server.
    identity: String,
    deployments: Watch<Deployment>,
    pods: Watch<Pod>,
    /// By the ID of a group.
    changes: Changes<String>,
    /// Names of Deployments that exist, by the ID of their group.
    created: Mutex<BTreeMap<String, String>>,
}

impl std::fmt::Debug for KubernetesWorkers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubernetesWorkers").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl From<ApiError> for WorkerPodsError {
    fn from(error: ApiError) -> Self {
        let text = error.to_string();
        if error.is_refusal() { Self::Refused(text) } else { Self::Unreachable(text) }
    }
}

impl KubernetesWorkers {
    /// Connects to the cluster of `settings`, and watches the workers of this server. `server` is its address for pods.
    ///
    /// # Errors
    /// [`KubernetesUnusable`].
    pub async fn connect(settings: KubernetesSettings, server: &str) -> Result<Self, KubernetesUnusable> {
        let mut config = settings.cluster.config().await?;
        // [`Client`] retries, with shorter delays.
        config.default_retry = false;
        let namespace = settings.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let address = config.cluster_url.clone();
        check_address(server, &address, &AtomicBool::new(false)).map_err(KubernetesUnusable::Server)?;
        let kube = kube::Client::try_from(config);
        let kube = kube.map_err(|error| KubernetesUnusable::Configuration(innermost(&error)))?;
        let submitted = Submitted::new(settings.registry.clone());
        let identity =
            submitted.identity().map_err(|error| KubernetesUnusable::Folder(settings.registry.clone(), error))?;
        let client = Client::new(kube.clone());
        check_permissions(&client, &address, &namespace, &WORKER_PERMISSIONS).await?;
        let (identity, changes) = (identity.to_owned(), Changes::default());
        let ours = WatchConfig::default().labels(&selector(&identity));
        let key = |labels: &BTreeMap<String, String>| labels.get(GROUP_LABEL).cloned();
        Ok(Self {
            deployments: watch(&kube, &changes, &namespace, ours.clone(), move |one: &Deployment| key(one.labels())),
            pods: watch(&kube, &changes, &namespace, ours, move |pod: &Pod| key(pod.labels())),
            settings,
            namespace,
            client,
            identity,
            changes,
            created: Mutex::default(),
        })
    }

    fn api<K: kube::Resource<Scope = kube::core::NamespaceResourceScope>>(&self) -> Api<K>
    where
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.kube.clone(), &self.namespace)
    }

    /// Creates the objects of `spec` without pods. Some may exist already.
    async fn create(&self, spec: &WorkerSpec) -> Result<String, WorkerPodsError> {
        let made = deployment(&self.identity, spec, &self.settings.pods).map_err(WorkerPodsError::Refused)?;
        let (deployments, secrets) = (self.api::<Deployment>(), self.api::<Secret>());
        let (name, params) = (name_of(spec), PostParams::default());
        let created = match self.client.call(Purpose::Create, || deployments.create(&params, &made)).await {
            // The response to an earlier request was lost.
            Err(error) if error.is_already_exists() => {
                self.client.call(Purpose::Create, || deployments.get(&name)).await?
            }
            created => created?,
        };
        let made = secret(&self.identity, spec, &created.uid().unwrap_or_default());
        match self.client.call(Purpose::Create, || secrets.create(&params, &made)).await {
            Err(error) if error.is_already_exists() => {
                // It may belong to a Deployment of this name that was removed, and would be removed as well.
                let patch = json!({"metadata": {"ownerReferences": made.metadata.owner_references}, "stringData": made.string_data});
                let (patch, params) = (Patch::Merge(patch), PatchParams::default());
                self.client.call(Purpose::Create, || secrets.patch(&name, &params, &patch)).await?;
            }
            created => drop(created?),
        }
        self.created.lock().insert(spec.id.clone(), name.clone());
        Ok(name)
    }

    async fn delete(&self, name: &str) -> Result<(), WorkerPodsError> {
        let (deployments, params) = (self.api::<Deployment>(), DeleteParams::background());
        self.client.find(Purpose::Delete, || deployments.delete(name, &params)).await?;
        Ok(())
    }

    fn pods_of(&self, id: &str) -> Vec<Arc<Pod>> {
        self.pods.objects.state_filter(|pod| pod.labels().get(GROUP_LABEL).is_some_and(|group| group == id))
    }
}

#[async_trait]
impl WorkerPods for KubernetesWorkers {
    fn check(&self, spec: &WorkerSpec) -> Result<(), String> {
        match image(spec, &self.settings.pods) {
            Some(_) => Ok(()),
            None => Err("the workers of the version have no image: set runtimeVersions.VERSION.image of the server \
                         configuration, or start the server with --kubernetes-image"
                .to_owned()),
        }
    }

    async fn apply(&self, spec: &WorkerSpec, replicas: usize) -> Result<(), WorkerPodsError> {
        let deployments = self.api::<Deployment>();
        let (patch, params) = (Patch::Merge(json!({"spec": {"replicas": replicas}})), PatchParams::default());
        let known = self.created.lock().get(&spec.id).cloned();
        if let Some(name) = known {
            if self.client.find(Purpose::Create, || deployments.patch(&name, &params, &patch)).await?.is_some() {
                return Ok(());
            }
            // Someone else has removed it, and its Secret follows.
            self.created.lock().remove(&spec.id);
        }
        let name = self.create(spec).await?;
        self.client.call(Purpose::Create, || deployments.patch(&name, &params, &patch)).await?;
        Ok(())
    }

    async fn prefer_removal(&self, pod: &str, is_preferred: bool) -> Result<(), WorkerPodsError> {
        let cost = is_preferred.then_some(CHEAP);
        let patch = Patch::Merge(json!({"metadata": {"annotations": {DELETION_COST: cost}}}));
        let (pods, params) = (self.api::<Pod>(), PatchParams::default());
        self.client.find(Purpose::Create, || pods.patch(pod, &params, &patch)).await?;
        Ok(())
    }

    async fn kill(&self, pod: &str) -> Result<(), WorkerPodsError> {
        let (pods, params) = (self.api::<Pod>(), DeleteParams::default());
        self.client.find(Purpose::Delete, || pods.delete(pod, &params)).await?;
        Ok(())
    }

    async fn remove(&self, id: &str) -> Result<(), WorkerPodsError> {
        let known = self.created.lock().get(id).cloned();
        let names = match known {
            Some(name) => vec![name],
            // The response to its creation was lost.
            None => {
                let (deployments, params) =
                    (self.api::<Deployment>(), ListParams::default().labels(&format!("{GROUP_LABEL}={id}")));
                let listed = self.client.call(Purpose::Delete, || deployments.list(&params)).await?;
                listed.items.iter().map(ResourceExt::name_any).collect()
            }
        };
        for name in names {
            self.delete(&name).await?;
        }
        self.created.lock().remove(id);
        Ok(())
    }

    async fn sweep(&self, live: &(dyn for<'a> Fn(&'a str) -> bool + Sync)) -> Result<(), WorkerPodsError> {
        let (deployments, params) = (self.api::<Deployment>(), ListParams::default().labels(&selector(&self.identity)));
        let listed = self.client.call(Purpose::Delete, || deployments.list(&params)).await?;
        for left in listed.items {
            let id = left.labels().get(GROUP_LABEL);
            if left.metadata.deletion_timestamp.is_some() || id.is_none_or(|id| live(id)) {
                continue;
            }
            tracing::info!(
                kubernetes.deployment = left.name_any(),
                "removing workers that no version of this server has"
            );
            self.delete(&left.name_any()).await?;
        }
        Ok(())
    }

    fn state(&self, id: &str) -> WorkersState {
        if self.pods.objects.wait_until_ready().now_or_never().is_none()
            || self.deployments.objects.wait_until_ready().now_or_never().is_none()
        {
            return WorkersState::default();
        }
        let found =
            self.deployments.objects.state_filter(|one| one.labels().get(GROUP_LABEL).is_some_and(|group| group == id));
        let pods = self.pods_of(id);
        worker_state::state(found.first().map(AsRef::as_ref), pods.iter().map(AsRef::as_ref))
    }

    fn changes(&self, id: &str) -> Subscription<String> {
        self.changes.subscribe(id.to_owned())
    }

    async fn log(&self, id: &str, limit: u64) -> Result<String, WorkerPodsError> {
        let mut pods = self.pods_of(id);
        pods.sort_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
        let first = pods.len().saturating_sub(MAX_LOGS);
        let params = LogParams {
            container: Some(WORKER.to_owned()),
            tail_lines: Some(LOG_LINES),
            limit_bytes: Some(LOG_BYTES),
            ..LogParams::default()
        };
        let mut text = String::new();
        for pod in &pods[first..] {
            let (api, name) = (self.api::<Pod>(), pod.name_any());
            match self.client.find(Purpose::Read, || api.logs(&name, &params)).await {
                Ok(log) => text.push_str(&format!("==> {name}\n{}\n", log.unwrap_or_default().trim_end())),
                // A container that has not started has no log.
                Err(error) if error.is_refusal() => text.push_str(&format!("==> {name}\n({error})\n")),
                Err(error) => return Err(error.into()),
            }
        }
        let excess = text.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
        let start = (excess..=text.len()).find(|start| text.is_char_boundary(*start)).unwrap_or(0);
        Ok(text.split_off(start))
    }
}
