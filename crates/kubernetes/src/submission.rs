//! Creation, lookup and deletion of an agent's objects.
//!
//! The namespace is recorded before anything is created, the Job's UID afterwards. After a crash in between, the
//! server finds the Job by name. A Job of the same name with another UID is a different one.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Uri;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use super::client::{ApiError, Purpose};
use super::names::{RUN_LABEL, SERVER_LABEL, STORE_LABEL, name_of};
use super::{KubernetesEngine, io_failed, objects, state, unreachable};
use tunesmith_executor::remote::{AgentId, AgentSpec};
use tunesmith_executor::{ExecutorError, ExecutorJobId, ExecutorJobSpec};

/// A recorded submission.
pub(super) struct Recorded {
    pub(super) name: String,
    pub(super) namespace: String,
    /// UID of the Job; `None` until its creation is confirmed.
    pub(super) uid: Option<String>,
}

impl Recorded {
    /// Parses the record `NAMESPACE UID` of the submission `name`.
    pub(super) fn new(name: String, note: &str) -> Self {
        let mut words = note.split_whitespace().map(str::to_owned);
        Self { name, namespace: words.next().unwrap_or_default(), uid: words.next() }
    }
}

impl KubernetesEngine {
    pub(super) fn jobs(&self, namespace: &str) -> Api<Job> {
        Api::namespaced(self.client.kube.clone(), namespace)
    }

    fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.client.kube.clone(), namespace)
    }

    pub(super) fn identity(&self, id: &ExecutorJobId) -> Result<&str, ExecutorError> {
        self.submitted.identity().map_err(io_failed(id))
    }

    pub(super) fn recorded(&self, id: &AgentId) -> Result<Option<Recorded>, ExecutorError> {
        let name = name_of(self.identity(&id.run)?, id);
        let note = self.submitted.note(&name).map_err(io_failed(&id.run))?;
        Ok(note.map(|note| Recorded::new(name, &note)))
    }

    /// Creates the objects of `spec` from the specification in `file`. Idempotent: some may already exist.
    pub(super) async fn submit(&self, spec: &ExecutorJobSpec, file: &Path) -> Result<(), ExecutorError> {
        let (id, agent_id) = (&spec.id, AgentId::of(spec));
        if self.recorded(&agent_id)?.is_some_and(|recorded| recorded.uid.is_some()) {
            return Ok(());
        }
        let identity = self.identity(id)?;
        let rejected = |reason| ExecutorError::Rejected { id: id.clone(), reason };
        let text = tokio::fs::read(file).await.map_err(io_failed(id))?;
        let agent: AgentSpec = serde_json::from_slice(&text).map_err(|error| io_failed(id)(error.into()))?;
        self.check_address(&agent.spec.server.address).map_err(rejected)?;
        let text = objects::agent_spec(agent).map_err(rejected)?;
        let mut job = objects::job(identity, spec, &self.settings.pods).map_err(rejected)?;
        if let Some(store) = &self.settings.store {
            job.labels_mut().insert(STORE_LABEL.to_owned(), store.clone());
        }
        let namespace = spec.placement.queue.as_deref().unwrap_or(&self.namespace);
        let name = name_of(identity, &agent_id);
        self.submitted.add(&name, namespace).map_err(io_failed(id))?;
        let secret = objects::secret(identity, &agent_id, &text);
        let created = match self.write_secret(namespace, &secret).await {
            Ok(()) => self.create_job(namespace, &job, identity).await,
            Err(error) => Err(error),
        };
        let created = match created {
            Ok(created) => created,
            Err(error) => {
                let Some(reason) = error.invalid_field().map(str::to_owned) else { return Err(unreachable(id, error)) };
                // Removes what was created so far.
                if let Err(error) = self.delete_secret(namespace, &name).await {
                    tracing::debug!(error = &error as &dyn std::error::Error, "no secret was removed");
                }
                let reason = format!("Kubernetes refuses it: {}", state::quoted(&reason));
                return Err(ExecutorError::Refused { id: id.clone(), reason });
            }
        };
        let uid = created.uid().unwrap_or_default();
        // Garbage-collected with the Job, even if this server never returns.
        let owner = json!({"metadata": {"ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid},
        ]}});
        let (secrets, patch, params) = (self.secrets(namespace), Patch::Merge(owner), PatchParams::default());
        let owned = self.client.find(Purpose::Create, || secrets.patch(&name, &params, &patch)).await;
        owned.map_err(|error| unreachable(id, error))?;
        self.submitted.add(&name, &format!("{namespace} {uid}")).map_err(io_failed(id))
    }

    /// Checks that pods can reach the server at its `specified` address, or at that of the settings.
    fn check_address(&self, specified: &str) -> Result<(), String> {
        let address = self.settings.pods.server.as_deref().unwrap_or(specified);
        check_address(address, &self.address, &self.has_warned)
    }

    /// Creates `secret`, or overwrites one left by an interrupted submission.
    async fn write_secret(&self, namespace: &str, secret: &Secret) -> Result<(), ApiError> {
        let (secrets, params) = (self.secrets(namespace), PostParams::default());
        match self.client.call(Purpose::Create, || secrets.create(&params, secret)).await {
            Err(error) if error.is_already_exists() => {
                let patch = Patch::Merge(json!({
                    "metadata": {"ownerReferences": null}, "stringData": secret.string_data,
                }));
                let (name, params) = (secret.name_any(), PatchParams::default());
                self.client.call(Purpose::Create, || secrets.patch(&name, &params, &patch)).await.map(drop)
            }
            created => created.map(drop),
        }
    }

    /// Creates `job`, or returns the one from an earlier submission.
    async fn create_job(&self, namespace: &str, job: &Job, identity: &str) -> Result<Job, ApiError> {
        let (jobs, params) = (self.jobs(namespace), PostParams::default());
        let name = job.name_any();
        let taken = match self.client.call(Purpose::Create, || jobs.create(&params, job)).await {
            Err(error) if error.is_already_exists() => error,
            created => return created,
        };
        let existing = self.client.call(Purpose::Create, || jobs.get(&name)).await?;
        let is_ours = existing.labels().get(SERVER_LABEL).is_some_and(|server| server == identity);
        if is_ours && existing.metadata.deletion_timestamp.is_none() { Ok(existing) } else { Err(taken) }
    }

    /// Watched Job of `recorded`; `None` if it does not exist.
    pub(super) async fn job(&self, id: &ExecutorJobId, recorded: &Recorded) -> Result<Option<Arc<Job>>, ExecutorError> {
        let Recorded { name, namespace, uid } = recorded;
        let is_recorded = |job: &Job| uid.is_none() || job.uid() == *uid;
        let seen = self.watched.job(self.identity(id)?, namespace, name);
        if let Some(job) = seen.filter(|job| is_recorded(job)) {
            return Ok(Some(job));
        }
        // The watch may lag behind.
        Ok(self.read_job(id, recorded).await?.map(Arc::new))
    }

    /// Like [`Self::job`], bypassing the watch.
    pub(super) async fn read_job(&self, id: &ExecutorJobId, recorded: &Recorded) -> Result<Option<Job>, ExecutorError> {
        let jobs = self.jobs(&recorded.namespace);
        let found = self.client.find(Purpose::Read, || jobs.get(&recorded.name)).await;
        let found = found.map_err(|error| unreachable(id, error))?;
        Ok(found.filter(|job| recorded.uid.is_none() || job.uid() == recorded.uid))
    }

    /// Watched pods of `job`.
    pub(super) async fn pods(
        &self,
        id: &ExecutorJobId,
        recorded: &Recorded,
        job: &Job,
    ) -> Result<Vec<Pod>, ExecutorError> {
        let Recorded { name, namespace, .. } = recorded;
        let seen = self.watched.pods(self.identity(id)?, namespace, name);
        match seen {
            // The pod watch may lag behind the Job watch, and the pod states why the Job ended.
            Some(pods) if !state::has_ended(job) => Ok(of_job(pods, job)),
            _ => self.read_pods(id, recorded, job).await,
        }
    }

    /// Like [`Self::pods`], bypassing the watch.
    pub(super) async fn read_pods(
        &self,
        id: &ExecutorJobId,
        recorded: &Recorded,
        job: &Job,
    ) -> Result<Vec<Pod>, ExecutorError> {
        let pods: Api<Pod> = Api::namespaced(self.client.kube.clone(), &recorded.namespace);
        let params = ListParams::default().labels(&format!("{RUN_LABEL}={}", recorded.name));
        let listed = self.client.call(Purpose::Read, || pods.list(&params)).await;
        Ok(of_job(listed.map_err(|error| unreachable(id, error))?.items, job))
    }

    /// Deletes the objects of `recorded` and their pods.
    pub(super) async fn delete(&self, recorded: &Recorded) -> Result<(), ApiError> {
        let Recorded { name, namespace, uid } = recorded;
        let jobs = self.jobs(namespace);
        let mut params = DeleteParams::background();
        params.preconditions = uid.clone().map(|uid| Preconditions { uid: Some(uid), resource_version: None });
        match self.client.find(Purpose::Delete, || jobs.delete(name, &params)).await {
            Ok(_) => {}
            // Replaced by a Job of another owner.
            Err(error) if error.is_conflict() => return Ok(()),
            Err(error) => return Err(error),
        }
        self.delete_secret(namespace, name).await
    }

    async fn delete_secret(&self, namespace: &str, name: &str) -> Result<(), ApiError> {
        let (secrets, params) = (self.secrets(namespace), DeleteParams::default());
        self.client.find(Purpose::Delete, || secrets.delete(name, &params)).await.map(drop)
    }
}

/// Checks that pods can reach the server at `address`, judging by the address of the cluster. Warns once if only some can.
pub(super) fn check_address(address: &str, cluster: &Uri, has_warned: &AtomicBool) -> Result<(), String> {
    let is_local = |host: Option<&str>| {
        let host = host.unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    };
    let parsed: Option<Uri> = address.parse().ok();
    if !is_local(parsed.as_ref().and_then(Uri::host)) {
        return Ok(());
    }
    let remedy = "set --kubernetes-server to its address in the network of the cluster";
    if !is_local(cluster.host()) {
        return Err(format!("pods cannot reach the server at {address}, a loopback address; {remedy}"));
    }
    // The API server of kind or minikube also listens on loopback; only pods with host networking reach it.
    if !has_warned.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "the server has the loopback address {address}, which only pods with hostNetwork reach; for others, {remedy}"
        );
    }
    Ok(())
}

fn of_job(mut pods: Vec<Pod>, job: &Job) -> Vec<Pod> {
    let uid = job.uid();
    pods.retain(|pod| pod.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref()));
    pods
}
