//! Online prediction.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::OnceCell;
use tunesmith_domain::{Code, Refusal};
use tunesmith_executor::local::Identity;
use tunesmith_store::StoreError;

use crate::changes::found;
use crate::container::{ContainerSettings, own_variables};
use crate::limits::WorkerLimits;
use crate::model_files::VersionFolder;
use crate::models::{Inner, Models};
use crate::pods::WorkerGroup;
use crate::pool::Pool;
use crate::pool_status::{PoolStatus, PredictError};
use crate::python_worker::PythonSettings;
use crate::records::{Model, Version, VersionSpec, VersionState};
use crate::runner::RunnerSettings;
use crate::shared_files;
use crate::worker::{Content, Reply, WorkerSettings};
use crate::worker_log::WorkerLog;

/// Maximum size of a request in bytes, as on MLS1 machines of AI Platform.
pub const MAX_REQUEST_BYTES: usize = 3 << 19;

impl Models {
    /// Predicts with the version `version` of a model, or with its default.
    ///
    /// # Errors
    /// [`Code::NotFound`]; [`Code::FailedPrecondition`] without a default, or for a version that is not ready;
    /// [`Code::InvalidArgument`] for a content type that only containers take;
    /// [`Code::ResourceExhausted`] if too many requests wait; [`Code::Unavailable`] without a worker, or if it ended;
    /// [`Code::DeadlineExceeded`]; failures of the store. Failures of the model are replies.
    pub async fn predict(
        &self,
        project: &str,
        name: &str,
        version: Option<&str>,
        content: Content,
    ) -> Result<Reply, Refusal> {
        let look = |model: Arc<Model>| Ok((served(&model, version)?.name.clone(), model));
        let (named, model) = self.0.index.look(project, name, look).await?;
        let version = found(&model, &named)?;
        let full_name = || format!("version {}/versions/{named}", model.resource_name());
        if let (None, Some(kind)) = (&version.spec.container, &content.content_type)
            && !is_json(kind)
        {
            let text = format!("{kind:?} is not accepted by {}: its workers take application/json", full_name());
            return Err(Refusal::invalid("content-type", text));
        }
        let pool = self.pool(&model, version).await?;
        pool.predict(content).await.map_err(|error| refusal(&full_name(), error))
    }

    /// State of a version's workers on this server; none if it has not been used.
    pub fn status(&self, version: &Version) -> PoolStatus {
        self.running_pool(&version.uid).map(|pool| pool.status()).unwrap_or_default()
    }

