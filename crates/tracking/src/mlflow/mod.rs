//! MLflow: a job or study as a parent run, its trials as child runs.
//!
//! A run is searched before it is created, by the key of the subject or the number of the trial. Points, parameters and
//! tags are sent with the times of the reports, so that MLflow keeps a repeated one once; points of a run that another
//! process has filled are compared first.

mod address;
mod fields;
mod history;
mod messages;
mod names;
mod run_ids;
mod server;
mod trial_run;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use tunesmith_algorithms::problem::TrialId;
use tunesmith_domain::Trial;

pub use self::address::{
    CERTIFICATE_VARIABLE, Credentials, Operator, RUN_VARIABLE, TrackingUri, TrackingUriError, URI_VARIABLE,
};
use self::fields::{BEST_TAG, KEY_TAG, PARENT_KEY_TAG, PARENT_TAG, RECOMMENDED_TAG, TRIAL_TAG, entry, milliseconds};
use self::history::History;
use self::messages::{Batch, Entry, Point, Run, RunStatus};
use self::names::Names;
pub(crate) use self::run_ids::Limits;
pub use self::run_ids::RunIds;
pub use self::server::TrackingServer;
use self::trial_run::TrialRun;
use crate::TrackingError;
use crate::destination::{Destination, Finish, View};
use crate::results::Results;

/// Trials sent concurrently. A guess: more only queue in a server with a small database.
const CONCURRENT_TRIALS: usize = 4;
/// Maximum number of entries of each kind in one request.
const MAX_ENTRIES: usize = 100;
/// Maximum number of points in one request, which leaves room for the other entries.
const MAX_POINTS: usize = 800;

/// Runs of one job or study on one server.
pub struct MlflowRuns {
    server: TrackingServer,
    experiment: String,
    ids: Arc<RunIds>,
    opened: Option<Opened>,
}

/// Experiment and runs on the server, as far as known.
struct Opened {
    experiment_id: String,
    parent: String,
    parent_status: Option<RunStatus>,
    /// Tags of the parent as last sent.
    parent_tags: Vec<Entry>,
    /// Number of points of the best result that were sent; `None` if an earlier process sent some.
    best_points: Option<usize>,
    names: Names,
    children: HashMap<TrialId, TrialRun>,
    /// Trials with the tags of the best and the recommended one.
    marked: HashMap<&'static str, TrialId>,
}

impl MlflowRuns {
    pub fn new(server: TrackingServer, experiment: impl Into<String>, ids: Arc<RunIds>) -> Self {
        Self { server, experiment: experiment.into(), ids, opened: None }
    }

    /// ID of the parent run, once known.
    pub fn parent(&self) -> Option<&str> {
        self.opened.as_ref().map(|opened| opened.parent.as_str())
    }

    /// Number of trials with a run.
    pub fn trial_count(&self) -> usize {
        self.opened.as_ref().map_or(0, |opened| opened.children.len())
    }

    fn opened(&mut self) -> Result<&mut Opened, TrackingError> {
        self.opened.as_mut().ok_or_else(|| TrackingError::Unexpected {
            server: self.server.uri().to_string(),
            request: "runs/search",
            detail: "the runs were not opened".to_owned(),
        })
    }

    /// Forgets all runs if one of them is missing, so that the next pass searches them.
    fn noting<T>(&mut self, done: Result<T, TrackingError>) -> Result<T, TrackingError> {
        if done.as_ref().is_err_and(TrackingError::is_of_missing_run) {
            self.forget();
        }
        done
    }

    fn forget(&mut self) {
        self.opened = None;
        self.ids.clear();
    }

    async fn open_runs(&self, view: &View<'_>) -> Result<Opened, TrackingError> {
        let names = Names::of(view.study);
        let experiment_id = self.server.experiment(&self.experiment).await?;
        let found = self.parents(view, &experiment_id).await?.into_iter().next();
        let is_found = found.is_some();
        let parent = match &found {
            Some(run) => run.info.run_id.clone(),
            None => {
                let start = view.subject.start.unwrap_or(view.subject.created);
                let tags = fields::identity(view.subject);
                self.server.create_run(&experiment_id, &view.subject.name, milliseconds(start), &tags).await?
            }
        };
        let parameters = view.study.map(|study| fields::definition(study, &names)).unwrap_or_default();
        for chunk in parameters.chunks(MAX_ENTRIES) {
            let batch = Batch { run_id: parent.clone(), params: chunk.to_vec(), ..Batch::default() };
            self.server.log(&batch).await?;
        }
        let mut opened = Opened {
            experiment_id,
            parent_status: found.and_then(|run| run.info.status()),
            parent_tags: Vec::new(),
            best_points: if is_found { None } else { Some(0) },
            names,
            children: HashMap::new(),
            marked: HashMap::new(),
            parent,
        };
        if is_found {
            for run in self.server.runs(&opened.experiment_id, &children_filter(&opened.parent)).await? {
                opened.add_found(run);
            }
        }
        self.ids.set_parent(&opened.parent);
        opened.children.iter().for_each(|(trial, run)| self.ids.set_trial(*trial, run.id()));
        Ok(opened)
    }

