//! Calls of the model with batches: a failed batch is split until the failing instances are known.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tunesmith_domain::{Code, Refusal};
use tunesmith_jobs::BatchError;
use tunesmith_telemetry::telemetry;

use super::BatchPlan;
use super::plan::PlannedModel;
use crate::models::{Models, not_found};
use crate::nodes::BatchNode;
use crate::python_worker::{PythonSettings, PythonWorker};
use crate::records::{Model, Version, VersionState};
use crate::worker::Reply;

/// Time for which a worker is kept although an online prediction waits for one. A guess, above the time of most loads.
const HELD_FOR: Duration = Duration::from_secs(5);

/// Consecutive ends of workers, each while it predicted, after which the job fails. A guess, above the splits of a batch.
const MAX_ENDS: u32 = 20;

/// Attempts to start a worker, with a pause in between.
const STARTS: u32 = 3;
const START_PAUSE: Duration = Duration::from_secs(2);

/// Prediction of an instance in JSON, or its error.
pub(super) type Outcome = Result<Box<RawValue>, String>;

/// Predicts with one worker at a time.
pub(super) struct Predictor {
    models: Models,
    project: String,
    model: PlannedModel,
    settings: PythonSettings,
    worker: Option<(PythonWorker, BatchNode, Instant)>,
    /// Time of workers since [`Self::take_time`].
    time: Duration,
    /// Since when the time of the current worker was not taken.
    since: Instant,
    ends: u32,
}

/// Body of a reply.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(borrow, default)]
    predictions: Vec<&'a RawValue>,
    #[serde(default)]
    error: String,
}

impl Predictor {
    pub(super) fn new(models: Models, project: &str, plan: &BatchPlan, settings: PythonSettings) -> Self {
        Self {
            models,
            project: project.to_owned(),
            model: plan.model.clone(),
            settings,
            worker: None,
            time: Duration::ZERO,
            since: Instant::now(),
            ends: 0,
        }
    }

    /// Predicts `instances` in JSON, and returns an outcome for each.
    pub(super) async fn predict(&mut self, instances: &[String]) -> Result<Vec<Outcome>, BatchError> {
        let mut outcomes = Vec::with_capacity(instances.len());
        // Ranges, the next one last, and whether a range is tried again after the end of its worker.
        let mut ranges = vec![(0..instances.len(), true)];
        while let Some((range, has_retry)) = ranges.pop() {
            let part = instances.get(range.clone()).unwrap_or_default();
            if part.is_empty() {
                continue;
            }
            let body = format!("{{\"instances\": [{}]}}", part.join(", "));
            let error = match self.call(body.as_bytes()).await? {
                Ok(reply) => match predictions(&reply, part.len()) {
                    Ok(predictions) => {
                        outcomes.extend(predictions.into_iter().map(Ok));
                        continue;
                    }
                    Err(error) => error,
                },
                // Another process may have ended it.
                Err(_) if has_retry => {
                    ranges.push((range, false));
                    continue;
                }
                Err(error) => error,
            };
            if part.len() == 1 {
                outcomes.push(Err(error));
            } else {
                let middle = range.start + part.len() / 2;
                for half in [middle..range.end, range.start..middle] {
                    let is_single = half.len() == 1;
                    ranges.push((half, is_single));
                }
            }
        }
        Ok(outcomes)
    }

    /// Time of workers, their loading included, since the last call.
    pub(super) fn take_time(&mut self) -> Duration {
        self.note_time();
        std::mem::take(&mut self.time)
    }