    /// The end of the output of a version's workers on this server, at most `limit` bytes.
    ///
    /// # Errors
    /// [`Code::Internal`] if it cannot be read.
    pub async fn log(&self, project: &str, version: &Version, limit: u64) -> Result<String, Refusal> {
        let path = self.0.folder(project, &version.uid).log();
        let pool = self.running_pool(&version.uid);
        if let Some(group) = pool.as_ref().and_then(|pool| pool.pods()) {
            return group.log(limit).await.map_err(|error| {
                Refusal::new(Code::Unavailable, format!("the log of the workers cannot be read: {error}"))
            });
        }
        let read = tokio::task::spawn_blocking(move || match pool {
            Some(pool) => pool.log().tail(limit),
            None => WorkerLog::new(path).tail(limit),
        });
        let read = read.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| {
            tracing::error!(%error, "the log of a version cannot be read");
            Refusal::new(Code::Internal, "the log of the version cannot be read; see the server's log")
        })
    }

    pub(crate) fn running_pool(&self, uid: &str) -> Option<Arc<Pool>> {
        self.0.pools.lock().get(uid).and_then(|cell| cell.get().cloned())
    }

    /// The pool of a version that is ready.
    pub(crate) async fn pool(&self, model: &Model, version: &Version) -> Result<Arc<Pool>, Refusal> {
        let cell = Arc::clone(self.0.pools.lock().entry(version.uid.clone()).or_default());
        let pool = cell.get_or_try_init(|| self.open_pool(model, version)).await;
        pool.cloned().inspect_err(|_| self.forget_pool(&version.uid, &cell))
    }

    fn forget_pool(&self, uid: &str, cell: &Arc<OnceCell<Arc<Pool>>>) {
        let mut pools = self.0.pools.lock();
        if pools.get(uid).is_some_and(|current| Arc::ptr_eq(current, cell) && !cell.initialized()) {
            pools.remove(uid);
        }
    }

    async fn open_pool(&self, model: &Model, version: &Version) -> Result<Arc<Pool>, Refusal> {
        let project = &model.project;
        let folder = self.0.folder(project, &version.uid);
        if !folder.is_complete() {
            self.0.fetch(project, version, &folder).await?;
        }
        self.0.check_installed(&version.spec, &folder)?;
        let clear = folder.clone();
        let cleared = tokio::task::spawn_blocking(move || clear.clear_work()).await;
        if let Ok(Err(error)) = cleared {
            tracing::warn!(%error, "old working folders of workers are not removed");
        }
        let pool = Arc::new(self.0.new_pool((project, &model.name), version, &folder));
        pool.fill();
        Ok(pool)
    }

    /// Applies a changed number of nodes.
    pub(crate) fn rescale(&self, version: &Version) {
        let scaling = version.spec.scaling;
        if let Some(pool) = self.running_pool(&version.uid) {
            pool.scale(scaling.min_nodes(), scaling.max_nodes(self.0.nodes.limit));
        }
    }

    /// Ends the workers of a version. A concurrent call waits as well.
    pub(crate) async fn end_workers(&self, uid: &str) {
        let pool = self.running_pool(uid);
        if let Some(pool) = pool {
            pool.close().await;
        }
        self.0.pools.lock().remove(uid);
    }

    pub(crate) async fn remove_files(&self, project: &str, uid: &str) -> Result<(), Refusal> {
        shared_files::remove(self.0.services.documents.as_ref(), uid).await?;
        self.remove_folder(project, uid).await
    }

    /// Removes the files of a version on this server.
    pub(crate) async fn remove_folder(&self, project: &str, uid: &str) -> Result<(), Refusal> {
        let folder = self.0.folder(project, uid);
        let removed = tokio::task::spawn_blocking(move || folder.remove()).await;
        removed.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(|error| {
            tracing::error!(%error, "the files of a version cannot be removed");
            Refusal::new(Code::Internal, "the files of the version cannot be removed; see the server's log")
        })
    }
}

impl Inner {
    pub(crate) fn folder(&self, project: &str, uid: &str) -> VersionFolder {
        VersionFolder::new(&self.services.folder, project, uid)
    }

    pub(crate) fn new_pool(&self, (project, model): (&str, &str), version: &Version, folder: &VersionFolder) -> Pool {
        let spec = &version.spec;
        let identity = self.identity(project).cloned();
        let log = Arc::new(WorkerLog::new(folder.log()));
        let settings = match &spec.container {
            Some(container) => WorkerSettings::Container(ContainerSettings {
                engines: Arc::clone(&self.engines),
                spec: container.clone(),
                name: version.uid.chars().take(12).collect(),
                own_variables: own_variables(model, &version.name, &spec.machine_type, container),
                model: Some(folder.model()).filter(|_| !spec.deployment_uri.is_empty()),
                identity,
                memory_bytes: spec.memory_bytes,
                milli_cpus: spec.milli_cpus,
                health: self.services.times.health,
                log,
            }),
            None => {
                let title = format!("{model} {}", version.name);
                let pods = self.worker_group((project, model, &title), spec, folder);
                WorkerSettings::Python(self.python_settings(spec, folder, identity, log, pods))
            }
        };
        let (min, max) = (spec.scaling.min_nodes(), spec.scaling.max_nodes(self.nodes.limit));
        let name = format!("projects/{project}/models/{model}/versions/{}", version.name);
        Pool::new(name, settings, self.services.times, Arc::clone(&self.nodes), min, max)
    }

    /// Refuses a version whose packages were prepared for workers elsewhere.
    pub(crate) fn check_installed(&self, spec: &VersionSpec, folder: &VersionFolder) -> Result<(), Refusal> {
        let has_packages = !spec.package_uris.is_empty();
        let (is_missing, place) = match self.services.pods {
            Some(_) => (has_packages && !folder.archives().exists(), "on the server's machine"),
            None => {
                let has_packages = has_packages || !spec.requirements.is_empty();
                (has_packages && !folder.packages().exists(), "on Kubernetes")
            }
        };
        if is_missing {
            let text = format!("the version was created for workers {place}, with packages for them: create it again");
            return Err(Refusal::new(Code::FailedPrecondition, text));
        }
        Ok(())
    }

