//! `HyperparameterTuningJob` and `CustomJob` of Vertex AI as jobs.
//!
//! | Vertex AI | here |
//! |---|---|
//! | `displayName`, `studySpec`, `trialJobSpec` or `jobSpec` | `tunesmith.vertex` of the training input, as given |
//! | `studySpec` | the study of the job, by the rules of a `StudyConfig` |
//! | worker pools 0 to 3 | master, workers, parameter servers, evaluators |
//! | location | `region` of the training input |

mod message;
mod paths;
mod pools;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use prost::{Message, Name};
use serde_json::Value;
use tunesmith_api::ai_platform::machines::{KUBERNETES, MachineMap};
use tunesmith_api::ai_platform::optimizer::{PublishedNames, StudyPlan, study_as_job, study_plan};
use tunesmith_api::ai_platform::plan::{CommandLine, PlanningError, job_plan_on};
use tunesmith_api::ai_platform::rpc::FieldViolation;
use tunesmith_api::ai_platform::{
    EncryptionConfig, Notice, ProtoDuration, Scheduling, Severity, TrainingInput, Violation, check, check_labels,
};
use tunesmith_domain::{JobPlan, ProgramPlan, StudySpec, TrainerContract};

use self::pools::Pools;
use super::{study_config, violations_of_spec};
use crate::Version;
use crate::json;
use crate::messages::vertex::scheduling::Strategy;
use crate::messages::vertex::{self as wire, CustomJobSpec};
use crate::time::std_duration;

pub use message::{location_of_job, message_of_custom_job, message_of_tuning_job, state_of_job};
pub use paths::path_of_job;

/// Version of the messages that are kept: the one with all fields.
pub(super) const KEPT: Version = Version::V1Beta1;

/// Maximum length of the name of a job for display, in characters.
const MAX_DISPLAY_NAME: usize = 128;

/// Machine types, region and folders with which a job is created.
#[derive(Debug)]
pub struct JobContext<'a> {
    pub machines: &'a MachineMap,
    pub location: &'a str,
    /// Working directory of programs.
    pub working_directory: PathBuf,
    /// Base of relative folders; `None` for the working directory.
    pub job_dir_base: Option<PathBuf>,
}

/// A job as the messages of Vertex AI describe it.
#[derive(Debug)]
pub struct JobOfVertex {
    pub training_input: TrainingInput,
    pub plan: JobPlan,
    pub study: Option<StudySpec>,
    /// Parts without effect, or with another one, by their path in the message.
    pub notices: Vec<Notice>,
}

/// Fields of a job that only the service sets, and whether they are given.
macro_rules! output_only {
    ($message:ident) => {
        [
            ("name", !$message.name.is_empty()),
            ("state", $message.state != 0),
            ("createTime", $message.create_time.is_some()),
            ("startTime", $message.start_time.is_some()),
            ("endTime", $message.end_time.is_some()),
            ("updateTime", $message.update_time.is_some()),
            ("error", $message.error.is_some()),
        ]
    };
}

/// Converts a `CustomJob`.
///
/// # Errors
/// All violated rules, by their path in the message.
pub fn custom_job(message: &wire::CustomJob, job_context: &JobContext<'_>) -> Result<JobOfVertex, Vec<FieldViolation>> {
    let kept = wire::CustomJob {
        display_name: message.display_name.clone(),
        job_spec: message.job_spec.clone(),
        encryption_spec: message.encryption_spec.clone(),
        ..wire::CustomJob::default()
    };
    let mut reading = Reading::new("jobSpec");
    reading.common(&message.display_name, &message.labels, message.encryption_spec.as_ref());
    reading.output_only(&output_only!(message));
    reading.input.tunesmith.vertex = reading.document(&kept);
    reading.job(message.job_spec.as_ref(), None, job_context)
}

