//! Submits a job: stores its records, or finds an existing job with the same content.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use futures::TryStreamExt;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};

use tunesmith_store::{OptionalExtension, Store, StoreError, pages, plan_document};

use super::allowed_folders::PackageReader;
use super::bucket_folders;
use super::plan_check::{self, PlanProblem};
use super::runner::{JobServices, replica_resources};
use super::trainer::placement;
use tunesmith_domain::{
    BatchPrediction, Job, JobFields, JobId, JobPlan, MachineNotice, MachinePlan, Metadata, NewStudy,
    RESUME_PREVIOUS_JOB, Resources, SourceStudies, StudyId, StudySpec, TrainerContract,
};
use tunesmith_studies::search_policy::{SourceDescriptions, describe_sources};

/// Folder for program output within the job's folder, by default.
const OUTPUT_FOLDER: &str = "output";

#[derive(Debug, Clone)]
pub struct Submission {
    /// Job name. Without one, an unfinished job with the same content is resumed, or a name is generated.
    pub id: Option<JobId>,
    /// Prefix of a generated name: letters, digits and underscores, starting with a letter.
    pub name_prefix: String,
    pub labels: BTreeMap<String, String>,
    /// `None` for a job without hyperparameters.
    pub study: Option<StudySpec>,
    /// Job whose trials are prior knowledge for the study.
    pub resume_previous_job: Option<JobId>,
    /// Seed of all random choices; `None` to draw one.
    pub seed: Option<u64>,
    /// Training input as canonical JSON.
    pub training_input: Value,
    pub plan: JobPlan,
    /// Access policy in the format of the receiving API; null for none.
    pub policy: Value,
}