    /// Settings of workers of `spec`, whose files are in `folder`.
    pub(crate) fn python_settings(
        &self,
        spec: &VersionSpec,
        folder: &VersionFolder,
        identity: Option<Identity>,
        log: Arc<WorkerLog>,
        pods: Option<Arc<WorkerGroup>>,
    ) -> PythonSettings {
        let existing = [folder.scripts(), folder.packages()].into_iter().filter(|path| path.exists());
        let own = self.services.limits;
        let limits = WorkerLimits {
            memory_bytes: spec.memory_bytes.unwrap_or(own.memory_bytes),
            threads: spec.milli_cpus.map_or(own.threads, |milli| milli.div_ceil(1000) as usize).max(1),
            ..own
        };
        PythonSettings {
            limits,
            runner: RunnerSettings {
                model_dir: folder.model(),
                framework: spec.framework,
                prediction_class: spec.prediction_class.clone(),
                package_uris: spec.package_uris.clone(),
                paths: existing.collect(),
                once: false,
            },
            python: spec.python.clone().unwrap_or_else(|| "python3".into()),
            variables: self.services.environment.of_this_process().into_iter().collect::<BTreeMap<_, _>>(),
            identity,
            work: folder.work(),
            log,
            pods,
        }
    }

    /// Gets the files of a version from the documents: another server has created it, or its store is a copy.
    pub(crate) async fn fetch(&self, project: &str, version: &Version, folder: &VersionFolder) -> Result<(), Refusal> {
        let failed = |error: std::io::Error| {
            tracing::error!(%error, "the files of a version cannot be written");
            Refusal::new(Code::Internal, "the files of the version cannot be written; see the server's log")
        };
        folder.start_over(self.identity(project)).map_err(failed)?;
        match shared_files::fetch(self.services.documents.as_ref(), &version.uid, folder.path()).await {
            Err(StoreError::NotFound { .. }) => {
                let place = folder.path().display();
                let text = format!("the files of the version are missing in {place}: create the version again");
                return Err(Refusal::new(Code::Internal, text));
            }
            fetched => fetched?,
        }
        let (folder, identity) = (folder.clone(), self.identity(project).cloned());
        let is_public = version.spec.container.is_some();
        let finished = tokio::task::spawn_blocking(move || folder.finish(identity.as_ref(), is_public)).await;
        finished.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(failed)
    }
}

/// The version `name` of `model`, or its default, which is ready.
fn served<'a>(model: &'a Model, name: Option<&str>) -> Result<&'a Version, Refusal> {
    let refused = |text| Err(Refusal::new(Code::FailedPrecondition, text));
    let Some(name) = name.or(model.default_version.as_deref()) else {
        return refused(format!("model {} has no default version: create a version first", model.resource_name()));
    };
    let version = found(model, name)?;
    if version.state != VersionState::Ready {
        let (model, state) = (model.resource_name(), version.state.as_str());
        return refused(format!("version {model}/versions/{name} is {state}, not READY"));
    }
    Ok(version)
}

fn is_json(content_type: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// The refusal of a request without an answer of the model.
fn refusal(version: &str, error: PredictError) -> Refusal {
    match error {
        PredictError::Overloaded => {
            let text = format!("{version} is overloaded: too many requests wait for its nodes; retry later");
            Refusal {
                retry_after: Some(std::time::Duration::from_secs(1)),
                ..Refusal::new(Code::ResourceExhausted, text)
            }
        }
        PredictError::NotStarted(reason) => {
            Refusal::new(Code::Unavailable, format!("{version} has no running worker: {reason}"))
        }
        PredictError::Died(how) => Refusal::new(Code::Unavailable, format!("{version}: {how}; retry")),
        PredictError::TimedOut(limit) => {
            Refusal::new(Code::DeadlineExceeded, format!("{version} has not answered within {} s", limit.as_secs_f64()))
        }
        PredictError::Closed => Refusal::new(Code::Unavailable, format!("{version} was deleted or its server ends")),
    }
}