/// Converts a `HyperparameterTuningJob`.
///
/// # Errors
/// All violated rules, by their path in the message.
pub fn tuning_job(
    message: &wire::HyperparameterTuningJob,
    job_context: &JobContext<'_>,
) -> Result<JobOfVertex, Vec<FieldViolation>> {
    let kept = wire::HyperparameterTuningJob {
        display_name: message.display_name.clone(),
        study_spec: message.study_spec.clone(),
        trial_job_spec: message.trial_job_spec.clone(),
        encryption_spec: message.encryption_spec.clone(),
        ..wire::HyperparameterTuningJob::default()
    };
    let mut reading = Reading::new("trialJobSpec");
    reading.common(&message.display_name, &message.labels, message.encryption_spec.as_ref());
    reading.output_only(&output_only!(message));
    reading.output_only(&[("trials", !message.trials.is_empty())]);
    let counts = [
        ("maxTrialCount", message.max_trial_count, 1),
        ("parallelTrialCount", message.parallel_trial_count, 1),
        ("maxFailedTrialCount", message.max_failed_trial_count, 0),
    ];
    for (field, count, least) in counts {
        if count < least {
            reading.refuse(field, format!("{count} is too small; allowed: whole numbers from {least} on"));
        }
    }
    let vertex = reading.document(&kept);
    let study = reading.study(message);
    reading.input.tunesmith.vertex = vertex;
    reading.job(message.trial_job_spec.as_ref(), study, job_context)
}

struct Reading {
    /// Path of the specification of the programs.
    field: &'static str,
    input: TrainingInput,
    violations: Vec<FieldViolation>,
    notices: Vec<Notice>,
}

impl Reading {
    fn new(field: &'static str) -> Self {
        Self { field, input: TrainingInput::default(), violations: Vec::new(), notices: Vec::new() }
    }

    fn refuse(&mut self, field: impl Into<String>, text: impl Into<String>) {
        self.violations.push(FieldViolation::new(field.into(), text));
    }

    fn notice(&mut self, field: impl Into<String>, text: &str) {
        self.notices.push(Notice { field: field.into(), description: text.to_owned() });
    }

    /// `message` as it is kept with the job.
    fn document<M: Message + Name>(&mut self, message: &M) -> Option<Value> {
        let written = json::write(message, &KEPT.message(&M::full_name()));
        let read = written
            .map_err(|refusal| refusal.message)
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
        read.map_err(|error| self.refuse("", format!("cannot be stored: {error}"))).ok()
    }

    fn common(
        &mut self,
        display_name: &str,
        labels: &BTreeMap<String, String>,
        encryption: Option<&wire::EncryptionSpec>,
    ) {
        let length = display_name.chars().count();
        if length == 0 {
            self.refuse("displayName", "is required");
        } else if length > MAX_DISPLAY_NAME {
            let text = format!("has {length} characters; allowed: at most {MAX_DISPLAY_NAME}");
            self.refuse("displayName", text);
        }
        self.violated(check_labels(labels), str::to_owned);
        if let Some(encryption) = encryption {
            self.input.encryption_config = Some(EncryptionConfig { kms_key_name: encryption.kms_key_name.clone() });
            self.notice("encryptionSpec", NO_EFFECT);
        }
    }

    /// Notes the fields of `given` that only the service sets.
    fn output_only(&mut self, given: &[(&str, bool)]) {
        for (field, _) in given.iter().filter(|(_, is_given)| *is_given) {
            self.notices.push(Notice::set_by_service(field));
        }
    }

    /// Adds `violations` of the rules of `ml v1`, whose paths `translate` turns into those of the message.
    fn violated(&mut self, violations: Vec<Violation>, translate: impl Fn(&str) -> String) {
        for violation in violations {
            let Violation { field, message, allowed, severity, .. } = violation;
            let (field, text) = (translate(&field), format!("{message}; allowed: {allowed}"));
            match severity {
                Severity::Error => self.refuse(field, text),
                Severity::Warning => self.notices.push(Notice { field, description: text }),
            }
        }
    }

    /// Reads the search, and enters it into the training input.
    fn study(&mut self, message: &wire::HyperparameterTuningJob) -> Option<StudyPlan> {
        let Some(spec) = &message.study_spec else {
            self.refuse("studySpec", "is required");
            return None;
        };
        let (config, notices) = study_config(spec).map_err(|found| self.violations.extend(found)).ok()?;
        self.notices.extend(notices);
        let plan = study_plan(&config);
        let plan = plan.map_err(|found| self.violations.extend(violations_of_spec(found))).ok()?;
        self.notices.extend(plan.notices.iter().cloned());
        let (mut hyperparameters, additions) = study_as_job(&config, &plan);
        hyperparameters.max_trials = Some(message.max_trial_count);
        hyperparameters.max_parallel_trials = Some(message.parallel_trial_count);
        hyperparameters.max_failed_trials = Some(message.max_failed_trial_count).filter(|count| *count > 0);
        self.input.hyperparameters = Some(hyperparameters);
        self.input.tunesmith = additions;
        Some(plan)
    }

