//! A worker of a version: a process of an interpreter, or a container.

use std::time::Duration;

use bytes::Bytes;

use crate::container::{ContainerSettings, ContainerWorker};
use crate::python_worker::{PythonSettings, PythonWorker};
use crate::runner::LoadReport;
use crate::worker_log::WorkerLog;

/// Request of a client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    pub body: Bytes,
    /// Type of the body, for containers; others get JSON.
    pub content_type: Option<String>,
}

/// Response of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// JSON from an interpreter: predictions or an error. Anything from a container.
    pub body: Bytes,
    /// Whether it has predictions.
    pub is_success: bool,
    /// Status of HTTP; 200 from an interpreter.
    pub status: u16,
    /// Type of the body; `None` for JSON from an interpreter, or if a container gave none.
    pub content_type: Option<String>,
}

/// Why a worker does not serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StartError {
    /// The model cannot be loaded: text of AI Platform, and a traceback or the output of the process.
    NotLoaded { text: String, detail: String },
    /// A failure of this machine.
    System(String),
}

impl StartError {
    pub(crate) fn reason(self) -> String {
        match self {
            Self::NotLoaded { text, detail } if !detail.is_empty() => format!("{text}\n{detail}"),
            Self::NotLoaded { text, .. } | Self::System(text) => text,
        }
    }
}

/// Settings of the workers of a version.
#[derive(Debug, Clone)]
pub(crate) enum WorkerSettings {
    Python(PythonSettings),
    Container(ContainerSettings),
}

impl WorkerSettings {
    pub(crate) fn log(&self) -> &WorkerLog {
        match self {
            Self::Python(settings) => &settings.log,
            Self::Container(settings) => &settings.log,
        }
    }
}

/// A running worker, which ends when it is dropped.
#[derive(Debug)]
pub(crate) enum Worker {
    Python(PythonWorker),
    Container(ContainerWorker),
}

impl Worker {
    /// Starts a worker and waits up to `limit` until it has loaded the model.
    pub(crate) async fn start(settings: &WorkerSettings, limit: Duration) -> Result<Self, StartError> {
        match settings {
            WorkerSettings::Python(settings) => PythonWorker::start(settings, limit).await.map(Self::Python),
            WorkerSettings::Container(settings) => ContainerWorker::start(settings, limit).await.map(Self::Container),
        }
    }

    pub(crate) fn report(&self) -> LoadReport {
        match self {
            Self::Python(worker) => worker.report.clone(),
            Self::Container(_) => ContainerWorker::report(),
        }
    }

    /// Ends a worker that is not needed.
    pub(crate) async fn stop(self) {
        match self {
            Self::Python(worker) => drop(worker),
            Self::Container(worker) => drop(worker.end().await),
        }
    }

    /// Ends the worker, with `at_once` even if it is about to end by itself. Returns how it ended and what it had printed
    /// last.
    pub(crate) async fn end(self, at_once: bool) -> (String, String) {
        match self {
            Self::Python(worker) => worker.end(at_once).await,
            Self::Container(worker) => worker.end().await,
        }
    }
}
