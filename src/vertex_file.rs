//! Jobs of `tunesmith run` in the files of Vertex AI.

use std::path::Path;

use prost::Name;
use serde_json::{Value, json};
use tunesmith_api::ai_platform::TuningSpec;
use tunesmith_api::ai_platform::machines::MachineMap;
use tunesmith_api::ai_platform::rpc::FieldViolation;
use tunesmith_config::{ConfigErrors, Document, HptuningConfig, JobFormat};
use tunesmith_domain::ProgramPlan;
use tunesmith_importers::vizier::message;
use tunesmith_vizier::json as messages;
use tunesmith_vizier::messages::vertex::{CustomJob, HyperparameterTuningJob};
use tunesmith_vizier::names::vertex::{CUSTOM_JOBS, TUNING_JOBS};
use tunesmith_vizier::vertex::{JobContext, JobOfVertex, custom_job, tuning_job};

/// Settings of the command line that complete a file.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    pub(crate) max_trials: Option<i32>,
    pub(crate) parallel_trials: Option<i32>,
    pub(crate) job_dir: Option<String>,
    /// Replaces the program of the first pool, unless empty.
    pub(crate) command: Vec<String>,
}

/// A job in a file of Vertex AI.
#[derive(Debug)]
pub(crate) struct VertexFile {
    document: Document,
    format: JobFormat,
    job: Job,
    command: Vec<String>,
}

#[derive(Debug)]
enum Job {
    Tuning(Box<HyperparameterTuningJob>),
    Custom(Box<CustomJob>),
}

impl VertexFile {
    /// Reads the file at `path`; `None` if it is in another format.
    pub(crate) fn load(path: &Path, additions: Additions) -> Option<Result<Self, ConfigErrors>> {
        let document = Document::load(path).ok()?;
        let format = document.job_format()?;
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("job");
        Some(Self::read(document, format, stem, additions))
    }

    fn read(document: Document, format: JobFormat, name: &str, additions: Additions) -> Result<Self, ConfigErrors> {
        let Additions { max_trials, parallel_trials, job_dir, command } = additions;
        let value = match format {
            JobFormat::CustomJobSpec => json!({ "jobSpec": document.value() }),
            JobFormat::TuningJob | JobFormat::CustomJob => document.value(),
        };
        let path = |path: &str| path_in_file(format, path);
        let mut job = match format {
            JobFormat::TuningJob => Job::Tuning(Box::new(message(&document, &value, path)?)),
            JobFormat::CustomJob | JobFormat::CustomJobSpec => Job::Custom(Box::new(message(&document, &value, path)?)),
        };
        let (display_name, spec) = match &mut job {
            Job::Tuning(job) => {
                job.max_trial_count = max_trials.unwrap_or(job.max_trial_count);
                job.parallel_trial_count = parallel_trials.unwrap_or(job.parallel_trial_count.max(1));
                (&mut job.display_name, &mut job.trial_job_spec)
            }
            Job::Custom(job) => (&mut job.display_name, &mut job.job_spec),
        };
        if display_name.is_empty() {
            name.clone_into(display_name);
        }
        if let (Some(spec), Some(folder)) = (spec, job_dir) {
            spec.base_output_directory.get_or_insert_default().output_uri_prefix = folder;
        }
        Ok(Self { document, format, job, command })
    }

    /// The format, for people.
    pub(crate) fn format(&self) -> &'static str {
        match self.format {
            JobFormat::TuningJob => "HyperparameterTuningJob of Vertex AI",
            JobFormat::CustomJob => "CustomJob of Vertex AI",
            JobFormat::CustomJobSpec => "CustomJobSpec of Vertex AI",
        }
    }

    /// The job on a server with these machines.
    ///
    /// # Errors
    /// All violated rules, with their places in the file.
    pub(crate) fn job(&self, machines: &MachineMap) -> anyhow::Result<JobOfVertex> {
        let job_context =
            JobContext { machines, location: "", working_directory: std::env::current_dir()?, job_dir_base: None };
        let converted = match &self.job {
            Job::Tuning(job) => tuning_job(job, &job_context),
            Job::Custom(job) => custom_job(job, &job_context),
        };
        let mut job = converted.map_err(|violations| self.errors(violations))?;
        if !self.command.is_empty() {
            job.plan.program = ProgramPlan::Command { argv: self.command.clone() };
        }
        Ok(job)
    }

    /// The job as a configuration, for what the command line prints.
    ///
    /// # Errors
    /// As [`Self::job`].
    pub(crate) fn config(&self) -> anyhow::Result<HptuningConfig> {
        let job = self.job(&MachineMap::published())?;
        let study = job.study.map(|study| TuningSpec {
            study,
            max_trials: u32::try_from(job.plan.max_trials).unwrap_or(u32::MAX),
            max_parallel_trials: u32::try_from(job.plan.max_parallel_trials).unwrap_or(u32::MAX),
            max_failed_trials: u32::try_from(job.plan.max_failed_trials).unwrap_or(u32::MAX),
        });
        let labels = match &self.job {
            Job::Tuning(job) => job.labels.clone(),
            Job::Custom(job) => job.labels.clone(),
        };
        let warnings = job.notices.into_iter().map(|notice| (self.path(&notice.field), notice.description));
        Ok(HptuningConfig {
            training_input: job.training_input,
            study,
            job_id: None,
            labels,
            warnings: self.document.warnings(warnings),
            without_effect: Vec::new(),
        })
    }

    /// Collection of the job, and its message in JSON.
    ///
    /// # Errors
    /// If the message cannot be JSON, which is a defect.
    pub(crate) fn message(&self) -> anyhow::Result<(&'static str, Value)> {
        let (collection, written) = match &self.job {
            Job::Tuning(job) => (TUNING_JOBS, messages::write(&**job, &HyperparameterTuningJob::full_name())),
            Job::Custom(job) => (CUSTOM_JOBS, messages::write(&**job, &CustomJob::full_name())),
        };
        let written = written.map_err(|refusal| anyhow::anyhow!(refusal.message))?;
        Ok((collection, serde_json::from_slice(&written)?))
    }

    fn errors(&self, violations: Vec<FieldViolation>) -> ConfigErrors {
        self.document.errors(violations.into_iter().map(|it| (self.path(&it.field), it.description)))
    }

    /// Path in the file, for a path in the message.
    fn path(&self, path: &str) -> String {
        path_in_file(self.format, path)
    }
}

/// Path in a file of `format`, for a path in the message.
fn path_in_file(format: JobFormat, path: &str) -> String {
    match (format, path.strip_prefix("jobSpec.")) {
        (JobFormat::CustomJobSpec, Some(rest)) => rest.to_owned(),
        _ => path.to_owned(),
    }
}
