//! Storage of models: documents, by project.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};
use tunesmith_domain::{Code, Refusal};
use tunesmith_executor::local::{Identities, Identity, PassedEnvironment};
use tunesmith_jobs::allowed_folders::AllowedFolders;
use tunesmith_jobs::packages::Packages;
use tunesmith_objects::Buckets;
use tunesmith_packages::{Environments, ProgramUser};
use tunesmith_store::Documents;
use tunesmith_studies::clock::Clock;

use crate::engines::{EngineOptions, Engines};
use crate::index::{ModelIndex, PAGE, SHARED_FOR};
use crate::limits::WorkerLimits;
use crate::nodes::{Nodes, PredictionTimes};
use crate::pods::{Group, PodPlatform};
use crate::pool::Pool;
use crate::records::Model;

/// Kind of the documents that name the projects with models.
pub(crate) const PROJECTS: &str = "model-projects";

/// Beginning of the kinds of the documents of models, before the project.
pub(crate) const KINDS: &str = "models/";

/// Attempts to change a document that others change as well. A guess.
pub(crate) const CONFLICTS: usize = 20;

/// Services behind the use cases of models.
pub struct ModelServices {
    pub documents: Arc<dyn Documents>,
    /// Whether other servers share the documents.
    pub is_shared: bool,
    /// Time without a sign of life after which another server continues the creations of versions.
    pub lease: Duration,
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
    /// UIDs of versions that this process is removing.
    pub(crate) deletions: Mutex<HashSet<String>>,
    pub(crate) index: ModelIndex,
}

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
            deletions: Mutex::default(),
            index: ModelIndex::new(Arc::clone(&services.documents), services.is_shared),
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

    /// All models as of at most a second ago, by project and name, without error messages of versions. Reads only what has
    /// changed.
    ///
    /// # Errors
    /// Failures of the store.
    pub async fn all(&self) -> Result<Vec<Arc<Model>>, Refusal> {
        let mut models = self.0.index.all(SHARED_FOR).await?;
        models.retain(|model| !model.is_deleted);
        Ok(models)
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
            let part = self.0.services.documents.list_after(&kind, &after, PAGE).await?;
            let is_last = part.len() < PAGE;
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

    /// Number that changes with the models, their workers and their requests to this server. Reads only what has changed.
    ///
    /// # Errors
    /// Failures of the store.
    pub async fn state_number(&self) -> Result<u64, Refusal> {
        let changes = self.0.index.changes().await?;
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
        Ok(workers.fold(hashed(&|hasher| changes.hash(hasher)), u64::wrapping_add))
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
    pub(crate) async fn projects(&self) -> Result<Vec<String>, Refusal> {
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

    /// Stores a new model.
    pub(crate) async fn add(&self, model: Model) -> Result<Model, Refusal> {
        let documents = &self.services.documents;
        documents.get_or_put(PROJECTS, &model.project, b"{}".to_vec()).await?;
        // A deletion of a namesake may have been interrupted.
        self.forget(&model.project, &model.name).await?;
        let body = encoded(&model)?;
        let _change = self.index.changing().await;
        if !documents.replace(&kind(&model.project), &model.name, None, body).await? {
            let text = format!("model {} already exists", model.resource_name());
            return Err(Refusal::new(Code::AlreadyExists, text));
        }
        self.index.changed(&model);
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
            let _change = self.index.changing().await;
            if self.services.documents.replace(&kind(project), name, Some(before), encoded(&model)?).await? {
                self.index.changed(&model);
                return Ok(model);
            }
        }
        let text =
            format!("gave up after {CONFLICTS} conflicting changes of model projects/{project}/models/{name}; retry");
        Err(Refusal::new(Code::Aborted, text))
    }

    /// Removes a model that is marked as deleted, if it is.
    pub(crate) async fn forget(&self, project: &str, name: &str) -> Result<(), Refusal> {
        let (documents, kind) = (&self.services.documents, kind(project));
        let Some(body) = documents.part(&kind, name, 0).await? else { return Ok(()) };
        let model = decoded(project, name, &body)?;
        let _change = self.index.changing().await;
        if model.is_deleted && documents.remove_exactly(&kind, name, body).await? {
            self.index.removed(&model);
        }
        Ok(())
    }
}

pub(crate) fn kind(project: &str) -> String {
    format!("{KINDS}{project}")
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
        unreadable(project, name)
    })
}

pub(crate) fn unreadable(project: &str, name: &str) -> Refusal {
    Refusal::new(Code::Internal, format!("model projects/{project}/models/{name} cannot be read; see the server's log"))
}

pub(crate) fn not_found(project: &str, name: &str) -> Refusal {
    Refusal::new(Code::NotFound, format!("model projects/{project}/models/{name} does not exist"))
}
