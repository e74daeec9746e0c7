//! Requests of batch predictions, checked and resolved at submission.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tunesmith_domain::{Code, Refusal};

use super::paths::Pattern;
use crate::changes::found;
use crate::models::Models;
use crate::records::{VersionSpec, VersionState};

/// Instances per call of the model, as published.
pub const DEFAULT_BATCH_SIZE: usize = 64;
/// Workers of a job, as published.
pub const DEFAULT_MAX_WORKERS: usize = 10;

/// A guess, which bounds the memory of a batch together with its maximum size.
const MAX_BATCH_SIZE: usize = 10_000;
/// Maximum number of input paths of a job. A guess.
const MAX_PATHS: usize = 1000;
/// Maximum length of a path in bytes: that of Linux.
const MAX_PATH_BYTES: usize = 4096;

/// Format of the input files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum InputFormat {
    /// Each line is an instance in JSON.
    Json,
    /// As [`Self::Json`]; any other line is an instance that is a string.
    Text,
}

/// Format of the files with predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OutputFormat {
    /// Each line is a prediction in JSON.
    Json,
    /// Each line has the values of a prediction, separated by commas.
    Csv,
}

/// Model of a batch prediction.
#[derive(Debug, Clone, PartialEq)]
pub enum BatchModel {
    /// A model with its version; `None` for the default.
    Named { model: String, version: Option<String> },
    /// Folder with the files of a model, `deployment_uri`, and its interpreter.
    Folder(Box<VersionSpec>),
}

/// Batch prediction to submit.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchRequest {
    pub model: BatchModel,
    pub input_format: InputFormat,
    pub output_format: OutputFormat,
    /// Files, folders, and patterns with `*`, `?` and `**`.
    pub input_paths: Vec<String>,
    pub output_path: String,
    /// Instances per call; `None` for [`DEFAULT_BATCH_SIZE`].
    pub batch_size: Option<i64>,
    /// `None` for [`DEFAULT_MAX_WORKERS`].
    pub max_workers: Option<i64>,
}

/// Batch prediction as stored with its job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BatchPlan {
    /// Name of the documents and the folder of the job, never used again.
    pub(super) uid: String,
    pub(super) model: PlannedModel,
    pub(super) input_format: InputFormat,
    pub(super) output_format: OutputFormat,
    pub(super) input_paths: Vec<String>,
    pub(super) output_path: String,
    pub(super) batch_size: usize,
    pub(super) max_workers: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum PlannedModel {
    Version { model: String, version: String, uid: String },
    Folder(Box<VersionSpec>),
}

impl Models {
    /// Workers that all batch predictions of this server may have.
    pub fn batch_worker_limit(&self) -> usize {
        self.0.nodes.batch_limit()
    }

    /// Checks a batch prediction, and resolves its model. Returns its plan, and the version if it names a model. Files are
    /// looked for when the job runs.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`]; [`Code::NotFound`] for the model or version; [`Code::FailedPrecondition`] if it is not ready;
    /// failures of the store.
    pub async fn plan_batch(&self, project: &str, request: BatchRequest) -> Result<(Value, Option<String>), Refusal> {
        let folders = &self.0.services.allowed_folders;
        let user = self.0.program_user(project);
        let check = |field: &str, path: &str| {
            if path.len() > MAX_PATH_BYTES {
                let text = format!("has {} bytes; allowed: up to {MAX_PATH_BYTES}", path.len());
                return Err(Refusal::invalid(field, text));
            }
            let checked = folders.model_folder(project, path, user.as_ref());
            checked.map(drop).map_err(|error| Refusal::invalid(field, error.to_string()))
        };
        if request.input_paths.is_empty() {
            return Err(Refusal::invalid("predictionInput.inputPaths", "is required: the files with instances"));
        }
        if request.input_paths.len() > MAX_PATHS {
            let text = format!("has {} paths; allowed: up to {MAX_PATHS}", request.input_paths.len());
            return Err(Refusal::invalid("predictionInput.inputPaths", text));
        }
        for (index, path) in request.input_paths.iter().enumerate() {
            check(&format!("predictionInput.inputPaths[{index}]"), Pattern::new(path).base())?;
        }
        if request.output_path.is_empty() {
            return Err(Refusal::invalid("predictionInput.outputPath", "is required: the folder for the predictions"));
        }
        check("predictionInput.outputPath", &request.output_path)?;
        let number = |field: &str, given: Option<i64>, default: usize, most: usize| match given {
            None => Ok(default),
            Some(given) => usize::try_from(given).ok().filter(|given| (1..=most).contains(given)).ok_or_else(|| {
                Refusal::invalid(
                    &format!("predictionInput.{field}"),
                    format!("{given} is not allowed; allowed: 1 to {most}"),
                )
            }),
        };
        let batch_size = number("batchSize", request.batch_size, DEFAULT_BATCH_SIZE, MAX_BATCH_SIZE)?;
        let max_workers = number("maxWorkerCount", request.max_workers, DEFAULT_MAX_WORKERS, i32::MAX as usize)?;
        let model = match request.model {
            BatchModel::Folder(spec) => {
                self.check_runs_here()?;
                self.check_runs_in_pods(&spec)?;
                check("predictionInput.uri", &spec.deployment_uri)?;
                PlannedModel::Folder(spec)
            }
            BatchModel::Named { model, version } => self.planned_version(project, &model, version).await?,
        };
        let version = match &model {
            PlannedModel::Version { version, .. } => Some(version.clone()),
            PlannedModel::Folder(_) => None,
        };
        let plan = BatchPlan {
            uid: format!("batch-{}", hex::encode(rand::random::<[u8; 12]>())),
            model,
            input_format: request.input_format,
            output_format: request.output_format,
            input_paths: request.input_paths,
            output_path: request.output_path.trim_end_matches('/').to_owned(),
            batch_size,
            max_workers,
        };
        let plan = serde_json::to_value(&plan).map_err(|error| {
            tracing::error!(%error, "a batch prediction cannot be stored");
            Refusal::new(Code::Internal, "the batch prediction cannot be stored; see the server's log")
        })?;
        Ok((plan, version))
    }

    async fn planned_version(
        &self,
        project: &str,
        name: &str,
        version: Option<String>,
    ) -> Result<PlannedModel, Refusal> {
        let model = self.model(project, name).await?;
        let named = version.or_else(|| model.default_version.clone()).ok_or_else(|| {
            let text = format!("model {} has no default version: create a version first", model.resource_name());
            Refusal::new(Code::FailedPrecondition, text)
        })?;
        let version = found(&model, &named)?;
        if version.state != VersionState::Ready {
            let text =
                format!("version {}/versions/{named} is {}, not READY", model.resource_name(), version.state.as_str());
            return Err(Refusal::new(Code::FailedPrecondition, text));
        }
        if version.spec.container.is_some() {
            let text = "has a custom container, which serves online predictions only; allowed: a version with a framework or a predictionClass";
            return Err(Refusal::invalid("predictionInput.versionName", format!("{named:?} {text}")));
        }
        Ok(PlannedModel::Version { model: name.to_owned(), uid: version.uid.clone(), version: named })
    }
}