/// Batch prediction to submit.
#[derive(Debug, Clone)]
pub struct PredictionSubmission {
    pub id: JobId,
    pub labels: BTreeMap<String, String>,
    /// Access policy in the format of the receiving API; null for none.
    pub policy: Value,
    pub plan: JobPlan,
    pub prediction: BatchPrediction,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Submitted {
    /// A new job.
    Created(Job),
    /// Submitted before and unfinished.
    Resumed(Job),
    /// Submitted before under the same name, and finished.
    Finished(Job),
}

impl Submitted {
    pub fn job(&self) -> &Job {
        match self {
            Self::Created(job) | Self::Resumed(job) | Self::Finished(job) => job,
        }
    }
}

/// Why a job was not submitted. Nothing was stored.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The name is taken by a job with other content.
    #[error("job {id} exists and was submitted with other {difference}; choose another --job-id")]
    OtherContent {
        id: JobId,
        /// Differing inputs, as named on the command line.
        difference: String,
    },
    /// The previous job is missing or has no hyperparameters.
    #[error("resumePreviousJobId: {0} is not a hyperparameter tuning job of this data folder")]
    NoSuchPreviousJob(JobId),
    /// Parts of the job, at least one, that cannot run on this machine.
    #[error("the job cannot be run: {}", listed(.0))]
    NotRunnable(Vec<PlanProblem>),
    /// The job exceeds the total resources.
    #[error("the job can never start: it {0}")]
    Impossible(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn listed(problems: &[PlanProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Stores `submission` as a new job, or finds an earlier one with the same content.
///
/// Checks files of this machine, unless the project has a separate user for its programs.
pub(super) async fn submit(
    services: &Arc<JobServices>,
    mut submission: Submission,
    random_seed: u64,
) -> Result<Submitted, SubmitError> {
    let JobServices { store, clock, program_user, buckets, pool, executor, packages, allowed_folders, .. } =
        &**services;
    let (store, now) = (&**store, clock.now());
    if let Some(id) = &submission.id {
        if let Some(job) = store.job(id).await.optional()? {
            return same_job(job, &submission);
        }
    } else {
        let wanted = submission.plan.max_trials;
        let is_unfinished =
            |job: &Job| !job.state.is_final() && job.plan.as_ref().map_or(true, |plan| plan.max_trials == wanted);
        if let Some(job) = newest_job(store, &submission, is_unfinished).await? {
            return Ok(Submitted::Resumed(job));
        }
    }
    if let Some(reason) =
        pool.impossible(submission.plan.machines.executor.as_deref(), &replica_resources(&submission.plan))
    {
        return Err(SubmitError::Impossible(reason));
    }
    let fingerprint = fingerprint(&submission);
    let sources = sources(store, submission.resume_previous_job.as_ref()).await?;
    let id = match submission.id.take() {
        Some(id) => id,
        None => new_job_id(&submission.name_prefix, now, random_seed),
    };
    let (project, name) = id.parts();
    let user = program_user(project);
    let capabilities = executor.capabilities(&placement(&submission.plan.machines));
    let is_here = capabilities.shares_files;
    let is_vertex = matches!(submission.plan.contract, TrainerContract::VertexAi { .. });
    if is_vertex && !executor.runs_containers(&placement(&submission.plan.machines)).await {
        plan_check::run_as_processes(&mut submission.plan)
            .map_err(|problem| SubmitError::NotRunnable(vec![problem]))?;
    }
    bucket_folders::place(&mut submission.plan, is_here, |folder| allowed_folders.allows(project, folder));
    if submission.plan.job_dir_flag.is_some() && submission.plan.job_dir.is_none() {
        if !is_here {
            let message =
                "tunesmith.jobDirFlag needs jobDir: the programs of this executor do not see the files of the server";
            let problem = PlanProblem { part: plan_check::PlanPart::JobDir, message: message.to_owned() };
            return Err(SubmitError::NotRunnable(vec![problem]));
        }
        let folder = match allowed_folders.base(project) {
            Some(area) => area.join(name),
            None => (services.directory)(&id).join(OUTPUT_FOLDER),
        };
        submission.plan.job_dir = Some(folder.display().to_string());
    }
    let reader = PackageReader { packages, project, user: user.as_ref(), is_here };
    let folder = services.job_folder(&id, &submission.plan);
    let (named, mut problems) = plan_check::named(&submission.plan, folder, allowed_folders, reader);
    let named = Arc::new(named);
    if !capabilities.starts_entry_points {
        problems.extend(plan_check::entry_point_problem(&submission.plan));
    }
    // This process may have access that the programs' user lacks; in that case, the run finds the problems.
    if user.is_none() {
        let (plan, named) = (submission.plan.clone(), Arc::clone(&named));
        let (services, owner) = (Arc::clone(services), id.clone());
        let look = move || plan_check::problems(&plan, &named, is_here, |folder| services.prepare_area(&owner, folder));
        // File access may block. If the thread panics, the run finds the problems.
        problems.extend(tokio::task::spawn_blocking(look).await.unwrap_or_default());
    }
    if !problems.is_empty() {
        return Err(SubmitError::NotRunnable(problems));
    }
    let mut plan = submission.plan;
    if let Some(problem) = plan_check::object_problem(&named, buckets).await {
        if !is_vertex {
            return Err(SubmitError::NotRunnable(vec![problem]));
        }
        // Published clients always name a bucket, which only the programs may need.
        plan.job_dir = None;
        let description = format!("is for the programs alone: {}", problem.message);
        plan.machines.notices.push(MachineNotice { field: "jobDir".to_owned(), description });
    }
    if let Some(spec) = &submission.study {
        let SourceDescriptions { continued, related } = describe_sources(store, spec, &sources).await?;
        let texts: Vec<String> = continued.into_iter().chain(related).map(|source| source.text).collect();
        if !texts.is_empty() {
            let notice = MachineNotice { field: RESUME_PREVIOUS_JOB.to_owned(), description: texts.join("; ") };
            plan.machines.notices.push(notice);
        }
    }
    let study = submission.study.map(|spec| {
        spec.into_study(NewStudy {
            id: StudyId::from(&id),
            seed: submission.seed.unwrap_or(random_seed),
            sources,
            config: Value::Null,
            metadata: Metadata::default(),
            create_time: now,
        })
    });
    let job = Job::restore(JobFields {
        study: study.as_ref().map(|study| study.id.clone()),
        training_input: submission.training_input,
        fingerprint,
        labels: submission.labels,
        policy: submission.policy,
        ..JobFields::new(id, plan, now)
    });
    store.create_job(job.clone(), study).await?;
    Ok(Submitted::Created(job))
}

fn same_job(job: Job, submission: &Submission) -> Result<Submitted, SubmitError> {
    if job.fingerprint == fingerprint(submission) {
        return Ok(if job.state.is_final() { Submitted::Finished(job) } else { Submitted::Resumed(job) });
    }
    let is_same_input = without_trial_count(&job.training_input) == without_trial_count(&submission.training_input);
    let difference = if is_same_input { "program, arguments, --job-dir or --seed" } else { "configuration" };
    Err(SubmitError::OtherContent { id: job.id.clone(), difference: difference.to_owned() })
}

/// Newest `wanted` job with the content of `submission`, whatever its number of trials.
pub(super) async fn newest_job(
    store: &dyn Store,
    submission: &Submission,
    wanted: impl Fn(&Job) -> bool + Send,
) -> Result<Option<Job>, StoreError> {
    let mut found: Option<Job> = None;
    let mut jobs = pin!(pages::jobs(store, None));
    while let Some(job) = jobs.try_next().await? {
        let newer = found.as_ref().is_none_or(|other| other.create_time < job.create_time);
        if newer && wanted(&job) && job.fingerprint == fingerprint(submission) {
            found = Some(job);
        }
    }
    Ok(found)
}

/// Source studies of a new study: it continues the study of the previous job, and what that study continues.
async fn sources(store: &dyn Store, previous: Option<&JobId>) -> Result<SourceStudies, SubmitError> {
    let mut sources = SourceStudies::default();
    let Some(previous) = previous else { return Ok(sources) };
    let unknown = || SubmitError::NoSuchPreviousJob(previous.clone());
    let job = store.job(previous).await.optional()?.ok_or_else(unknown)?;
    let study = store.study(job.study.as_ref().ok_or_else(unknown)?).await?;
    sources.add_continued(&study);
    Ok(sources)
}

/// Generates a unique name from a prefix, the time and random digits; names sort by age.
fn new_job_id(prefix: &str, now: Timestamp, random: u64) -> JobId {
    let stamp = now.strftime("%Y%m%d_%H%M%S");
    let short: String = prefix.chars().take(64).collect();
    let id = format!("{short}_{stamp}_{:04x}", random & 0xffff);
    id.parse()
        .or_else(|_| format!("job_{stamp}_{:04x}", random & 0xffff).parse())
        .expect("letters, digits, underscores")
}

/// Digest that identifies a job's content. Excludes the trial counts, since jobs can be extended, and the machines,
/// which depend on the server configuration.
fn fingerprint(submission: &Submission) -> String {
    // Machines depend on the server, and the principal on access control.
    let mut plan = JobPlan {
        max_trials: 1,
        max_parallel_trials: 1,
        principal: None,
        machines: MachinePlan::default(),
        ..submission.plan.clone()
    };
    plan.replicas.iter_mut().for_each(|group| group.resources = Resources::default());
    let content = serde_json::json!({
        "trainingInput": without_trial_count(&submission.training_input),
        "plan": plan_document(&plan),
        "seed": submission.seed,
    });
    hex::encode(Sha256::digest(content.to_string()))
}

/// The training input without its number of trials, and without its export, which may differ between runs of a job.
fn without_trial_count(training_input: &Value) -> Value {
    let mut input = training_input.clone();
    if let Some(Value::Object(additions)) = input.get_mut("tunesmith") {
        let is_last = additions.remove("mlflow").is_some() && additions.is_empty();
        if let Some(input) = input.as_object_mut().filter(|_| is_last) {
            input.remove("tunesmith");
        }
    }
    if let Some(Value::Object(hyperparameters)) = input.get_mut("hyperparameters") {
        hyperparameters.remove("maxTrials");
    }
    input
}
