//! Batch predictions: files of instances to files of predictions.
//!
//! The input is split into shards. A shard's output files get their final names before its result is stored: a run that is
//! interrupted in between predicts the shard again, and replaces its files.

mod lines;
mod output;
mod paths;
mod plan;
mod predictor;
mod shards;
#[cfg(test)]
mod tests;
mod values;

use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;
use tunesmith_domain::{Job, JobChange, PredictionCounts};
use tunesmith_jobs::{BatchError, BatchPredictions, BatchRun};
use tunesmith_store::StoreError;
use tunesmith_telemetry::telemetry;

pub use self::plan::{BatchModel, BatchRequest, DEFAULT_BATCH_SIZE, DEFAULT_MAX_WORKERS, InputFormat, OutputFormat};

use self::lines::{Line, LineReader};
use self::output::{Output, STATISTICS, blocking, errors_name, results_name};
use self::plan::{BatchPlan, PlannedModel};
use self::predictor::Predictor;
use self::shards::{Inputs, ShardResult};
use crate::changes::found;
use crate::models::Models;
use crate::python_worker::PythonSettings;
use crate::worker_log::WorkerLog;

/// Kind of the documents with the inputs (part 0) and the results of shards (the following parts) of jobs.
pub(crate) const KIND: &str = "batch-predictions";

/// Size from which on a batch has no further instance. A guess.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// A job as all its shards see it.
struct Batch {
    models: Models,
    project: String,
    plan: BatchPlan,
    inputs: Inputs,
    output: Output,
    /// Shards to predict.
    missing: Mutex<VecDeque<usize>>,
    total: tokio::sync::Mutex<ShardResult>,
}

#[async_trait]
impl BatchPredictions for Models {
    async fn prepare(&self, run: &BatchRun) -> Result<(), BatchError> {
        let (project, plan) = (run.job.id.parts().0, plan_of(&run.job)?);
        self.prepare_model(project, &plan).await?;
        let output = Output::new(&self.0, project, &plan.output_path, &plan.uid)?;
        let documents = &self.0.services.documents;
        if documents.part(KIND, &plan.uid, 0).await?.is_some() {
            return output.prepare(&self.0, project, false).await;
        }
        let files = self.0.input_files(project, &plan.input_paths).await?;
        output.prepare(&self.0, project, true).await?;
        documents.put(KIND, &plan.uid, 0, encoded(&Inputs::new(files))?).await?;
        Ok(())
    }

    async fn run(&self, run: &BatchRun) -> Result<(), BatchError> {
        let (project, plan) = (run.job.id.parts().0, plan_of(&run.job)?);
        let settings = self.batch_workers(project, &plan, &run.worker_output).await?;
        let documents = &self.0.services.documents;
        let inputs = documents.part(KIND, &plan.uid, 0).await?;
        let inputs: Inputs = decoded(&inputs.unwrap_or_default())?;
        let (mut total, mut missing) = (ShardResult::default(), VecDeque::new());
        for index in 0..inputs.shards.len() {
            match documents.part(KIND, &plan.uid, index as u64 + 1).await? {
                Some(stored) => total.add(&decoded(&stored)?),
                None => missing.push_back(index),
            }
        }
        let count = inputs.shards.len();
        note(&run.output, format!("{count} shards of {} files, {} to predict", inputs.files.len(), missing.len()))
            .await;
        let workers = plan.max_workers.min(self.0.nodes.batch_limit()).min(missing.len());
        let output = Output::new(&self.0, project, &plan.output_path, &plan.uid)?;
        let batch = Arc::new(Batch {
            models: self.clone(),
            project: project.to_owned(),
            plan,
            inputs,
            output,
            missing: Mutex::new(missing),
            total: tokio::sync::Mutex::new(total),
        });
        let mut running = JoinSet::new();
        for _ in 0..workers {
            let (batch, settings) = (Arc::clone(&batch), settings.clone());
            let (store, id, log) = (Arc::clone(&run.store), run.job.id.clone(), run.output.clone());
            running.spawn(async move {
                let mut predictor = Predictor::new(batch.models.clone(), &batch.project, &batch.plan, settings);
                loop {
                    let Some(index) = batch.missing.lock().pop_front() else { break };
                    let result = batch.shard(index, &mut predictor).await?;
                    let shard = format!("shard {} of {count}", index + 1);
                    note(&log, format!("{shard}: {} predictions, {} errors", result.predictions, result.errors)).await;
                    // Held for the change, so that the counts of the job do not run backwards.
                    let mut total = batch.total.lock().await;
                    total.add(&result);
                    telemetry().batch_predicted(result.predictions, result.errors);
                    let counts = JobChange::CountPredictions { counts: counts(&total) };
                    store.change_job(&id, counts).await?;
                }
                predictor.close().await;
                Ok::<_, BatchError>(())
            });
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap_or_else(|error| Err(BatchError::Failed(format!("the job was interrupted: {error}"))))?;
        }
        let total = batch.total.lock().await;
        let counts = JobChange::CountPredictions { counts: counts(&total) };
        run.store.change_job(&run.job.id, counts).await?;
        let mut statistics = batch.output.create(STATISTICS.to_owned(), &self.0.server).await?;
        for line in total.statistics().lines() {
            statistics.line(line.as_bytes()).await?;
        }
        batch.output.finish(statistics).await?;
        note(&run.output, "Job completed successfully.".to_owned()).await;
        Ok(())
    }

