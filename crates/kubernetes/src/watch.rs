//! The Jobs and pods of this server, as the API server reports their changes.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{Lookup, ObjectRef, Store, store};
use kube::runtime::watcher::{Config, Error as WatchError};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Error, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::task::AbortHandle;

use super::names::{RUN_LABEL, selector};

/// The code of the answer that a version of the state is not kept any more.
const GONE: u16 = 410;

/// Pause before objects are listed again after an answer of 410.
const RELIST_PAUSE: Duration = Duration::from_millis(500);

/// What is watched: one list and watch of each kind in each namespace.
pub(super) struct Watched {
    client: Client,
    namespaces: Mutex<HashMap<String, Arc<Namespace>>>,
}

struct Namespace {
    jobs: Store<Job>,
    pods: Store<Pod>,
    tasks: [AbortHandle; 2],
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Watched {
    pub(super) fn new(client: Client) -> Self {
        Self { client, namespaces: Mutex::default() }
    }

    /// The Job `name` of the server `identity`, if it was seen.
    pub(super) fn job(&self, identity: &str, namespace: &str, name: &str) -> Option<Arc<Job>> {
        self.namespace(identity, namespace).jobs.get(&ObjectRef::new(name).within(namespace))
    }

    /// The pods of the run `name` that were seen; `None` before they were listed.
    pub(super) fn pods(&self, identity: &str, namespace: &str, name: &str) -> Option<Vec<Pod>> {
        let pods = &self.namespace(identity, namespace).pods;
        pods.wait_until_ready().now_or_never()?.ok()?;
        let found = pods.state_filter(|pod| pod.labels().get(RUN_LABEL).is_some_and(|run| run == name));
        Some(found.into_iter().map(Arc::unwrap_or_clone).collect())
    }

    /// The state of `namespace`; starts to watch it if necessary.
    fn namespace(&self, identity: &str, namespace: &str) -> Arc<Namespace> {
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = namespaces.entry(namespace.to_owned()).or_insert_with(|| {
            let (jobs, watching_jobs) = watch(Api::namespaced(self.client.clone(), namespace), identity);
            let (pods, watching_pods) = watch(Api::namespaced(self.client.clone(), namespace), identity);
            Arc::new(Namespace { jobs, pods, tasks: [watching_jobs, watching_pods] })
        });
        Arc::clone(watched)
    }
}

/// Lists and watches the objects of `api` of the server `identity` in a task.
fn watch<K>(api: Api<K>, identity: &str) -> (Store<K>, AbortHandle)
where
    K: Resource + Lookup + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    <K as Lookup>::DynamicType: Eq + Hash + Clone + Default + Send + Sync,
{
    let (store, mut writer) = store();
    let config = Config::default().labels(&selector(identity));
    let task = tokio::spawn(async move {
        // The watcher lists again after an event of 410, but keeps its version after an answer of 410.
        loop {
            follow(&api, config.clone(), &mut writer).await;
            tokio::time::sleep(RELIST_PAUSE).await;
        }
    });
    (store, task.abort_handle())
}

/// Writes the changes of the objects of `api`, until they have to be listed again.
async fn follow<K>(api: &Api<K>, config: Config, writer: &mut Writer<K>)
where
    K: Resource + Lookup + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    <K as Lookup>::DynamicType: Eq + Hash + Clone + Default + Send + Sync,
{
    // It waits longer after each error.
    let changes = watcher(api.clone(), config).default_backoff().modify(|object| object.managed_fields_mut().clear());
    let mut changes = std::pin::pin!(changes);
    while let Some(change) = changes.next().await {
        match change {
            Ok(event) => writer.apply_watcher_event(&event),
            Err(WatchError::WatchStartFailed(Error::Api(status))) if status.code == GONE => return,
            Err(WatchError::WatchError(status)) if status.code == GONE => {
                tracing::debug!("the objects in Kubernetes are listed again");
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "Kubernetes cannot be watched, and is asked again"
                );
            }
        }
    }
}
