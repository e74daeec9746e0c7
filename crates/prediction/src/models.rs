//! Storage of models: documents, by project.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;
use tunesmith_domain::{Code, Refusal};
use tunesmith_executor::local::{Identities, Identity, PassedEnvironment};
use tunesmith_jobs::allowed_folders::AllowedFolders;
use tunesmith_jobs::packages::Packages;
use tunesmith_objects::Buckets;
use tunesmith_packages::{Environments, ProgramUser};
use tunesmith_store::Documents;
use tunesmith_studies::clock::Clock;

use crate::engines::{EngineOptions, Engines};
use crate::limits::WorkerLimits;
use crate::nodes::{Nodes, PredictionTimes};
use crate::pods::{Group, PodPlatform};
use crate::pool::Pool;
use crate::records::Model;

/// Kind of the documents that name the projects with models.
pub(crate) const PROJECTS: &str = "model-projects";

/// Age after which a model is read again, if other servers may change it.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// Models that are read from the store at a time. A guess.
const PART: usize = 100;

/// Attempts to change a model that others change as well. A guess.
const CONFLICTS: usize = 20;

/// Services behind the use cases of models.
pub struct ModelServices {
    pub documents: Arc<dyn Documents>,
    /// Whether other servers share the documents.
    pub is_shared: bool,
    /// Folder of the files of versions.
    pub folder: PathBuf,
    pub clock: Arc<dyn Clock>,
    pub environments: Arc<Environments>,
    pub packages: Packages,
    pub buckets: Buckets,
    pub allowed_folders: Arc<AllowedFolders>,
    /// Users of workers, as of programs.
    pub identities: Identities,
    /// Variables that workers inherit from this process.
    pub environment: PassedEnvironment,
    pub engine: EngineOptions,
    /// Cluster whose pods are the workers; `None` for processes of this machine.
    pub pods: Option<PodPlatform>,
    /// Limits of workers without a machine type.
    pub limits: WorkerLimits,
    /// Whether new versions are refused: workers would have rights that programs do not have.
    pub refuses_versions: bool,
    pub times: PredictionTimes,
    /// Maximum number of workers of all versions on this server.
    pub max_nodes: usize,
}

/// Use cases of models. Clones share their state.
#[derive(Clone)]
pub struct Models(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) services: ModelServices,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) engines: Arc<Engines>,
    /// Name of this process in operations.
    pub(crate) server: String,
    /// Pools by the UID of their version.
    pub(crate) pools: Mutex<HashMap<String, Arc<OnceCell<Arc<Pool>>>>>,
    /// Groups of pods by their ID.
    pub(crate) worker_groups: Mutex<HashMap<String, Weak<Group>>>,
    /// Whether the server ends.
    pub(crate) is_closing: watch::Sender<bool>,
    /// Operations that this process runs, by project and ID; the value requests their cancellation.
    pub(crate) running: Mutex<HashMap<(String, String), watch::Sender<bool>>>,
    /// By project and name, with the time of the last read.
    cache: Mutex<HashMap<(String, String), Cached>>,
    /// Counts the changes by this process.
    changes: AtomicU64,
}

type Cached = (Instant, Arc<Model>);

impl Models {
    /// Starts nothing.
    pub fn new(services: ModelServices) -> Self {
        let nodes = Arc::new(Nodes::new(services.max_nodes));
        let variables = services.environment.of_this_process().into_iter().collect();
        let engines = Engines::new(services.engine.clone(), &services.folder, services.identities.clone(), variables);
        Self(Arc::new(Inner {
            nodes,
            engines: Arc::new(engines),
            server: hex::encode(rand::random::<[u8; 8]>()),
            pools: Mutex::default(),
            worker_groups: Mutex::default(),
            is_closing: watch::channel(false).0,
            running: Mutex::default(),
            cache: Mutex::default(),
            changes: AtomicU64::new(0),
            services,
        }))
    }

