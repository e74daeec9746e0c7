//! Operations: records of changes, which clients poll.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tunesmith_domain::{Code, Refusal};
use tunesmith_store::DocumentChanges;

use crate::models::{CONFLICTS, Inner, Models};
use crate::records::{Operation, OperationKind, Outcome, Version};

/// Beginning of the kinds of the documents of operations, before the project.
const KINDS: &str = "model-operations/";

/// Time after its last change for which an operation is kept. A guess.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Interval at which the server of an operation looks for requests of other servers to cancel it.
const CANCELLATION_INTERVAL: Duration = Duration::from_secs(1);

/// Renewals of an operation within the time after which another server continues it. A guess.
pub(crate) const RENEWALS: u32 = 3;

impl Models {
    /// The operation `id` of `project`.
    ///
    /// # Errors
    /// [`Code::NotFound`]; failures of the store.
    pub async fn operation(&self, project: &str, id: &str) -> Result<Operation, Refusal> {
        self.0.stored_operation(project, id).await.map(|(_, operation)| operation)
    }

    /// The first `limit` operations of `project` whose IDs follow `after`, by ID.
    ///
    /// # Errors
    /// Failures of the store.
    pub async fn operations_after(&self, project: &str, after: &str, limit: usize) -> Result<Vec<Operation>, Refusal> {
        let listed = self.0.services.documents.list_after(&kind(project), after, limit).await?;
        listed.into_iter().map(|(id, body)| decoded(&id, &body)).collect()
    }

    /// Requests the cancellation of an operation, which may end in another way. Only creations of versions are cancelled. The
    /// server that runs it, or the one that takes it over, reads the request from the store.
    ///
    /// # Errors
    /// [`Code::NotFound`]; failures of the store.
    pub async fn cancel_operation(&self, project: &str, id: &str) -> Result<(), Refusal> {
        for _ in 0..CONFLICTS {
            let (before, mut operation) = self.0.stored_operation(project, id).await?;
            if operation.outcome.is_some() {
                return Ok(());
            }
            if !operation.is_cancellation_requested {
                operation.is_cancellation_requested = true;
                let body = encoded(&operation)?;
                if !self.0.services.documents.replace(&kind(project), id, Some(before), body).await? {
                    continue;
                }
            }
            if let Some(cancel) = self.0.running.lock().get(&(project.to_owned(), id.to_owned())) {
                cancel.send_replace(true);
            }
            return Ok(());
        }
        let text = format!("gave up after {CONFLICTS} conflicting changes of operation {id}; retry");
        Err(Refusal::new(Code::Aborted, text))
    }
}

impl Inner {
    /// Stores a new operation. One with an `outcome` has ended.
    pub(crate) async fn begin(
        &self,
        operation: OperationKind,
        (project, model): (&str, &str),
        version: Option<Version>,
        outcome: Option<Outcome>,
    ) -> Result<Operation, Refusal> {
        let now = self.services.clock.now();
        let names = version.as_ref().map_or_else(|| model.to_owned(), |version| format!("{model}_{}", version.name));
        let mut operation = Operation {
            project: project.to_owned(),
            id: String::new(),
            kind: operation,
            model: model.to_owned(),
            version,
            create_time: now,
            end_time: outcome.is_some().then_some(now),
            owner: self.server.clone(),
            is_cancellation_requested: false,
            outcome,
        };
        let mut number = now.as_millisecond();
        loop {
            operation.id = format!("{}_{names}-{number}", operation.kind.prefix());
            if self.services.documents.replace(&kind(project), &operation.id, None, encoded(&operation)?).await? {
                return Ok(operation);
            }
            number += 1;
        }
    }

    pub(crate) async fn stored_operation(&self, project: &str, id: &str) -> Result<(Vec<u8>, Operation), Refusal> {
        let missing =
            || Refusal::new(Code::NotFound, format!("operation projects/{project}/operations/{id} does not exist"));
        let body = self.services.documents.part(&kind(project), id, 0).await?.ok_or_else(missing)?;
        let operation = decoded(id, &body)?;
        Ok((body, operation))
    }

    /// Ends an operation of this process.
    pub(crate) async fn finish(&self, mut operation: Operation, outcome: Outcome) -> Result<(), Refusal> {
        operation.end_time = Some(self.services.clock.now());
        operation.outcome = Some(outcome);
        let body = encoded(&operation)?;
        Ok(self.services.documents.put(&kind(&operation.project), &operation.id, 0, body).await?)
    }

