//! The Jobs and pods of this server, and the events that state why a Job gets no pod, as the API server reports their changes.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::Api;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{Lookup, ObjectRef, Store, store};
use kube::runtime::watcher::{Config, Error as WatchError};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Error, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::task::AbortHandle;

use super::names::{RUN_LABEL, selector};
use super::state::{quoted, waits_for};

/// The code of the answer that a version of the state is not kept any more.
const GONE: u16 = 410;

/// Pause before objects are listed again after an answer of 410.
const RELIST_PAUSE: Duration = Duration::from_millis(500);

/// The events by which the Job controller reports that it cannot create a pod.
const FAILED_CREATIONS: &str = "involvedObject.kind=Job,reason=FailedCreate";

/// The events by which kubelets report that they pull images.
const PULLS: &str = "involvedObject.kind=Pod,reason=Pulling";

/// What is watched: one list and watch of each kind in each namespace.
pub(super) struct Watched {
    client: Client,
    namespaces: Mutex<HashMap<String, Arc<Namespace>>>,
}

struct Namespace {
    jobs: Watch<Job>,
    pods: Watch<Pod>,
    /// Watched once a Job has no pod.
    events: OnceLock<Watch<Event>>,
    /// Watched once a pod is being created.
    pulls: OnceLock<Watch<Event>>,
}

/// The objects of one kind in a namespace, which a task keeps up to date.
struct Watch<K: Lookup + 'static>
where
    K::DynamicType: Eq + Hash,
{
    objects: Store<K>,
    task: AbortHandle,
}

impl<K: Lookup + 'static> Drop for Watch<K>
where
    K::DynamicType: Eq + Hash,
{
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watched {
    pub(super) fn new(client: Client) -> Self {
        Self { client, namespaces: Mutex::default() }
    }

    /// The Job `name` of the server `identity`, if it was seen.
    pub(super) fn job(&self, identity: &str, namespace: &str, name: &str) -> Option<Arc<Job>> {
        self.namespace(identity, namespace).jobs.objects.get(&ObjectRef::new(name).within(namespace))
    }

    /// The pods of the run `name` that were seen; `None` before they were listed.
    pub(super) fn pods(&self, identity: &str, namespace: &str, name: &str) -> Option<Vec<Pod>> {
        let pods = &self.namespace(identity, namespace).pods.objects;
        pods.wait_until_ready().now_or_never()?.ok()?;
        let found = pods.state_filter(|pod| pod.labels().get(RUN_LABEL).is_some_and(|run| run == name));
        Some(found.into_iter().map(Arc::unwrap_or_clone).collect())
    }

    /// Why the Job controller creates no pod for the Job with the UID `job`, such as an exhausted quota; `None` if it reports
    /// nothing.
    pub(super) fn refusal(&self, identity: &str, namespace: &str, job: &str) -> Option<String> {
        let watched = self.namespace(identity, namespace);
        let events = watched.events.get_or_init(|| self.events(namespace, FAILED_CREATIONS));
        let newest = newest(events, |event| event.involved_object.uid.as_deref() == Some(job))?;
        Some(format!("FailedCreate: {}", quoted(newest.message.as_deref().unwrap_or_default())))
    }

    /// The image that the kubelet pulls for a container of `pod` that waits for it, in words; `None` if it reports none.
    pub(super) fn pull(&self, identity: &str, namespace: &str, pod: &Pod) -> Option<String> {
        let watched = self.namespace(identity, namespace);
        let events = watched.pulls.get_or_init(|| self.events(namespace, PULLS));
        let newest = newest(events, |event| {
            let object = &event.involved_object;
            object.uid == pod.metadata.uid && object.field_path.as_deref().is_some_and(|path| waits_for(pod, path))
        })?;
        let message = quoted(newest.message.as_deref()?);
        let image = message.strip_prefix("Pulling image ").unwrap_or(&message);
        Some(format!("its node is pulling the image {image}"))
    }

    fn events(&self, namespace: &str, fields: &str) -> Watch<Event> {
        watch(Api::namespaced(self.client.clone(), namespace), Config::default().fields(fields))
    }

    /// The state of `namespace`; starts to watch it if necessary.
    fn namespace(&self, identity: &str, namespace: &str) -> Arc<Namespace> {
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = namespaces.entry(namespace.to_owned()).or_insert_with(|| {
            let ours = Config::default().labels(&selector(identity));
            Arc::new(Namespace {
                jobs: watch(Api::namespaced(self.client.clone(), namespace), ours.clone()),
                pods: watch(Api::namespaced(self.client.clone(), namespace), ours),
                events: OnceLock::new(),
                pulls: OnceLock::new(),
            })
        });
        Arc::clone(watched)
    }
}

/// The newest of `events` that `is_wanted` accepts.
fn newest(events: &Watch<Event>, is_wanted: impl Fn(&Event) -> bool) -> Option<Arc<Event>> {
    let found = events.objects.state_filter(is_wanted);
    found.into_iter().max_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0))
}

/// Lists and watches the objects of `api` that `config` selects, in a task.
fn watch<K>(api: Api<K>, config: Config) -> Watch<K>
where
    K: Resource + Lookup + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    <K as Lookup>::DynamicType: Eq + Hash + Clone + Default + Send + Sync,
{
    let (objects, mut writer) = store();
    let task = tokio::spawn(async move {
        // The watcher lists again after an event of 410, but keeps its version after an answer of 410.
        loop {
            follow(&api, config.clone(), &mut writer).await;
            tokio::time::sleep(RELIST_PAUSE).await;
        }
    });
    Watch { objects, task: task.abort_handle() }
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
    // Each outage has one line.
    let mut is_lost = false;
    while let Some(change) = changes.next().await {
        match change {
            Ok(event) => {
                is_lost = false;
                writer.apply_watcher_event(&event);
            }
            Err(WatchError::WatchStartFailed(Error::Api(status))) if status.code == GONE => return,
            Err(WatchError::WatchError(status)) if status.code == GONE => {
                tracing::debug!("the objects in Kubernetes are listed again");
            }
            Err(error) => {
                let kind = std::any::type_name::<K>().rsplit("::").next();
                let error = &error as &dyn std::error::Error;
                if std::mem::replace(&mut is_lost, true) {
                    tracing::debug!(kubernetes.kind = kind, error, "the watch of the cluster is still lost");
                } else {
                    tracing::warn!(kubernetes.kind = kind, error, "lost the watch of the cluster; retrying");
                }
            }
        }
    }
}