    /// The model `name` of `project`.
    ///
    /// # Errors
    /// [`Code::NotFound`]; failures of the store.
    pub async fn model(&self, project: &str, name: &str) -> Result<Model, Refusal> {
        self.0.stored(project, name).await.map(|(_, model)| model)
    }

    /// All models of `project`, by name.
    ///
    /// # Errors
    /// Failures of the store.
    pub async fn models(&self, project: &str) -> Result<Vec<Model>, Refusal> {
        self.models_after(project, "", usize::MAX, |_| true).await
    }

    /// The first `limit` models of `project` whose names follow `after` and that `accepts` selects, by name. Reads the
    /// store in parts, up to the last of them.
    ///
    /// # Errors
    /// Failures of the store.
    pub async fn models_after(
        &self,
        project: &str,
        after: &str,
        limit: usize,
        accepts: impl Fn(&Model) -> bool,
    ) -> Result<Vec<Model>, Refusal> {
        let (mut found, mut after, kind) = (Vec::new(), after.to_owned(), kind(project));
        while found.len() < limit {
            let part = self.0.services.documents.list_after(&kind, &after, PART).await?;
            let is_last = part.len() < PART;
            for (name, body) in part {
                let model = decoded(project, &name, &body)?;
                after = name;
                if found.len() < limit && !model.is_deleted && accepts(&model) {
                    found.push(model);
                }
            }
            if is_last {
                break;
            }
        }
        Ok(found)
    }

    /// Number that changes with the models, their workers and their requests, without a read of the store; `None` if other
    /// servers may change the models.
    pub fn state_number(&self) -> Option<u64> {
        if self.0.services.is_shared {
            return None;
        }
        let hashed = |value: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            value(&mut hasher);
            hasher.finish()
        };
        let pools = self.0.pools.lock();
        let workers = pools.iter().filter_map(|(uid, cell)| Some((uid, cell.get()?.status())));
        // A sum, since the order of the pools may change.
        let workers = workers.map(|(uid, status)| {
            let numbers = (status.ready, status.starting, status.waiting, status.requests, status.failures);
            hashed(&|hasher| (uid, numbers).hash(hasher))
        });
        let changes = self.0.changes.load(Ordering::Acquire);
        Some(workers.fold(hashed(&|hasher| changes.hash(hasher)), u64::wrapping_add))
    }

    /// Whether workers run in the pods of a cluster, from images.
    pub fn runs_in_pods(&self) -> bool {
        self.0.services.pods.is_some()
    }

    /// Ends what outlives the server otherwise, such as pods, within `limit`.
    pub async fn close(&self, limit: Duration) {
        self.0.close_pods(limit).await;
    }

    /// Maximum number of workers of all versions on this server.
    pub fn max_nodes(&self) -> usize {
        self.0.services.max_nodes
    }

    /// Projects that have, or had, models.
    ///
    /// # Errors
    /// Failures of the store.
    pub async fn projects(&self) -> Result<Vec<String>, Refusal> {
        Ok(self.0.services.documents.list(PROJECTS).await?.into_iter().map(|(name, ..)| name).collect())
    }
}

impl Inner {
    pub(crate) fn identity(&self, project: &str) -> Option<&Identity> {
        self.services.identities.of(project)
    }

    pub(crate) fn program_user(&self, project: &str) -> Option<ProgramUser> {
        let Identity { uid, gid, groups, home, .. } = self.identity(project)?.clone();
        Some(ProgramUser { uid, gid, groups, home: home.into() })
    }

    /// A model with its stored form.
    async fn stored(&self, project: &str, name: &str) -> Result<(Vec<u8>, Model), Refusal> {
        let stored = self.services.documents.part(&kind(project), name, 0).await?;
        let body = stored.ok_or_else(|| not_found(project, name))?;
        let model = decoded(project, name, &body)?;
        if model.is_deleted {
            return Err(not_found(project, name));
        }
        Ok((body, model))
    }

