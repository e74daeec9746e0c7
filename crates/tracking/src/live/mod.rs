//! Exports beside running jobs.
//!
//! Each tracked job has a task for each destination. It looks for changes once a second, reads them from the store and
//! sends them. Failures delay the task alone: trials wait for MLflow at most [`RUN_LIMITS`], and not at all while it
//! does not respond.

mod follower;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::AbortHandle;
use tunesmith_domain::{Job, JobId, TrialId};
use tunesmith_jobs::{JobTracking, TrackingStatus};
use tunesmith_store::{JobClaims, OptionalExtension, Store, StoreError};

use self::follower::{Ended, Follower, Progress, Record};
pub use self::state::{StateStore, TrackingState};
use crate::mlflow::{Limits, MlflowRuns, Operator, RUN_VARIABLE, RunIds, TrackingServer, TrackingUri, URI_VARIABLE};
use crate::synchronization::{Recommend, SubjectSource, Synchronization};
use crate::tensorboard::EventFiles;

/// Maximum times for which the start of a program waits for its run. Guesses: the first runs of a job need several requests,
/// of a server that may just have started.
const RUN_LIMITS: Limits = Limits { first: Duration::from_secs(15), later: Duration::from_secs(5) };
/// Interval between searches for exports of servers that have died.
const RESCAN_INTERVAL: Duration = Duration::from_secs(60);
/// Age of a state that its exporter no longer renews.
const ABANDONED: Duration = Duration::from_secs(60);

/// Destinations of a job in this process, beside those of its configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Destinations {
    /// Replaces the MLflow server of the configuration. Credentials are sent to it.
    pub mlflow: Option<TrackingUri>,
    /// Replaces the experiment of the configuration.
    pub experiment: Option<String>,
    /// Folder for event files.
    pub tensorboard: Option<PathBuf>,
}

/// Live exports of one process.
pub struct LiveTracking {
    shared: Arc<Shared>,
    destinations: Mutex<HashMap<JobId, Destinations>>,
    tracked: Mutex<HashMap<JobId, Arc<Tracked>>>,
}

/// Services shared by all exports of the process.
struct Shared {
    store: Arc<dyn Store>,
    claims: Arc<dyn JobClaims>,
    states: StateStore,
    operator: Operator,
    recommend: Recommend,
    /// Unique name of this process.
    exporter: String,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// Exports of one job.
struct Tracked {
    /// Server and IDs of runs; `None` without MLflow.
    mlflow: Option<(TrackingUri, Arc<RunIds>)>,
    tasks: Vec<(Arc<Progress>, AbortHandle)>,
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|(_, task)| task.abort());
    }
}

/// Server, experiment and credentials of a job.
struct Target {
    /// The server, or why there is none.
    uri: Result<TrackingUri, String>,
    experiment: String,
    operator: Operator,
}

/// Export settings of a job, from its configuration.
struct Configured {
    uri: Option<String>,
    experiment: Option<String>,
}

