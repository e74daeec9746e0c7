//! The class `Engine`: the studies of one store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;

use pyo3::prelude::*;
use serde_json::Value;

use crate::calls::run;
use crate::error::{of_folder, raised};
use crate::methods;
use tunesmith_data_dir::{DataDir, StoreKind};
use tunesmith_domain::{Code, Refusal};
use tunesmith_store::{MemoryStore, Store};
use tunesmith_studies::clock::SystemClock;
use tunesmith_studies::search_policy::SearchPolicy;
use tunesmith_studies::{PendingSuggestions, Studies};

/// Studies in memory or in a data folder.
#[pyclass(frozen, module = "tunesmith._core")]
pub(crate) struct Engine {
    store: Arc<dyn Store>,
    studies: Arc<Studies>,
    folder: Option<PathBuf>,
    /// Process that opened the engine.
    process: u32,
    /// Last field: unlocks the folder after the store is closed.
    _data_dir: Option<DataDir>,
}

#[pymethods]
impl Engine {
    /// Opens the data folder `folder` exclusively, creating it if necessary; studies in memory if it is absent.
    #[new]
    #[pyo3(signature = (folder = None))]
    fn new(py: Python<'_>, folder: Option<PathBuf>) -> PyResult<Self> {
        let Some(folder) = folder else {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            return Ok(Self::of(store, None, PendingSuggestions::default()));
        };
        run(py, async move {
            let data_dir = open(&folder).map_err(|error| of_folder(&error))?;
            let store = data_dir.store().await.map_err(|error| of_folder(&error))?;
            store.finish_deletions().await?;
            let pending = PendingSuggestions::new(data_dir.suggestions());
            Ok(Self::of(store, Some(data_dir), pending))
        })
    }

    /// Calls `method` with `body`, a message of the API as JSON, and returns the response as JSON.
    ///
    /// `study` is the ID of a study, and `trial` the number of a trial, with its attempt if it has several (`7~2`); both
    /// may be empty where the method needs none.
    fn call(&self, py: Python<'_>, method: &str, study: &str, trial: &str, body: &str) -> PyResult<String> {
        if self.folder.is_some() && std::process::id() != self.process {
            let text = "the storage is open in the parent process: a forked process must not use it. Tell results in \
                        the parent, or start a server on the folder";
            return Err(raised(Refusal::new(Code::FailedPrecondition, text)));
        }
        let studies = Arc::clone(&self.studies);
        run(py, async move {
            let value = methods::call(&studies, &self.store, method, study, trial, body).await?;
            serde_json::to_string(&value)
                .map_err(|error| Refusal::new(Code::Internal, format!("the response cannot be written: {error}")))
        })
    }

    /// Adds the study of a snapshot (method `snapshot`) to new studies in memory, and returns them with its ID.
    #[staticmethod]
    fn restore(py: Python<'_>, snapshot: &str) -> PyResult<(Self, String)> {
        run(py, async move {
            let snapshot: Value = serde_json::from_str(snapshot)
                .map_err(|error| Refusal::new(Code::InvalidArgument, format!("not JSON: {error}")))?;
            let store = MemoryStore::new();
            let study = store.restore(snapshot);
            let study =
                study.map_err(|error| Refusal::new(Code::InvalidArgument, format!("not a snapshot: {error}")))?;
            let (_, _, id) = study.parts();
            let id = id.to_owned();
            Ok((Self::of(Arc::new(store), None, PendingSuggestions::default()), id))
        })
    }

    /// Absolute path of the data folder; `None` in memory.
    #[getter]
    fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }
}

impl Engine {
    fn of(store: Arc<dyn Store>, data_dir: Option<DataDir>, pending: PendingSuggestions) -> Self {
        let processors = available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let policy = Arc::new(SearchPolicy::new(Arc::clone(&store), processors));
        let studies = Studies::new(Arc::clone(&store), policy, Arc::new(SystemClock));
        Self {
            store,
            studies: Arc::new(studies.with_pending(pending).without_preparation()),
            folder: data_dir.as_ref().map(|data_dir| data_dir.path().to_owned()),
            process: std::process::id(),
            _data_dir: data_dir,
        }
    }
}

/// Opens `folder` with the kind of store that it holds.
fn open(folder: &Path) -> Result<DataDir, tunesmith_data_dir::DataDirError> {
    let who = std::env::args().collect::<Vec<_>>().join(" ");
    match DataDir::open(folder, StoreKind::default(), &who) {
        Err(tunesmith_data_dir::DataDirError::OtherKind { holds: StoreKind::Sled, .. }) => {
            DataDir::open(folder, StoreKind::Sled, &who)
        }
        opened => opened,
    }
}
