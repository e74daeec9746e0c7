//! All models of the store in memory. Predictions, lists and polls read only what has changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{RwLock, RwLockReadGuard};
use tokio::time::Instant;
use tunesmith_domain::Refusal;
use tunesmith_store::Documents;

use crate::models::{KINDS, PROJECTS, decoded, kind, not_found, unreadable};
use crate::records::Model;

/// Age after which the index is read again, if other servers may change the models.
pub(crate) const SHARED_FOR: Duration = Duration::from_secs(1);

/// Models that are read from the store at a time. A guess.
pub(crate) const PAGE: usize = 100;

/// Changed models above which the index reads all of them in pages. A guess.
const MAX_CHANGES: usize = 1000;

/// Project and name.
type Key = (String, String);

pub(crate) struct ModelIndex {
    documents: Arc<dyn Documents>,
    /// Whether other servers change the models.
    is_shared: bool,
    /// Shared by changes of this process, from their write to their entry; exclusive for reads of the store, which
    /// therefore never replace a newer entry.
    access: RwLock<()>,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    /// `None` for a model that cannot be read.
    models: BTreeMap<Key, Option<Arc<Model>>>,
    /// Counts the changes of entries.
    changes: u64,
    /// Start of the next read of changes.
    cursor: Option<u64>,
    /// Time of the last successful read.
    read: Option<Instant>,
    /// End of the last read that failed.
    failure: Option<(Instant, Refusal)>,
}

impl Entries {
    fn set(&mut self, key: Key, model: Option<Model>) {
        let version = |model: &Model| (model.create_time, model.revision);
        let is_same = match (self.models.get(&key), &model) {
            (Some(Some(known)), Some(model)) => version(known) == version(model),
            (Some(None), None) => true,
            _ => false,
        };
        if !is_same {
            self.changes += 1;
            self.models.insert(key, model.map(|model| Arc::new(without_messages(model))));
        }
    }
}

/// `model` without the error messages of its versions, which may be large.
fn without_messages(mut model: Model) -> Model {
    for version in &mut model.versions {
        version.error_message = String::new();
    }
    model
}

impl ModelIndex {
    pub(crate) fn new(documents: Arc<dyn Documents>, is_shared: bool) -> Self {
        Self { documents, is_shared, access: RwLock::default(), entries: Mutex::default() }
    }

    /// Result of `look` at the model `name` of `project` as of at most [`SHARED_FOR`] ago, without error messages of versions.
    /// If that fails, at the current one.
    ///
    /// # Errors
    /// Those of `look`; [`tunesmith_domain::Code::NotFound`]; failures of the store.
    pub(crate) async fn look<T>(
        &self,
        project: &str,
        name: &str,
        look: impl Fn(Arc<Model>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        match self.model(project, name, SHARED_FOR).await.and_then(&look) {
            // Another server may have changed it within this time.
            Err(_) if self.is_shared => self.model(project, name, Duration::ZERO).await.and_then(look),
            result => result,
        }
    }

    async fn model(&self, project: &str, name: &str, max_age: Duration) -> Result<Arc<Model>, Refusal> {
        self.refresh(max_age).await?;
        match self.entries.lock().models.get(&(project.to_owned(), name.to_owned())) {
            Some(Some(model)) if !model.is_deleted => Ok(Arc::clone(model)),
            Some(Some(_)) | None => Err(not_found(project, name)),
            Some(None) => Err(unreadable(project, name)),
        }
    }

    /// All models as of at most `max_age` ago, by project and name, without error messages of versions. Includes those that
    /// are being deleted.
    ///
    /// # Errors
    /// Failures of the store, also if one of the models cannot be read.
    pub(crate) async fn all(&self, max_age: Duration) -> Result<Vec<Arc<Model>>, Refusal> {
        self.refresh(max_age).await?;
        let entries = self.entries.lock();
        let all = entries.models.iter();
        all.map(|((project, name), model)| model.clone().ok_or_else(|| unreadable(project, name))).collect()
    }

    /// Number that changes with the models.
    ///
    /// # Errors
    /// Failures of the store.
    pub(crate) async fn changes(&self) -> Result<u64, Refusal> {
        self.refresh(SHARED_FOR).await?;
        Ok(self.entries.lock().changes)
    }

    /// Begins a change of a model, which ends with [`Self::changed`] or [`Self::removed`] before the guard is dropped.
    pub(crate) async fn changing(&self) -> RwLockReadGuard<'_, ()> {
        self.access.read().await
    }