impl LiveTracking {
    /// `exporter` is a unique name of this process. Starts nothing.
    pub fn new(
        store: Arc<dyn Store>,
        claims: Arc<dyn JobClaims>,
        states: StateStore,
        operator: Operator,
        recommend: Recommend,
        exporter: String,
        now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> Self {
        let shared = Shared { store, claims, states, operator, recommend, exporter, now };
        Self { shared: Arc::new(shared), destinations: Mutex::default(), tracked: Mutex::default() }
    }

    /// Sets additional destinations of `job` in this process, before it runs.
    pub fn set_destinations(&self, job: &JobId, destinations: Destinations) {
        self.destinations.lock().insert(job.clone(), destinations);
    }

    fn tracked(&self, job: &Job, chosen: Destinations, configured: Option<Configured>) -> Tracked {
        let mut tasks = Vec::new();
        if let Some(root) = &chosen.tensorboard {
            let files = EventFiles::new(root, job.id.parts().1);
            tasks.push(spawn(|progress| Follower {
                job: job.id.clone(),
                synchronization: self.shared.synchronization(job, files, 0),
                record: None,
                progress,
            }));
        }
        let Some(target) = self.shared.mlflow(job, chosen, configured) else {
            return Tracked { mlflow: None, tasks };
        };
        let uri = target.uri.clone();
        let ids = Arc::new(RunIds::default());
        let (shared, job, run_ids) = (Arc::clone(&self.shared), job.clone(), Arc::clone(&ids));
        let progress = Arc::new(Progress::default());
        let reported = Arc::clone(&progress);
        let task = tokio::spawn(async move { shared.follow_mlflow(job, target, run_ids, reported).await });
        tasks.push((progress, task.abort_handle()));
        Tracked { mlflow: uri.ok().map(|uri| (uri, ids)), tasks }
    }

    /// Waits until the exports of `job` have everything: of an ended job until they are complete. Returns the errors of
    /// those that fail.
    pub async fn finish(&self, job: &JobId, has_ended: bool) -> Vec<String> {
        let tracked = self.tracked.lock().get(job).cloned();
        let Some(tracked) = tracked else { return Vec::new() };
        let mut errors = Vec::new();
        for (progress, _) in &tracked.tasks {
            errors.extend(progress.finish(has_ended).await.err());
        }
        errors
    }

    /// Continues the exports of ended jobs that an earlier process, or another server, left unfinished: immediately, and
    /// then from time to time. Never completes.
    pub async fn resume(&self) {
        let mut interval = tokio::time::interval(RESCAN_INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            if let Err(error) = self.resume_once().await {
                tracing::warn!(error = %error, "unfinished exports could not be looked for; it is tried again");
            }
        }
    }

    async fn resume_once(&self) -> Result<(), StoreError> {
        // A refused destination stays refused until the next process.
        self.tracked.lock().retain(|_, tracked| !tracked.tasks.iter().all(|(progress, _)| progress.is_done()));
        for (id, stored, age) in self.shared.states.list().await? {
            let Some(job) = self.shared.store.job(&id).await.optional()? else {
                self.shared.states.remove(&id).await?;
                continue;
            };
            // The server that runs a job exports it.
            let is_tracked = self.tracked.lock().contains_key(&id);
            let is_abandoned = stored.state.exporter == self.shared.exporter || age >= ABANDONED;
            if job.state.is_final() && !stored.state.is_complete && is_abandoned && !is_tracked {
                self.start(&job);
            }
        }
        Ok(())
    }
}

#[async_trait]
impl JobTracking for LiveTracking {
    fn start(&self, job: &Job) {
        let chosen = self.destinations.lock().get(&job.id).cloned().unwrap_or_default();
        let configured = configured(job);
        if configured.is_none() && chosen == Destinations::default() {
            return;
        }
        let mut tracked = self.tracked.lock();
        // A job that goes on after its end has a finished export, a job that is run again an unfinished one.
        if tracked.get(&job.id).is_some_and(|running| running.tasks.iter().all(|(progress, _)| !progress.has_ended())) {
            return;
        }
        tracked.insert(job.id.clone(), Arc::new(self.tracked(job, chosen, configured)));
    }

    async fn variables(&self, job: &JobId, trial: Option<TrialId>) -> BTreeMap<String, String> {
        let tracked = self.tracked.lock().get(job).cloned();
        let Some(tracked) = tracked else { return BTreeMap::new() };
        let Some((uri, ids)) = &tracked.mlflow else { return BTreeMap::new() };
        tracked.tasks.iter().for_each(|(progress, _)| progress.wake());
        let Some(run) = ids.wait(trial, RUN_LIMITS).await else { return BTreeMap::new() };
        BTreeMap::from([(RUN_VARIABLE.to_owned(), run), (URI_VARIABLE.to_owned(), uri.to_string())])
    }

    async fn status(&self, job: &Job) -> Result<Option<TrackingStatus>, StoreError> {
        let is_named = configured(job).is_some() || self.destinations.lock().contains_key(&job.id);
        if !is_named {
            return Ok(None);
        }
        let tracked = self.tracked.lock().get(&job.id).cloned();
        let here = tracked.and_then(|tracked| tracked.tasks.iter().find_map(|(progress, _)| progress.state()));
        let state = match here {
            Some(state) => Some(state),
            None => self.shared.states.get(&job.id).await?.map(|stored| stored.state),
        };
        Ok(state.filter(|state| state.job_created == job.create_time).map(|state| TrackingStatus {
            uri: state.uri,
            experiment: state.experiment,
            run: state.run,
            is_complete: state.is_complete,
            last_success: state.last_success,
            failing: state.failing.map(|failing| (failing.since, failing.error)),
        }))
    }

