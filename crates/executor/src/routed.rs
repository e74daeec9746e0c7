//! Several executors of one server: each job runs on the one that its placement names.
//!
//! The executor of an attempt is recorded before the attempt is submitted, so that a restarted server finds it there, whatever its
//! configuration names by then. Attempts without a record are those of the server's own executor. Files of jobs are found as with
//! one executor: all of them leave logs in the same place.

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

/// An executor that passes each job on to one of several.
pub struct RoutedExecutor {
    /// Name of the executor of jobs that name none.
    own_name: String,
    own: Arc<dyn Executor>,
    others: NamedExecutors,
    /// The executor of new attempts that name none; `None` for the own one.
    default: Option<String>,
    routes: Submitted,
    /// The recorded routes that were read: the name of another executor, or `None` for the own one.
    known: Mutex<HashMap<ExecutorJobId, Option<String>>>,
}

impl RoutedExecutor {
    /// An executor that runs jobs on `own`, and on `others` by name. Routes are recorded in `folder`. Does no IO.
    pub fn new(own_name: String, own: Arc<dyn Executor>, others: NamedExecutors, folder: PathBuf) -> Self {
        Self { own_name, own, others, default: None, routes: Submitted::new(folder), known: Mutex::default() }
    }

    /// The same, which submits attempts that name no executor to the one named `default`. Attempts without a record are those of
    /// the own one all the same.
    #[must_use]
    pub fn with_default(self, default: Option<String>) -> Self {
        let default = default.filter(|name| *name != self.own_name);
        Self { default, ..self }
    }

    /// The name of the executor of a new attempt with `placement`; `None` for the own one.
    fn wanted(&self, placement: &Placement) -> Option<String> {
        placement.executor.clone().or_else(|| self.default.clone()).filter(|name| *name != self.own_name)
    }

    /// The executor named `name`; `None` if this server has none of that name.
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

    /// The name of the executor that `id` was submitted to; `None` for the own one.
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

    /// The executor that `id` was submitted to.
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

    async fn submit(&self, spec: &ExecutorJobSpec) -> Result<(), ExecutorError> {
        let id = &spec.id;
        // An attempt stays where it was submitted first.
        let recorded = self.route(id).map_err(|source| ExecutorError::Unreachable { id: id.clone(), source })?;
        let wanted = match recorded {
            Some(recorded) => Some(recorded).filter(|name| *name != self.own_name),
            None => self.wanted(&spec.placement),
        };
        // The operator, and not the job, can change that.
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
        // The route of a program that runs was read or recorded before.
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