    /// Runs of the subject, of which there are several after concurrent exports. The first one counts.
    async fn parents(&self, view: &View<'_>, experiment_id: &str) -> Result<Vec<Run>, TrackingError> {
        let filter = format!("tags.`{KEY_TAG}` = '{}'", view.subject.key());
        self.server.runs(experiment_id, &filter).await
    }

    async fn put_trials(&mut self, view: &View<'_>, trials: Vec<Trial>) -> Result<(), TrackingError> {
        let Some(study) = view.study else { return Ok(()) };
        let (server, ids) = (self.server.clone(), Arc::clone(&self.ids));
        let opened = self.opened()?;
        let taken: Vec<(Trial, Option<TrialRun>)> = trials
            .into_iter()
            .map(|trial| {
                let run = opened.children.remove(&trial.id);
                (trial, run)
            })
            .collect();
        let (names, parent, experiment_id) = (&opened.names, &opened.parent, &opened.experiment_id);
        let (server, ids) = (&server, &*ids);
        let puts = taken.into_iter().map(|(trial, mut run)| async move {
            let to = trial_run::Parent { server, ids, names, parent, experiment_id };
            let done = TrialRun::put(&mut run, &to, view, study, &trial).await;
            (trial.id, run, done)
        });
        let done: Vec<_> = stream::iter(puts).buffer_unordered(CONCURRENT_TRIALS).collect().await;
        let mut outcome = Ok(());
        for (trial, run, put) in done {
            if let Some(run) = run {
                opened.children.insert(trial, run);
            }
            outcome = outcome.and(put);
        }
        outcome
    }

    async fn conclude_parent(&mut self, view: &View<'_>, results: &Results) -> Result<(), TrackingError> {
        let server = self.server.clone();
        let opened = self.opened()?;
        let tags = fields::state(view.subject, view.study, &opened.names);
        if tags != opened.parent_tags {
            for chunk in tags.chunks(MAX_ENTRIES) {
                let batch = Batch { run_id: opened.parent.clone(), tags: chunk.to_vec(), ..Batch::default() };
                server.log(&batch).await?;
            }
            opened.parent_tags = tags;
        }
        if let Some(study) = view.study {
            let metrics = study.problem.metrics();
            let keys: Vec<String> =
                metrics.iter().map(|metric| format!("best_{}", opened.names.key(&metric.name))).collect();
            let curve = results.curve(&study.problem);
            let mut points: Vec<Point> = Vec::new();
            for point in &curve[opened.best_points.unwrap_or(0).min(curve.len())..] {
                let (timestamp, step) = (milliseconds(point.time), i64::try_from(point.count).unwrap_or(i64::MAX));
                let values = keys.iter().zip(&point.values);
                points.extend(values.map(|(key, value)| Point { key: key.clone(), value: *value, timestamp, step }));
            }
            if opened.best_points.is_none() {
                History::read(&server, &opened.parent, keys.iter().map(String::as_str)).await?.remove(&mut points);
            }
            for chunk in points.chunks(MAX_POINTS) {
                let batch = Batch { run_id: opened.parent.clone(), metrics: chunk.to_vec(), ..Batch::default() };
                server.log(&batch).await?;
            }
            opened.best_points = Some(curve.len());
            opened.mark(&server, BEST_TAG, "tunesmith.bestTrial", results.best(&study.problem)).await?;
        }
        let status = fields::subject_status(view.subject);
        if opened.parent_status != Some(status) {
            let end = view.subject.end.or(results.last_end()).filter(|_| view.subject.outcome.is_some());
            server.update(&opened.parent, status, end.map(milliseconds)).await?;
            opened.parent_status = Some(status);
        }
        Ok(())
    }