    /// Reads what `spec` asks for besides its pools.
    fn specification(&mut self, spec: &CustomJobSpec) {
        let field = self.field;
        let ignored = [
            ("network", !spec.network.is_empty()),
            ("reservedIpRanges", !spec.reserved_ip_ranges.is_empty()),
            ("serviceAccount", !spec.service_account.is_empty()),
            ("tensorboard", !spec.tensorboard.is_empty()),
            ("enableWebAccess", spec.enable_web_access),
            ("enableDashboardAccess", spec.enable_dashboard_access),
            ("experiment", !spec.experiment.is_empty()),
            ("experimentRun", !spec.experiment_run.is_empty()),
            ("persistentResourceId", !spec.persistent_resource_id.is_empty()),
            ("pscInterfaceConfig", spec.psc_interface_config.is_some()),
            ("protectedArtifactLocationId", !spec.protected_artifact_location_id.is_empty()),
            ("models", !spec.models.is_empty()),
        ];
        for (name, _) in ignored.into_iter().filter(|(_, is_given)| *is_given) {
            self.notice(format!("{field}.{name}"), NO_EFFECT);
        }
        self.input.network.clone_from(&spec.network);
        self.input.service_account.clone_from(&spec.service_account);
        self.input.enable_web_access = spec.enable_web_access;
        let directory = spec.base_output_directory.as_ref().map_or("", |folder| &folder.output_uri_prefix);
        directory.clone_into(&mut self.input.job_dir);
        if spec.base_output_directory.is_some() && directory.is_empty() {
            self.refuse(format!("{field}.baseOutputDirectory.outputUriPrefix"), "is required");
        }
        if let Some(scheduling) = &spec.scheduling {
            self.scheduling(scheduling);
        }
    }

    fn scheduling(&mut self, scheduling: &wire::Scheduling) {
        let field = format!("{}.scheduling", self.field);
        let mut duration = |name: &str, given: Option<&prost_types::Duration>| {
            let read = std_duration(given?);
            if read.is_none() {
                self.refuse(format!("{field}.{name}"), "is no duration from 0 s on");
            }
            read.filter(|limit| !limit.is_zero()).map(ProtoDuration)
        };
        let max_running_time = duration("timeout", scheduling.timeout.as_ref());
        let max_wait_time = duration("maxWaitDuration", scheduling.max_wait_duration.as_ref());
        let strategy = Strategy::try_from(scheduling.strategy);
        match strategy {
            Err(_) => {
                let text = format!("{} is not known; allowed: 0 to 4 and 6", scheduling.strategy);
                self.refuse(format!("{field}.strategy"), text);
            }
            Ok(Strategy::Spot) => self.input.tunesmith.preemptible = true,
            Ok(Strategy::FlexStart) => {
                self.notice(format!("{field}.strategy"), "waits in the queue, for maxWaitDuration at most");
            }
            Ok(_) => {}
        }
        let is_flexible = strategy == Ok(Strategy::FlexStart);
        if max_wait_time.is_some() && !is_flexible {
            self.notice(format!("{field}.maxWaitDuration"), "has no effect without the strategy FLEX_START");
        }
        self.input.scheduling =
            Some(Scheduling { max_running_time, max_wait_time: max_wait_time.filter(|_| is_flexible), priority: None });
        if scheduling.disable_retries {
            self.input.tunesmith.max_lost_attempts = Some(0);
        }
        if scheduling.restart_job_on_worker_restart {
            let text = "has no effect: the loss of a replica always starts the attempt again";
            self.notice(format!("{field}.restartJobOnWorkerRestart"), text);
        }
    }

