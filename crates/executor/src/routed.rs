//! Routing of jobs to several executors by their placement.
//!
//! The executor of an attempt is recorded before submission, so that a restarted server finds the attempt even if its
//! configuration has changed. Attempts without a record belong to the server's own executor. Job files are found as
//! with one executor: all of them store logs in the same place.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::remote::Submitted;
use super::reports::{Reports, SentReports};
use super::{
    AttemptLocation, AttemptReports, Capabilities, Executor, ExecutorError, ExecutorJobId, ExecutorJobSpec,
    ExecutorJobState, Placement, Replica, StopMode,
};
use tunesmith_domain::{JobId, Measurement};

pub type NamedExecutors = BTreeMap<String, Arc<dyn Executor>>;

/// Executor that delegates each job to one of several.
pub struct RoutedExecutor {
    /// Name of the server's own executor.
    own_name: String,
    own: Arc<dyn Executor>,
    others: NamedExecutors,
    /// Executor of new attempts without a named one; `None` for the own one.
    default: Option<String>,
    routes: Submitted,
    /// Cached routes: the name of another executor, or `None` for the own one.
    known: Mutex<HashMap<ExecutorJobId, Option<String>>>,
}

impl RoutedExecutor {
    /// Executor that delegates to `own`, or by name to `others`. Routes are recorded in `folder`. Does no IO.
    pub fn new(own_name: String, own: Arc<dyn Executor>, others: NamedExecutors, folder: PathBuf) -> Self {
        Self { own_name, own, others, default: None, routes: Submitted::new(folder), known: Mutex::default() }
    }

    /// Delegates new attempts without a named executor to `default`. Attempts without a record still belong to the own
    /// one.
    #[must_use]
    pub fn with_default(self, default: Option<String>) -> Self {
        let default = default.filter(|name| *name != self.own_name);
        Self { default, ..self }
    }

    /// Executor for a new attempt with `placement`; `None` for the own one.
    fn wanted(&self, placement: &Placement) -> Option<String> {
        placement.executor.clone().or_else(|| self.default.clone()).filter(|name| *name != self.own_name)
    }

    /// Executor named `name`; `None` if this server has no such executor.
    fn named(&self, name: Option<&str>) -> Option<&Arc<dyn Executor>> {
        match name {
            None => Some(&self.own),
            Some(name) if name == self.own_name => Some(&self.own),
            Some(name) => self.others.get(name),
        }
    }

    fn names(&self) -> String {
        let names: Vec<&str> = std::iter::once(&self.own_name).chain(self.others.keys()).map(String::as_str).collect();
        names.join(", ")
    }

    /// Name of the executor that `id` was submitted to; `None` for the own one.
    fn route(&self, id: &ExecutorJobId) -> io::Result<Option<String>> {
        if let Some(known) = self.known.lock().get(id) {
            return Ok(known.clone());
        }
        let route = self.routes.note(&id.to_string())?;
        // An attempt without a record may still get one.
        if route.is_some() {
            self.known.lock().insert(id.clone(), route.clone());
        }
        Ok(route)
    }

    /// Executor that `id` was submitted to.
    fn of(&self, id: &ExecutorJobId) -> Result<&Arc<dyn Executor>, ExecutorError> {
        let unreachable = |source| ExecutorError::Unreachable { id: id.clone(), source };
        let route = self.route(id).map_err(unreachable)?;
        self.named(route.as_deref()).ok_or_else(|| {
            unreachable(io::Error::other(format!(
                "it runs on the executor {:?}, and the executors of this server are {}: add it to the server configuration",
                route.unwrap_or_default(),
                self.names()
            )))
        })
    }
}

#[async_trait]
impl Executor for RoutedExecutor {
    fn capabilities(&self, placement: &Placement) -> Capabilities {
        self.named(self.wanted(placement).as_deref()).unwrap_or(&self.own).capabilities(placement)
    }

    fn has_volume(&self, placement: &Placement, path: &Path) -> bool {
        self.named(self.wanted(placement).as_deref()).unwrap_or(&self.own).has_volume(placement, path)
    }