    /// Removes the runs that concurrent exports created in addition: of several, the one with the lowest ID stays.
    async fn reconcile(&mut self, view: &View<'_>) -> Result<Finish, TrackingError> {
        let server = self.server.clone();
        let experiment_id = self.opened()?.experiment_id.clone();
        let parents = self.parents(view, &experiment_id).await?;
        let mut is_restarted = false;
        for extra in parents.iter().skip(1) {
            let id = &extra.info.run_id;
            for child in server.runs(&experiment_id, &children_filter(id)).await? {
                server.delete_run(&child.info.run_id).await?;
            }
            server.delete_run(id).await?;
            is_restarted |= *id == self.opened()?.parent;
        }
        if is_restarted || parents.is_empty() {
            self.forget();
            return Ok(Finish::Restart);
        }
        let ids = Arc::clone(&self.ids);
        let opened = self.opened()?;
        let mut kept: HashMap<TrialId, String> = HashMap::new();
        let mut again = Vec::new();
        let of_subject = format!("tags.`{PARENT_KEY_TAG}` = '{}'", view.subject.key());
        for child in server.runs(&experiment_id, &of_subject).await? {
            let Some(trial) = trial_of(&child) else { continue };
            if child.data.tag(PARENT_TAG) != Some(opened.parent.as_str()) {
                // A concurrent export created it when its parent was removed.
                server.delete_run(&child.info.run_id).await?;
                continue;
            }
            let Some(first) = kept.get(&trial) else {
                kept.insert(trial, child.info.run_id.clone());
                continue;
            };
            server.delete_run(&child.info.run_id).await?;
            if opened.children.get(&trial).is_some_and(|run| run.id() != first) {
                opened.children.remove(&trial);
                again.push((trial, first.clone()));
            }
        }
        for (trial, first) in &again {
            let filter = format!("attributes.run_id = '{first}'");
            for run in server.runs(&experiment_id, &filter).await? {
                opened.add_found(run);
                ids.set_trial(*trial, first);
            }
        }
        let missing = opened.children.keys().filter(|trial| !kept.contains_key(trial)).copied().collect::<Vec<_>>();
        missing.iter().for_each(|trial| drop(opened.children.remove(trial)));
        let again: Vec<TrialId> = again.into_iter().map(|(trial, _)| trial).chain(missing).collect();
        Ok(if again.is_empty() { Finish::Complete } else { Finish::Trials(again) })
    }
}

impl Opened {
    /// Adds a child that another process may have filled. Of several for one trial, the first one counts.
    fn add_found(&mut self, run: Run) {
        let Some(trial) = trial_of(&run) else { return };
        for tag in [BEST_TAG, RECOMMENDED_TAG] {
            if run.data.tag(tag).is_some() {
                self.marked.insert(tag, trial);
            }
        }
        self.children.entry(trial).or_insert_with(|| TrialRun::found(run));
    }

    /// Moves the tag `tag` to the run of `trial`, and records its number in `parent_tag` of the parent.
    async fn mark(
        &mut self,
        server: &TrackingServer,
        tag: &'static str,
        parent_tag: &str,
        trial: Option<TrialId>,
    ) -> Result<(), TrackingError> {
        if self.marked.get(tag).copied() == trial {
            return Ok(());
        }
        if let Some(former) = self.marked.get(tag)
            && let Some(run) = self.children.get(former)
        {
            server.delete_tag(run.id(), tag).await?;
        }
        self.marked.remove(tag);
        let Some(trial) = trial else { return server.delete_tag(&self.parent, parent_tag).await };
        let Some(run) = self.children.get(&trial) else { return Ok(()) };
        for (run, key, value) in [(run.id(), tag, "true".to_owned()), (&self.parent, parent_tag, trial.to_string())] {
            server.log(&Batch { run_id: run.to_owned(), tags: vec![entry(key, value)], ..Batch::default() }).await?;
        }
        self.marked.insert(tag, trial);
        Ok(())
    }
}

/// Children of the run `parent`.
fn children_filter(parent: &str) -> String {
    // IDs of runs have letters and digits only.
    let id: String = parent.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("tags.`{PARENT_TAG}` = '{id}'")
}

/// Trial of a child; `None` for a run that a program made there.
fn trial_of(run: &Run) -> Option<TrialId> {
    run.data.tag(TRIAL_TAG)?.parse().ok().map(TrialId)
}

#[async_trait]
impl Destination for MlflowRuns {
    async fn open(&mut self, view: &View<'_>) -> Result<(), TrackingError> {
        if self.opened.is_none() {
            self.opened = Some(self.open_runs(view).await?);
        }
        Ok(())
    }

    async fn put(&mut self, view: &View<'_>, trials: Vec<Trial>) -> Result<(), TrackingError> {
        let done = self.put_trials(view, trials).await;
        self.noting(done)
    }

    async fn conclude(&mut self, view: &View<'_>, results: &Results) -> Result<(), TrackingError> {
        let done = self.conclude_parent(view, results).await;
        self.noting(done)
    }

    async fn finish(&mut self, view: &View<'_>, recommended: Option<TrialId>) -> Result<Finish, TrackingError> {
        let server = self.server.clone();
        let marked = self.opened()?.mark(&server, RECOMMENDED_TAG, "tunesmith.recommendedTrial", recommended).await;
        self.noting(marked)?;
        let done = self.reconcile(view).await;
        self.noting(done)
    }
}
