//! Watch cache of this server's Jobs and pods, and of events that explain missing pods.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::Api;
use kube::core::NamespaceResourceScope;
use kube::runtime::reflector::{Lookup, ObjectRef, Store, store};
use kube::runtime::watcher::{Config, Error as WatchError};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Error, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::task::AbortHandle;

use super::names::{RUN_LABEL, attempt_key, selector};
use super::state::{quoted, waits_for};
use tunesmith_executor::remote::{Changes, Subscription};

/// Status code for an expired resource version.
const GONE: u16 = 410;

/// Delay before relisting after a 410.
const RELIST_PAUSE: Duration = Duration::from_millis(500);

/// Job controller events: pod creation failed.
const FAILED_CREATIONS: &str = "involvedObject.kind=Job,reason=FailedCreate";

/// Kubelet events: image pull started.
const PULLS: &str = "involvedObject.kind=Pod,reason=Pulling";

/// All watches: one per kind and namespace.
pub(super) struct Watched {
    client: Client,
    namespaces: Mutex<HashMap<String, Arc<Namespace>>>,
    /// By [`attempt_key`]. Subscribers are notified once the change is visible here.
    changes: Changes<String>,
}

struct Namespace {
    jobs: Watch<Job>,
    pods: Watch<Pod>,
    /// Started once a Job has no pod.
    events: OnceLock<Watch<Event>>,
    /// Started once a pod is being created.
    pulls: OnceLock<Watch<Event>>,
}

/// Objects of one kind in a namespace, kept current by a task.
pub(super) struct Watch<K: Lookup + 'static>
where
    K::DynamicType: Eq + Hash,
{
    pub(super) objects: Store<K>,
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
        Self { client, namespaces: Mutex::default(), changes: Changes::default() }
    }

    /// Subscribes to changes of the attempt with the [`attempt_key`] `attempt`.
    pub(super) fn changes(&self, attempt: String) -> Subscription<String> {
        self.changes.subscribe(attempt)
    }

    pub(super) fn job(&self, identity: &str, namespace: &str, name: &str) -> Option<Arc<Job>> {
        self.namespace(identity, namespace).jobs.objects.get(&ObjectRef::new(name).within(namespace))
    }

    /// Known pods of the run `name`; `None` before the first list.
    pub(super) fn pods(&self, identity: &str, namespace: &str, name: &str) -> Option<Vec<Pod>> {
        let pods = &self.namespace(identity, namespace).pods.objects;
        pods.wait_until_ready().now_or_never()?.ok()?;
        let found = pods.state_filter(|pod| pod.labels().get(RUN_LABEL).is_some_and(|run| run == name));
        Some(found.into_iter().map(Arc::unwrap_or_clone).collect())
    }

    /// Reason why the Job controller creates no pod for the Job with UID `job`, such as an exhausted quota; `None` if
    /// it reports none.
    pub(super) fn refusal(&self, identity: &str, namespace: &str, job: &str) -> Option<String> {
        let watched = self.namespace(identity, namespace);
        let events = watched.events.get_or_init(|| {
            let jobs = watched.jobs.objects.clone();
            self.events(namespace, FAILED_CREATIONS, move |job| attempt_key(jobs.get(job)?.labels()))
        });
        let newest = newest(events, |event| event.involved_object.uid.as_deref() == Some(job))?;
        Some(format!("FailedCreate: {}", quoted(newest.message.as_deref().unwrap_or_default())))
    }

    /// Description of the image pull that a container of `pod` waits for; `None` if none is reported.
    pub(super) fn pull(&self, identity: &str, namespace: &str, pod: &Pod) -> Option<String> {
        let watched = self.namespace(identity, namespace);
        let events = watched.pulls.get_or_init(|| {
            let pods = watched.pods.objects.clone();
            self.events(namespace, PULLS, move |pod| attempt_key(pods.get(pod)?.labels()))
        });
        let newest = newest(events, |event| {
            let object = &event.involved_object;
            object.uid == pod.metadata.uid && object.field_path.as_deref().is_some_and(|path| waits_for(pod, path))
        })?;
        let message = quoted(newest.message.as_deref()?);
        let image = message.strip_prefix("Pulling image ").unwrap_or(&message);
        Some(format!("its node is pulling the image {image}"))
    }

    /// Watches the events of `namespace` matching `fields`. `attempt` extracts the attempt from an event.
    fn events<K: Lookup<DynamicType = ()>>(
        &self,
        namespace: &str,
        fields: &str,
        attempt: impl Fn(&ObjectRef<K>) -> Option<String> + Send + Sync + 'static,
    ) -> Watch<Event> {
        self.watch(namespace, Config::default().fields(fields), move |event: &Event| {
            let object = &event.involved_object;
            attempt(&ObjectRef::new(object.name.as_deref()?).within(object.namespace.as_deref()?))
        })
    }

    /// State of `namespace`; starts its watches on first use.
    fn namespace(&self, identity: &str, namespace: &str) -> Arc<Namespace> {
        let mut namespaces = self.namespaces.lock();
        let watched = namespaces.entry(namespace.to_owned()).or_insert_with(|| {
            let ours = Config::default().labels(&selector(identity));
            Arc::new(Namespace {
                jobs: self.watch(namespace, ours.clone(), |job: &Job| attempt_key(job.labels())),
                pods: self.watch(namespace, ours, |pod: &Pod| attempt_key(pod.labels())),
                events: OnceLock::new(),
                pulls: OnceLock::new(),
            })
        });
        Arc::clone(watched)
    }

    /// As the function [`watch`].
    fn watch<K>(
        &self,
        namespace: &str,
        config: Config,
        attempt: impl Fn(&K) -> Option<String> + Send + Sync + 'static,
    ) -> Watch<K>
    where
        K: Resource<Scope = NamespaceResourceScope> + Lookup + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        <K as Lookup>::DynamicType: Eq + Hash + Clone + Default + Send + Sync,
        <K as Resource>::DynamicType: Default,
    {
        watch(&self.client, &self.changes, namespace, config, attempt)
    }
}