    async fn end(&self, job: &Job) {
        let Ok(plan) = plan_of(job) else { return };
        let (project, id) = (job.id.parts().0, job.id.clone());
        let folder = self.0.folder(project, &plan.uid);
        let output = Output::new(&self.0, project, &plan.output_path, &plan.uid);
        let remove = move || {
            if let Err(error) = folder.remove() {
                tracing::warn!(job.id = %id, %error, "files of a batch prediction remain");
            }
            if let Ok(Err(error)) = output.map(|output| output.clear()) {
                tracing::warn!(job.id = %id, %error, "temporary files of a batch prediction remain");
            }
        };
        if let Err(error) = tokio::task::spawn_blocking(remove).await {
            tracing::warn!(job.id = %job.id, %error, "files of a batch prediction remain");
        }
    }

    async fn forget(&self, job: &Job) -> Result<(), StoreError> {
        let Ok(plan) = plan_of(job) else { return Ok(()) };
        self.end(job).await;
        self.0.services.documents.remove(KIND, &plan.uid).await
    }
}

impl Models {
    /// Gets the files of the model to this server.
    async fn prepare_model(&self, project: &str, plan: &BatchPlan) -> Result<(), BatchError> {
        let inner = &self.0;
        let not_stored = |folder: &crate::model_files::VersionFolder, source| BatchError::Files {
            operation: "write the files of the model to",
            path: folder.path().to_owned(),
            source,
        };
        match &plan.model {
            PlannedModel::Version { model, version, uid } => {
                let stored = self.model(project, model).await?;
                let Some(version) = found(&stored, version).ok().filter(|version| version.uid == *uid) else {
                    let text = format!("version {}/versions/{version} was deleted", stored.resource_name());
                    return Err(BatchError::Failed(text));
                };
                let folder = inner.folder(project, uid);
                if !folder.is_complete() {
                    inner.fetch(project, version, &folder).await?;
                }
                Ok(())
            }
            PlannedModel::Folder(spec) => {
                let folder = inner.folder(project, &plan.uid);
                if folder.is_complete() {
                    return Ok(());
                }
                let (started, identity) = (folder.clone(), inner.identity(project).cloned());
                let start =
                    move || started.start_over(identity.as_ref()).map_err(|source| not_stored(&started, source));
                blocking(start).await?;
                let copied = inner.copy_model(project, spec, &folder).await;
                copied.map_err(|failure| BatchError::Failed(failure.message))?;
                let identity = inner.identity(project).cloned();
                blocking(move || folder.finish(identity.as_ref(), false).map_err(|source| not_stored(&folder, source)))
                    .await
            }
        }
    }

    async fn batch_workers(&self, project: &str, plan: &BatchPlan, log: &Path) -> Result<PythonSettings, BatchError> {
        let identity = self.0.identity(project).cloned();
        let log = Arc::new(WorkerLog::new(log.to_owned()));
        Ok(match &plan.model {
            PlannedModel::Version { model, version, uid } => {
                let stored = self.model(project, model).await?;
                let spec = &found(&stored, version)?.spec;
                let folder = self.0.folder(project, uid);
                self.0.check_installed(spec, &folder)?;
                let pods = self.0.worker_group((project, model, &format!("batch {model} {version}")), spec, &folder);
                self.0.python_settings(spec, &folder, identity, log, pods)
            }
            PlannedModel::Folder(spec) => {
                let folder = self.0.folder(project, &plan.uid);
                let pods = self.0.worker_group((project, "batch", "batch"), spec, &folder);
                self.0.python_settings(spec, &folder, identity, log, pods)
            }
        })
    }
}