    /// A model that was current at most [`SHARED_FOR`] ago.
    pub(crate) async fn recent(&self, project: &str, name: &str) -> Result<Arc<Model>, Refusal> {
        let key = (project.to_owned(), name.to_owned());
        let is_shared = self.services.is_shared;
        if let Some((read, model)) = self.cache.lock().get(&key)
            && (!is_shared || read.elapsed() < SHARED_FOR)
        {
            return Ok(Arc::clone(model));
        }
        let changes = self.changes.load(Ordering::Acquire);
        let model = match self.stored(project, name).await {
            Ok((_, model)) => Arc::new(model),
            Err(error) => {
                self.cache.lock().remove(&key);
                return Err(error);
            }
        };
        let mut cache = self.cache.lock();
        // A change since then has a newer model.
        if self.changes.load(Ordering::Acquire) == changes {
            cache.insert(key, (Instant::now(), Arc::clone(&model)));
        }
        Ok(model)
    }

    /// Stores a new model.
    pub(crate) async fn add(&self, model: Model) -> Result<Model, Refusal> {
        let documents = &self.services.documents;
        documents.get_or_put(PROJECTS, &model.project, b"{}".to_vec()).await?;
        let body = encoded(&model)?;
        if !documents.replace(&kind(&model.project), &model.name, None, body).await? {
            let text = format!("model {} already exists", model.resource_name());
            return Err(Refusal::new(Code::AlreadyExists, text));
        }
        self.changed(&model);
        Ok(model)
    }

    /// Applies `change` to the current state of a model.
    pub(crate) async fn change(
        &self,
        project: &str,
        name: &str,
        change: impl Fn(&mut Model) -> Result<(), Refusal>,
    ) -> Result<Model, Refusal> {
        for _ in 0..CONFLICTS {
            let (before, mut model) = self.stored(project, name).await?;
            change(&mut model)?;
            model.revision += 1;
            if self.services.documents.replace(&kind(project), name, Some(before), encoded(&model)?).await? {
                self.changed(&model);
                return Ok(model);
            }
        }
        let text =
            format!("gave up after {CONFLICTS} conflicting changes of model projects/{project}/models/{name}; retry");
        Err(Refusal::new(Code::Aborted, text))
    }

    /// Removes a model that was marked as deleted.
    pub(crate) async fn forget(&self, project: &str, name: &str) -> Result<(), Refusal> {
        Ok(self.services.documents.remove(&kind(project), name).await?)
    }

    fn changed(&self, model: &Model) {
        let key = (model.project.clone(), model.name.clone());
        let mut cache = self.cache.lock();
        self.changes.fetch_add(1, Ordering::AcqRel);
        if model.is_deleted {
            cache.remove(&key);
            return;
        }
        let is_newer = cache
            .get(&key)
            .is_none_or(|(_, cached)| cached.create_time != model.create_time || cached.revision < model.revision);
        if is_newer {
            cache.insert(key, (Instant::now(), Arc::new(model.clone())));
        }
    }
}

pub(crate) fn kind(project: &str) -> String {
    format!("models/{project}")
}

fn encoded(model: &Model) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(model).map_err(|error| {
        tracing::error!(model = model.resource_name(), %error, "a model cannot be stored");
        Refusal::new(Code::Internal, "the model cannot be stored; see the server's log")
    })
}

pub(crate) fn decoded(project: &str, name: &str, body: &[u8]) -> Result<Model, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        tracing::error!(model = name, project, %error, "a stored model cannot be read");
        Refusal::new(
            Code::Internal,
            format!("model projects/{project}/models/{name} cannot be read; see the server's log"),
        )
    })
}

fn not_found(project: &str, name: &str) -> Refusal {
    Refusal::new(Code::NotFound, format!("model projects/{project}/models/{name} does not exist"))
}