/// Spawns a list-and-watch task for objects matching `config`. `key` extracts the key of an object in `changes`.
pub(super) fn watch<K>(
    client: &Client,
    changes: &Changes<String>,
    namespace: &str,
    config: Config,
    key: impl Fn(&K) -> Option<String> + Send + Sync + 'static,
) -> Watch<K>
where
    K: Resource<Scope = NamespaceResourceScope> + Lookup + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    <K as Lookup>::DynamicType: Eq + Hash + Clone + Default + Send + Sync,
    <K as Resource>::DynamicType: Default,
{
    let (objects, mut writer) = store();
    let (api, namespace) = (Api::namespaced(client.clone(), namespace), namespace.to_owned());
    let changes = changes.clone();
    let task = tokio::spawn(async move {
        let mut apply = |event: &watcher::Event<K>| {
            writer.apply_watcher_event(event);
            match event {
                watcher::Event::Apply(object) | watcher::Event::Delete(object) => {
                    key(object).iter().for_each(|key| changes.notify(key));
                }
                watcher::Event::InitDone => changes.notify_all(),
                watcher::Event::Init | watcher::Event::InitApply(_) => {}
            }
        };
        // The watcher relists after a 410 event, but keeps its version after a 410 response.
        loop {
            follow(&api, &namespace, config.clone(), &mut apply).await;
            tokio::time::sleep(RELIST_PAUSE).await;
        }
    });
    Watch { objects, task: task.abort_handle() }
}

/// Newest event accepted by `is_wanted`.
fn newest(events: &Watch<Event>, is_wanted: impl Fn(&Event) -> bool) -> Option<Arc<Event>> {
    let found = events.objects.state_filter(is_wanted);
    found.into_iter().max_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0))
}

/// Applies changes from `api` until a relist is needed.
async fn follow<K>(api: &Api<K>, namespace: &str, config: Config, apply: &mut impl FnMut(&watcher::Event<K>))
where
    K: Resource + Lookup + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    <K as Lookup>::DynamicType: Eq + Hash + Clone + Default + Send + Sync,
{
    // Backs off after each error.
    let changes = watcher(api.clone(), config).default_backoff().modify(|object| object.managed_fields_mut().clear());
    let mut changes = std::pin::pin!(changes);
    // One log line per outage.
    let mut is_lost = false;
    while let Some(change) = changes.next().await {
        match change {
            Ok(event) => {
                is_lost = false;
                apply(&event);
            }
            Err(WatchError::WatchStartFailed(Error::Api(status))) if status.code == GONE => return,
            Err(WatchError::WatchError(status)) if status.code == GONE => {
                tracing::debug!("the objects in Kubernetes are listed again");
            }
            Err(error) => {
                let kind = std::any::type_name::<K>().rsplit("::").next();
                let error = &error as &dyn std::error::Error;
                if std::mem::replace(&mut is_lost, true) {
                    tracing::debug!(
                        kubernetes.kind = kind,
                        kubernetes.namespace = namespace,
                        error,
                        "the watch is still lost"
                    );
                } else {
                    tracing::warn!(
                        kubernetes.kind = kind,
                        kubernetes.namespace = namespace,
                        error,
                        "lost the watch of the cluster; retrying"
                    );
                }
            }
        }
    }
}