    /// Sends a request. An inner error is the end of the worker.
    async fn call(&mut self, body: &[u8]) -> Result<Result<Reply, String>, BatchError> {
        self.check_model().await?;
        let (mut worker, node, start) = match self.worker.take() {
            Some(worker) => worker,
            None => self.start().await?,
        };
        let limit = self.models.0.services.times.request;
        let error = match tokio::time::timeout(limit, worker.predict(body)).await {
            Ok(Ok(reply)) => {
                self.ends = 0;
                if start.elapsed() >= HELD_FOR && self.models.0.nodes.has_waiting_online() {
                    self.end(worker, true).await;
                    drop(node);
                } else {
                    self.worker = Some((worker, node, start));
                }
                return Ok(Ok(reply));
            }
            Ok(Err(_)) => {
                let (end, output) = self.end(worker, false).await;
                let last = output.lines().last().map(|line| format!("; its last output: {line}")).unwrap_or_default();
                format!("the worker ended ({end}){last}")
            }
            Err(_) => {
                self.end(worker, true).await;
                format!("the worker has not answered within {} s", limit.as_secs_f64())
            }
        };
        drop(node);
        self.ends += 1;
        if self.ends >= MAX_ENDS {
            return Err(BatchError::Failed(format!("{} workers have ended in a row: {error}", self.ends)));
        }
        Ok(Err(error))
    }

    async fn end(&mut self, worker: PythonWorker, at_once: bool) -> (String, String) {
        let ended = worker.end(at_once).await;
        telemetry().prediction_workers.dec();
        self.time += self.since.elapsed();
        ended
    }

    /// Ends the worker at the end of the job.
    pub(super) async fn close(&mut self) {
        if let Some((worker, ..)) = self.worker.take() {
            self.end(worker, true).await;
        }
    }

    fn note_time(&mut self) {
        if self.worker.is_some() {
            self.time += self.since.elapsed();
            self.since = Instant::now();
        }
    }

    async fn start(&mut self) -> Result<(PythonWorker, BatchNode, Instant), BatchError> {
        let closed = || BatchError::Failed("the server ends".to_owned());
        let node = self.models.0.nodes.acquire_for_batch().await.ok_or_else(closed)?;
        let mut attempt = 1;
        loop {
            self.since = Instant::now();
            let error = match PythonWorker::start(&self.settings, self.models.0.services.times.load).await {
                Ok(worker) => {
                    telemetry().prediction_workers.inc();
                    return Ok((worker, node, Instant::now()));
                }
                Err(error) => error.reason(),
            };
            // The files of a deleted version are missing.
            self.check_model().await?;
            self.time += self.since.elapsed();
            if attempt == STARTS {
                return Err(BatchError::Failed(format!("the model cannot be loaded: {error}")));
            }
            attempt += 1;
            tokio::time::sleep(START_PAUSE).await;
        }
    }

    /// Fails the job once its version is deleted.
    async fn check_model(&self) -> Result<(), BatchError> {
        let PlannedModel::Version { model, version, uid } = &self.model else { return Ok(()) };
        let deleted = || {
            let text = format!(
                "version projects/{}/models/{model}/versions/{version} was deleted before all instances were predicted",
                self.project
            );
            BatchError::Failed(text)
        };
        let look = |model: Arc<Model>| {
            let is_ready = |version: &&Version| version.state == VersionState::Ready && version.uid == *uid;
            model.versions.iter().find(is_ready).map(drop).ok_or_else(|| not_found(&self.project, &model.name))
        };
        match self.models.0.index.look(&self.project, model, look).await {
            Err(Refusal { code: Code::NotFound, .. }) => Err(deleted()),
            looked => Ok(looked?),
        }
    }
}

impl Drop for Predictor {
    fn drop(&mut self) {
        if self.worker.is_some() {
            telemetry().prediction_workers.dec();
        }
    }
}

/// The predictions of a reply for `expected` instances.
fn predictions(reply: &Reply, expected: usize) -> Result<Vec<Box<RawValue>>, String> {
    let unreadable = |error: serde_json::Error| format!("the response of the model cannot be read: {error}");
    let body: Body<'_> = serde_json::from_slice(&reply.body).map_err(unreadable)?;
    if !reply.is_success {
        return Err(body.error);
    }
    if body.predictions.len() != expected {
        return Err(format!("the model returned {} predictions for {expected} instances", body.predictions.len()));
    }
    Ok(body.predictions.into_iter().map(ToOwned::to_owned).collect())
}