    async fn forget(&self, job: &JobId) -> Result<(), StoreError> {
        self.destinations.lock().remove(job);
        drop(self.tracked.lock().remove(job));
        self.shared.states.remove(job).await
    }
}

impl Shared {
    fn synchronization<D: crate::Destination>(&self, job: &Job, destination: D, revision: u64) -> Synchronization<D> {
        let source = SubjectSource::Job(job.id.clone());
        let (store, recommend) = (Arc::clone(&self.store), Arc::clone(&self.recommend));
        Synchronization::new(store, source, destination, recommend, revision)
    }

    /// Where to export `job`; `None` if not to MLflow.
    fn mlflow(&self, job: &Job, chosen: Destinations, configured: Option<Configured>) -> Option<Target> {
        let Destinations { mlflow, experiment, .. } = chosen;
        if mlflow.is_none() && experiment.is_none() && configured.is_none() {
            return None;
        }
        let configured = configured.unwrap_or(Configured { uri: None, experiment: None });
        let uri = match (&mlflow, configured.uri) {
            (Some(uri), _) => Ok(uri.clone()),
            (None, Some(text)) => TrackingUri::new(&text).map_err(|error| error.to_string()),
            (None, None) => self.operator.uri.clone().ok_or_else(|| {
                format!("the job names no trackingUri, and this server has none: {}", self.operator.no_uri)
            }),
        };
        let experiment = experiment.or(configured.experiment).unwrap_or_else(|| job.id.parts().0.to_owned());
        let operator = match mlflow {
            Some(uri) => self.operator.clone().with_uri(uri),
            None => self.operator.clone(),
        };
        Some(Target { uri, experiment, operator })
    }

    async fn follow_mlflow(self: Arc<Self>, job: Job, target: Target, ids: Arc<RunIds>, progress: Arc<Progress>) {
        let Target { uri, experiment, operator } = target;
        let address = uri.as_ref().map(ToString::to_string).unwrap_or_default();
        let former = self.states.get(&job.id).await.ok().flatten();
        let is_same = |state: &TrackingState| {
            state.job_created == job.create_time && state.uri == address && state.experiment == experiment
        };
        let known = former.as_ref().map(|stored| stored.state.clone()).filter(is_same);
        let mut state = known.unwrap_or_else(|| TrackingState {
            version: 1,
            job_created: job.create_time,
            uri: address,
            experiment: experiment.clone(),
            exporter: String::new(),
            run: None,
            study_revision: 0,
            is_complete: false,
            last_success: None,
            failing: None,
        });
        state.exporter.clone_from(&self.exporter);
        state.is_complete = false;
        let server = match &uri {
            Ok(uri) => TrackingServer::new(uri.clone(), &operator).map_err(|error| error.text()),
            Err(error) => Err(error.clone()),
        };
        let revision = state.study_revision;
        let mut record = Record::new(Arc::clone(&self), job.id.clone(), state, former);
        let server = match server {
            Ok(server) => server,
            Err(error) => {
                ids.note_pass(false);
                tracing::warn!(job.id = %job.id, error, "the job is not exported to MLflow");
                record.note_failure(&error);
                progress.set_state(record.state());
                record.save().await;
                progress.end(Ended::Refused(error));
                return;
            }
        };
        let runs = MlflowRuns::new(server, experiment, Arc::clone(&ids));
        let synchronization = self.synchronization(&job, runs, revision);
        let record = Some((record, ids));
        Follower { job: job.id.clone(), synchronization, record, progress }.run().await;
    }
}

/// Starts a task for `follower`.
fn spawn<D: crate::Destination + follower::ParentRun + 'static>(
    follower: impl FnOnce(Arc<Progress>) -> Follower<D>,
) -> (Arc<Progress>, AbortHandle) {
    let progress = Arc::new(Progress::default());
    let task = tokio::spawn(follower(Arc::clone(&progress)).run());
    (progress, task.abort_handle())
}

/// `tunesmith.mlflow` of the training input of `job`.
fn configured(job: &Job) -> Option<Configured> {
    let mlflow = job.training_input.pointer("/tunesmith/mlflow").filter(|mlflow| !mlflow.is_null())?;
    let text = |field: &str| mlflow.get(field).and_then(Value::as_str).map(str::to_owned);
    Some(Configured { uri: text("trackingUri"), experiment: text("experiment") })
}