impl Batch {
    /// Predicts a shard, and stores its result.
    async fn shard(&self, index: usize, predictor: &mut Predictor) -> Result<ShardResult, BatchError> {
        let (count, shard) = (self.inputs.shards.len(), self.inputs.shards[index]);
        let file = &self.inputs.files[shard.file];
        let server = &self.models.0.server;
        let source = self.models.0.open_input(&self.project, file).await?;
        let mut lines = LineReader::new(source, &file.path, file.size, shard);
        let mut results = self.output.create(results_name(index, count), server).await?;
        let (mut errors, mut result) = (None, ShardResult::default());
        let mut is_last = false;
        while !is_last {
            let (mut batch, mut size) = (Vec::new(), 0);
            while batch.len() < self.plan.batch_size && size < MAX_BATCH_BYTES {
                let Some(line) = lines.next().await? else {
                    is_last = true;
                    break;
                };
                size += line.text.as_ref().map_or(0, String::len);
                batch.push(line);
            }
            let instances: Vec<Result<String, String>> =
                batch.iter().map(|line| values::instance(line, self.plan.input_format)).collect();
            let valid: Vec<String> = instances.iter().flatten().cloned().collect();
            let mut outcomes = predictor.predict(&valid).await?.into_iter();
            for (line, instance) in batch.iter().zip(&instances) {
                let outcome = match instance {
                    Ok(_) => outcomes.next().unwrap_or_else(|| Err("the model returned no prediction".to_owned())),
                    Err(error) => Err(error.clone()),
                };
                match outcome {
                    Ok(prediction) => {
                        result.predictions += 1;
                        results.line(&values::prediction(&prediction, self.plan.output_format)).await?;
                    }
                    Err(error) => {
                        result.count_error(&error);
                        let errors = match &mut errors {
                            Some(errors) => errors,
                            none => none.insert(self.output.create(errors_name(index, count), server).await?),
                        };
                        errors.line(failed_line(&file.path, line, &error).as_bytes()).await?;
                    }
                }
            }
        }
        self.output.finish(results).await?;
        match errors {
            Some(errors) => self.output.finish(errors).await?,
            None => self.output.remove(errors_name(index, count)).await?,
        }
        result.worker_time_ms = u64::try_from(predictor.take_time().as_millis()).unwrap_or(u64::MAX);
        let stored = encoded(&result)?;
        self.models.0.services.documents.put(KIND, &self.plan.uid, index as u64 + 1, stored).await?;
        Ok(result)
    }
}

/// Number of parts of the document with `inputs`, of which those of missing shards do not exist. `None` if it cannot be
/// read.
pub(crate) fn parts(inputs: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Inputs>(inputs).ok().map(|inputs| inputs.shards.len() as u64 + 1)
}

/// Line of the file of errors.
fn failed_line(path: &str, line: &Line, error: &str) -> String {
    let mut failed = json!({ "error": error, "file": path, "offset": line.offset });
    if let Ok(text) = &line.text {
        failed["line"] = text.as_str().into();
    }
    failed.to_string()
}

fn counts(total: &ShardResult) -> PredictionCounts {
    let ShardResult { predictions, errors, worker_time_ms, .. } = *total;
    PredictionCounts { predictions, errors, worker_time_ms }
}

fn plan_of(job: &Job) -> Result<BatchPlan, BatchError> {
    let plan = job.prediction.as_ref().map(|prediction| prediction.plan.clone()).unwrap_or_default();
    serde_json::from_value(plan)
        .map_err(|error| BatchError::Failed(format!("this version of the server cannot read the job: {error}")))
}

fn encoded(document: &impl serde::Serialize) -> Result<Vec<u8>, BatchError> {
    serde_json::to_vec(document).map_err(|error| unreadable(&error))
}

fn decoded<T: serde::de::DeserializeOwned>(document: &[u8]) -> Result<T, BatchError> {
    serde_json::from_slice(document).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> BatchError {
    tracing::error!(%error, "the progress of a batch prediction cannot be read or written");
    BatchError::Failed(format!("the progress of the job cannot be read: {error}"))
}

/// Appends a line to the log of the job.
async fn note(log: &Path, line: String) {
    let log = log.to_owned();
    let write = move || {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        writeln!(file, "{line}")
    };
    if let Ok(Err(error)) = tokio::task::spawn_blocking(write).await {
        tracing::debug!(%error, "a line of the log of a job is lost");
    }
}