    fn job(
        mut self,
        spec: Option<&CustomJobSpec>,
        study: Option<StudyPlan>,
        job_context: &JobContext<'_>,
    ) -> Result<JobOfVertex, Vec<FieldViolation>> {
        let field = self.field;
        let Some(spec) = spec else {
            self.refuse(field, "is required");
            return Err(self.violations);
        };
        job_context.location.clone_into(&mut self.input.region);
        self.specification(spec);
        let pools = Pools::read(&mut self, spec);
        // The rules of `ml v1` refuse what this API alone may set.
        let vertex = self.input.tunesmith.vertex.take();
        let translate = |path: &str| path_of_job(path, field);
        let checked = check(&self.input);
        self.violated(checked, translate);
        self.input.tunesmith.vertex = vertex;
        let Some(pools) = pools.filter(|_| self.violations.is_empty()) else { return Err(self.violations) };
        let command_line = CommandLine {
            working_directory: job_context.working_directory.clone(),
            job_dir_base: job_context.job_dir_base.clone(),
            ..CommandLine::default()
        };
        let planned = job_plan_on(job_context.machines, &self.input, &command_line);
        let mut plan = match planned {
            Ok(plan) => plan,
            Err(PlanningError::Machines { violations }) => {
                self.violated(violations, translate);
                return Err(self.violations);
            }
            Err(error) => {
                self.refuse(field, error.to_string());
                return Err(self.violations);
            }
        };
        if plan.program.is_built_in() {
            self.refuse(field, "names a built-in algorithm, which jobs of the API of AI Platform (ml v1) run");
            return Err(self.violations);
        }
        let flags = study.as_ref().map(|study| {
            let space = study.spec.problem.search_space();
            let names = PublishedNames::of(space);
            let flags =
                space.parameters().iter().map(|it| (it.name().to_owned(), names.published(it.name()).to_owned()));
            flags.filter(|(name, flag)| name != flag).collect()
        });
        let output_directory = plan.job_dir.clone();
        let buckets = job_context.machines.buckets.clone();
        plan.contract = TrainerContract::VertexAi { output_directory, flags: flags.unwrap_or_default(), buckets };
        pools.enter(&mut plan, job_context.machines);
        for notice in &plan.machines.notices {
            let Some(path) = Some(translate(&notice.field)).filter(|path| path != "parent") else { continue };
            self.notices.push(Notice { field: path, description: notice.description.clone() });
        }
        // `maxTrialCount` is the limit of the job, which ends its study.
        let study = study.map(|plan| StudySpec { max_trials: None, ..plan.spec });
        Ok(JobOfVertex { training_input: self.input, plan, study, notices: self.notices })
    }
}

/// Notice about a field that this service has not.
const NO_EFFECT: &str = "has no effect on this service";

impl Pools {
    /// Makes the programs of `plan` those of the pools.
    fn enter(self, plan: &mut JobPlan, machines: &MachineMap) {
        let executor = plan.machines.executor.as_deref().unwrap_or(&machines.executor);
        if let Some(image) = self.executor_image
            && machines.kind_of(executor) == KUBERNETES
        {
            plan.machines.options.insert("image".to_owned(), image);
        }
        let mut pools = self.pools.into_iter();
        plan.args = Vec::new();
        if let Some(first) = pools.next() {
            (plan.program, plan.variables) = (first.program, first.variables);
        }
        let others: Vec<_> = pools.collect();
        for group in &mut plan.replicas {
            if let Some(pool) = others.iter().find(|pool| pool.role == group.role) {
                group.program = Some(pool.program.clone());
                group.variables.clone_from(&pool.variables);
            }
        }
    }
}

impl JobOfVertex {
    /// Addresses of the packages of the job, to be replaced by those of files, with their path.
    pub fn packages(&mut self) -> impl Iterator<Item = (String, &mut String)> {
        let field = if self.study.is_some() { "trialJobSpec" } else { "jobSpec" };
        let packages = match &mut self.plan.program {
            ProgramPlan::PythonModule { package_uris, .. } => package_uris.iter_mut(),
            _ => [].iter_mut(),
        };
        packages.enumerate().map(move |(index, uri)| {
            (format!("{field}.workerPoolSpecs[0].pythonPackageSpec.packageUris[{index}]"), uri)
        })
    }

    /// Training input as it is stored.
    ///
    /// # Errors
    /// If it cannot be JSON, which is a defect.
    pub fn document(&self) -> Result<Value, FieldViolation> {
        serde_json::to_value(&self.training_input).map_err(|error| FieldViolation::new("jobSpec", error.to_string()))
    }
}