    async fn runs_containers(&self, placement: &Placement) -> bool {
        self.named(self.wanted(placement).as_deref()).unwrap_or(&self.own).runs_containers(placement).await
    }

    async fn submit(&self, spec: &ExecutorJobSpec) -> Result<(), ExecutorError> {
        let id = &spec.id;
        // An attempt stays with the executor it was first submitted to.
        let recorded = self.route(id).map_err(|source| ExecutorError::Unreachable { id: id.clone(), source })?;
        let wanted = match recorded {
            Some(recorded) => Some(recorded).filter(|name| *name != self.own_name),
            None => self.wanted(&spec.placement),
        };
        // An error of the operator's configuration, not of the job.
        let executor = self.named(wanted.as_deref()).ok_or_else(|| ExecutorError::Unreachable {
            id: id.clone(),
            source: io::Error::other(format!(
                "its region or machine type names the executor {:?}, and the executors of this server are {}: add it to the \
                 server configuration",
                wanted.clone().unwrap_or_default(),
                self.names()
            )),
        })?;
        if let Some(name) = &wanted {
            let added = self.routes.add_once(&id.to_string(), name);
            added.map_err(|source| ExecutorError::Unreachable { id: id.clone(), source })?;
            self.known.lock().insert(id.clone(), wanted.clone());
        }
        let placement = Placement { executor: None, ..spec.placement.clone() };
        executor.submit(&ExecutorJobSpec { placement, ..spec.clone() }).await
    }

    async fn state(&self, id: &ExecutorJobId) -> Result<ExecutorJobState, ExecutorError> {
        self.of(id)?.state(id).await
    }

    async fn changed(&self, id: &ExecutorJobId, known: &ExecutorJobState) -> Result<ExecutorJobState, ExecutorError> {
        self.of(id)?.changed(id, known).await
    }

    async fn stop(&self, id: &ExecutorJobId, how: StopMode) -> Result<(), ExecutorError> {
        self.of(id)?.stop(id, how).await
    }

    async fn clean_up(&self, id: &ExecutorJobId) -> Result<(), ExecutorError> {
        self.of(id)?.clean_up(id).await
    }

    async fn supersede(&self, id: &ExecutorJobId) -> Result<(), ExecutorError> {
        // The other server has its own record of the executor.
        for executor in std::iter::once(&self.own).chain(self.others.values()) {
            executor.supersede(id).await?;
        }
        Ok(())
    }

    async fn sweep(&self) -> io::Result<()> {
        let mut swept = Ok(());
        for executor in std::iter::once(&self.own).chain(self.others.values()) {
            swept = swept.and(executor.sweep().await);
        }
        swept
    }

    async fn submitted(&self, id: &ExecutorJobId) -> Result<Option<Vec<Replica>>, ExecutorError> {
        self.of(id)?.submitted(id).await
    }

    async fn nodes(&self, id: &ExecutorJobId) -> Result<AttemptLocation, ExecutorError> {
        let place = self.of(id)?.nodes(id).await?;
        let route = self.route(id).map_err(|source| ExecutorError::Unreachable { id: id.clone(), source })?;
        Ok(AttemptLocation { executor: Some(route.unwrap_or_else(|| self.own_name.clone())), ..place })
    }

    fn reports(&self, attempt: &AttemptReports<'_>, known: &[Measurement]) -> Box<dyn Reports> {
        // The route of a running program was read or recorded before.
        match self.of(attempt.id) {
            Ok(executor) => executor.reports(attempt, known),
            Err(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                let problems = vec![format!("the reports cannot be read: {source}")];
                Box::new(SentReports { problems, ..SentReports::default() })
            }
        }
    }

    async fn forget(&self, job: &JobId) -> io::Result<()> {
        for executor in std::iter::once(&self.own).chain(self.others.values()) {
            executor.forget(job).await?;
        }
        self.known.lock().retain(|id, _| id.job != *job);
        for name in self.routes.starting_with(&ExecutorJobId::file_name_of(job))? {
            if ExecutorJobId::is_of(&name, job) {
                self.routes.remove(&name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