    /// Takes an operation over, unless another server does. Returns it as stored.
    pub(crate) async fn take_over(&self, project: &str, id: &str) -> Result<Option<Operation>, Refusal> {
        let (before, mut operation) = self.stored_operation(project, id).await?;
        if operation.outcome.is_some() {
            return Ok(None);
        }
        operation.owner.clone_from(&self.server);
        let body = encoded(&operation)?;
        let taken = self.services.documents.replace(&kind(project), id, Some(before), body).await?;
        Ok(taken.then_some(operation))
    }

    /// Running operations of a project, with the time since each was stored or renewed.
    pub(crate) async fn running_operations(&self, project: &str) -> Result<Vec<(Operation, Duration)>, Refusal> {
        let listed = self.services.documents.list(&kind(project)).await?;
        let read = listed.into_iter().map(|(id, body, age)| Ok((decoded(&id, &body)?, age)));
        let all = read.collect::<Result<Vec<(Operation, Duration)>, Refusal>>()?;
        Ok(all.into_iter().filter(|(operation, _)| operation.outcome.is_none()).collect())
    }

    /// Operations of all projects that were stored or renewed since the read that returned `cursor`, and the next cursor.
    /// `None` if this process is the only server.
    pub(crate) async fn changed_operations(
        &self,
        cursor: Option<u64>,
    ) -> Result<Option<(u64, Vec<Operation>)>, Refusal> {
        let changes = self.services.documents.changes(KINDS, cursor, usize::MAX).await?;
        let Some(DocumentChanges { cursor, documents, .. }) = changes else { return Ok(None) };
        let changed: Result<_, Refusal> = documents.into_iter().map(|(_, id, body)| decoded(&id, &body)).collect();
        Ok(Some((cursor, changed?)))
    }

    pub(crate) async fn remove_old_operations(&self, project: &str) -> Result<(), Refusal> {
        self.services.documents.remove_unused(&kind(project), KEPT_FOR).await?;
        Ok(())
    }

    /// Notes an operation as one that this process runs, and shows it to other servers until the returned value is dropped.
    pub(crate) fn note_running(self: &Arc<Self>, project: &str, id: &str) -> Option<Running> {
        let key = (project.to_owned(), id.to_owned());
        let (cancel, cancelled) = watch::channel(false);
        let mut running = self.running.lock();
        if running.contains_key(&key) {
            return None;
        }
        running.insert(key.clone(), cancel.clone());
        let (project, id) = key.clone();
        let renewal = tokio::spawn(Arc::clone(self).renew(project, id, cancel.clone()));
        Some(Running { inner: Arc::clone(self), key, cancel, cancelled, renewal: renewal.abort_handle() })
    }

    /// Shows other servers that this one runs an operation, and takes their requests to cancel it. Never ends.
    async fn renew(self: Arc<Self>, project: String, id: String, cancel: watch::Sender<bool>) {
        let (interval, mut renewed) = (self.services.lease / RENEWALS, Instant::now());
        loop {
            tokio::time::sleep(CANCELLATION_INTERVAL.min(interval)).await;
            let read = async {
                let (_, operation) = self.stored_operation(&project, &id).await?;
                if operation.is_cancellation_requested {
                    cancel.send_replace(true);
                }
                if renewed.elapsed() >= interval {
                    renewed = Instant::now();
                    self.services.documents.touch(&kind(&project), &id).await?;
                }
                Ok::<_, Refusal>(())
            };
            if let Err(refusal) = read.await {
                tracing::warn!(operation = id, error = refusal.message, "another server may run an operation as well");
            }
        }
    }
}

/// An operation that this process runs.
pub(crate) struct Running {
    inner: Arc<Inner>,
    key: (String, String),
    pub(crate) cancel: watch::Sender<bool>,
    /// Whether its cancellation was requested.
    pub(crate) cancelled: watch::Receiver<bool>,
    renewal: tokio::task::AbortHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.renewal.abort();
        self.inner.running.lock().remove(&self.key);
    }
}

pub(crate) fn kind(project: &str) -> String {
    format!("{KINDS}{project}")
}

fn encoded(operation: &Operation) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(operation).map_err(|error| {
        tracing::error!(operation = operation.id, %error, "an operation cannot be stored");
        Refusal::new(Code::Internal, "the operation cannot be stored; see the server's log")
    })
}

fn decoded(id: &str, body: &[u8]) -> Result<Operation, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        tracing::error!(operation = id, %error, "a stored operation cannot be read");
        Refusal::new(Code::Internal, format!("operation {id} cannot be read; see the server's log"))
    })
}