    /// Notes a model as it was stored.
    pub(crate) fn changed(&self, model: &Model) {
        let key = (model.project.clone(), model.name.clone());
        let mut entries = self.entries.lock();
        // A concurrent change may have been stored later and noted earlier.
        let version = |model: &Model| (model.create_time, model.revision);
        let is_newer = |known: &Arc<Model>| version(known) < version(model);
        if entries.models.get(&key).is_none_or(|known| known.as_ref().is_none_or(is_newer)) {
            entries.set(key, Some(model.clone()));
        }
    }

    /// Notes that `model` was removed from the store.
    pub(crate) fn removed(&self, model: &Model) {
        let key = (model.project.clone(), model.name.clone());
        let mut entries = self.entries.lock();
        let is_it = |known: &Arc<Model>| known.create_time == model.create_time;
        if entries.models.get(&key).is_some_and(|known| known.as_ref().is_some_and(is_it)) {
            entries.models.remove(&key);
            entries.changes += 1;
        }
    }

    /// Reads what has changed, unless it was read at most `max_age` ago. Concurrent calls share a read.
    async fn refresh(&self, max_age: Duration) -> Result<(), Refusal> {
        let begin = Instant::now();
        let is_current = |entries: &Entries| {
            entries.read.is_some_and(|read| !self.is_shared || read >= begin || begin.duration_since(read) < max_age)
        };
        if is_current(&self.entries.lock()) {
            return Ok(());
        }
        let _reading = self.access.write().await;
        {
            let entries = self.entries.lock();
            if is_current(&entries) {
                return Ok(());
            }
            if let Some((_, failure)) = entries.failure.as_ref().filter(|(at, _)| *at >= begin) {
                return Err(failure.clone());
            }
        }
        let begin = Instant::now();
        let read = self.read().await;
        let mut entries = self.entries.lock();
        match read {
            Ok(()) => entries.read = Some(begin),
            Err(refusal) => {
                entries.failure = Some((Instant::now(), refusal.clone()));
                return Err(refusal);
            }
        }
        Ok(())
    }

    async fn read(&self) -> Result<(), Refusal> {
        let cursor = self.entries.lock().cursor;
        if let Some(cursor) = cursor
            && let Some(changes) = self.documents.changes(KINDS, Some(cursor), MAX_CHANGES).await?
            && changes.documents.len() < MAX_CHANGES
        {
            let mut entries = self.entries.lock();
            for (kind, name, body) in changes.documents {
                let project = kind.strip_prefix(KINDS).unwrap_or_default();
                let model = decoded(project, &name, &body).ok();
                entries.set((project.to_owned(), name), model);
            }
            entries.cursor = Some(changes.cursor);
            // All changed ones are among the entries, so that an equal number has no removed ones.
            if entries.models.len() <= changes.total {
                return Ok(());
            }
        }
        self.read_all().await
    }

    async fn read_all(&self) -> Result<(), Refusal> {
        // Read again if they change meanwhile.
        let cursor = self.documents.changes(KINDS, None, 0).await?.map(|changes| changes.cursor);
        let mut read = BTreeMap::new();
        for (project, ..) in self.documents.list(PROJECTS).await? {
            let (kind, mut after) = (kind(&project), String::new());
            loop {
                let page = self.documents.list_after(&kind, &after, PAGE).await?;
                let Some((last, _)) = page.last() else { break };
                after.clone_from(last);
                let is_last = page.len() < PAGE;
                for (name, body) in page {
                    let model = decoded(&project, &name, &body).ok();
                    read.insert((project.clone(), name), model);
                }
                if is_last {
                    break;
                }
            }
        }
        let mut entries = self.entries.lock();
        let count = entries.models.len();
        entries.models.retain(|key, _| read.contains_key(key));
        entries.changes += (count - entries.models.len()) as u64;
        for (key, model) in read {
            entries.set(key, model);
        }
        entries.cursor = cursor;
        Ok(())
    }
}
