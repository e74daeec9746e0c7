//! Operations: records of changes, which clients poll.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tunesmith_domain::{Code, Refusal};

use crate::models::{Inner, Models};
use crate::records::{Operation, OperationKind, Outcome, Version};

/// Time after its last change for which an operation is kept. A guess.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Interval at which a server shows that it runs an operation.
pub(crate) const RENEWAL: Duration = Duration::from_secs(10);

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

    /// Requests the cancellation of an operation, which may end in another way. Only creations of versions are cancelled.
    ///
    /// # Errors
    /// [`Code::NotFound`]; [`Code::Unimplemented`] if another server runs it; failures of the store.
    pub async fn cancel_operation(&self, project: &str, id: &str) -> Result<(), Refusal> {
        let operation = self.operation(project, id).await?;
        if operation.outcome.is_some() {
            return Ok(());
        }
        match self.0.running.lock().get(&(project.to_owned(), id.to_owned())) {
            Some(cancel) => {
                cancel.send_replace(true);
                Ok(())
            }
            None => {
                let text = format!("operation {id} runs on another server, which must cancel it");
                Err(Refusal::new(Code::Unimplemented, text))
            }
        }
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

    /// Ages of the operations of a project, for those of dead servers.
    pub(crate) async fn idle_operations(&self, project: &str) -> Result<Vec<(Operation, Duration)>, Refusal> {
        let listed = self.services.documents.list(&kind(project)).await?;
        let read = listed.into_iter().map(|(id, body, age)| Ok((decoded(&id, &body)?, age)));
        let all = read.collect::<Result<Vec<(Operation, Duration)>, Refusal>>()?;
        Ok(all.into_iter().filter(|(operation, _)| operation.outcome.is_none()).collect())
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
        running.insert(key.clone(), cancel);
        let renewing = Arc::clone(self);
        let (project, id) = key.clone();
        let renewal = tokio::spawn(async move {
            loop {
                tokio::time::sleep(RENEWAL).await;
                if let Err(error) = renewing.services.documents.touch(&kind(&project), &id).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(operation = id, error, "another server may run an operation as well");
                }
            }
        });
        Some(Running { inner: Arc::clone(self), key, cancelled, renewal: renewal.abort_handle() })
    }
}

/// An operation that this process runs.
pub(crate) struct Running {
    inner: Arc<Inner>,
    key: (String, String),
    /// Whether its cancellation is requested.
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
    format!("model-operations/{project}")
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
