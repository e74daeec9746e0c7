//! Submits a job: stores its records, or finds the existing job of the same content.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use futures::TryStreamExt;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};

use tunesmith_domain::{Job, JobFields, JobId, JobPlan, JobState, MachineNotice, MachinePlan, Resources, StudyId};
use tunesmith_store::{Store, StoreError, plan_document};

use super::allowed_folders::PackageReader;
use super::pages;
use super::plan_check::{self, PlanProblem};
use super::runner::{JobServices, replica_resources};
use super::search_policy::sources_in_words;
use super::study_spec::{NewStudy, StudySpec};
use super::trainer::placement;

/// The folder of a job for the output of its programs, if it has no other.
const OUTPUT_FOLDER: &str = "output";

/// The field of the training input that names the job to continue.
pub const RESUME_PREVIOUS_JOB: &str = "hyperparameters.resumePreviousJobId";

/// A job to be submitted.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Its name. Without one, an unfinished job of the same content is resumed, or a name is generated.
    pub id: Option<JobId>,
    /// First part of a generated name: letters, digits and underscores, starting with a letter.
    pub name_prefix: String,
    /// Labels by key.
    pub labels: BTreeMap<String, String>,
    /// The study; `None` for a job without hyperparameters.
    pub study: Option<StudySpec>,
    /// The job whose trials are prior knowledge for the study.
    pub resume_previous_job: Option<JobId>,
    /// The seed of all random choices; `None` to draw it.
    pub seed: Option<u64>,
    /// The training input as canonical JSON.
    pub training_input: Value,
    /// How the job is run.
    pub plan: JobPlan,
    /// The access policy, in the form of the API that received the job; null without one.
    pub policy: Value,
}

/// The result of a submission.
#[derive(Debug, Clone, PartialEq)]
pub enum Submitted {
    /// A new job.
    Created(Job),
    /// The job was submitted before, and is unfinished.
    Resumed(Job),
    /// The job was submitted before under the same name, and is finished.
    Finished(Job),
}

impl Submitted {
    /// Returns the job.
    pub fn job(&self) -> &Job {
        match self {
            Self::Created(job) | Self::Resumed(job) | Self::Finished(job) => job,
        }
    }
}

/// Why a job was not submitted. Nothing was stored.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// There is a job of this name with other content.
    #[error("job {id} exists and was submitted with other {difference}; choose another --job-id")]
    OtherContent {
        /// The name.
        id: JobId,
        /// The differing inputs, as named on the command line.
        difference: String,
    },
    /// The previous job does not exist, or has no hyperparameters.
    #[error("resumePreviousJobId: {id} is not a hyperparameter tuning job of this data folder")]
    NoSuchPreviousJob {
        /// Its name.
        id: JobId,
    },
    /// The job cannot be run on this machine.
    #[error("the job cannot be run: {}", listed(problems))]
    NotRunnable {
        /// The parts that cannot be run; at least one.
        problems: Vec<PlanProblem>,
    },
    /// The job needs more resources than there are.
    #[error("the job can never start: it {reason}")]
    Impossible {
        /// What it needs, what there is, and what to do.
        reason: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn listed(problems: &[PlanProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Stores `submission` as a new job, or finds the job that was submitted with the same content before.
///
/// Files of this machine are checked unless the project has a user for its programs.
///
/// # Errors
/// [`SubmitError`]; nothing was stored.
pub(super) async fn submit(
    services: &Arc<JobServices>,
    mut submission: Submission,
    random_seed: u64,
) -> Result<Submitted, SubmitError> {
    let JobServices { store, clock, program_user, buckets, pool, executor, packages, allowed_folders, .. } =
        &**services;
    let (store, now) = (&**store, clock.now());
    if let Some(id) = &submission.id {
        match store.job(id).await {
            Ok(job) => return same_job(job, &submission),
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
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
        return Err(SubmitError::Impossible { reason });
    }
    let fingerprint = fingerprint(&submission);
    let prior_studies = prior_studies(store, submission.resume_previous_job.as_ref()).await?;
    let id = match submission.id.take() {
        Some(id) => id,
        None => new_job_id(&submission.name_prefix, now, random_seed),
    };
    let (project, name) = id.parts();
    let user = program_user(project);
    let capabilities = executor.capabilities(&placement(&submission.plan.machines));
    let is_here = capabilities.shares_files;
    if submission.plan.job_dir_flag.is_some() && submission.plan.job_dir.is_none() {
        if !is_here {
            let message =
                "tunesmith.jobDirFlag needs jobDir: the programs of this executor do not see the files of the server";
            let problem = PlanProblem { part: plan_check::PlanPart::JobDir, message: message.to_owned() };
            return Err(SubmitError::NotRunnable { problems: vec![problem] });
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
    // This process may read and create what the user of the programs may not: then the run finds what is wrong.
    if user.is_none() {
        let (plan, named) = (submission.plan.clone(), Arc::clone(&named));
        let (services, owner) = (Arc::clone(services), id.clone());
        let look = move || plan_check::problems(&plan, &named, is_here, |folder| services.prepare_area(&owner, folder));
        // Files are read on a thread that may block. If it panics, the run of the job finds what is wrong.
        problems.extend(tokio::task::spawn_blocking(look).await.unwrap_or_default());
    }
    if !problems.is_empty() {
        return Err(SubmitError::NotRunnable { problems });
    }
    if let Some(problem) = plan_check::object_problem(&named, buckets).await {
        return Err(SubmitError::NotRunnable { problems: vec![problem] });
    }
    let mut plan = submission.plan;
    if let Some(spec) = &submission.study
        && let Some(description) = sources_in_words(store, spec, &prior_studies).await?
    {
        let notice = MachineNotice { field: RESUME_PREVIOUS_JOB.to_owned(), description };
        plan.machines.notices.get_or_insert_default().push(notice);
    }
    let study = submission.study.map(|spec| {
        spec.into_study(NewStudy {
            id: StudyId::from(&id),
            seed: submission.seed.unwrap_or(random_seed),
            prior_studies,
            config: Value::Null,
            create_time: now,
        })
    });
    let job = Job::restore(JobFields {
        id,
        state: JobState::Queued,
        study: study.as_ref().map(|study| study.id.clone()),
        training_input: submission.training_input,
        plan: Ok(plan),
        fingerprint,
        labels: submission.labels,
        policy: submission.policy,
        create_time: now,
        requeue_time: None,
        former_attempts: 0,
        start_time: None,
        end_time: None,
        error_message: String::new(),
        notices: Vec::new(),
        revision: 0,
    });
    store.create_job(job.clone(), study).await?;
    Ok(Submitted::Created(job))
}

fn same_job(job: Job, submission: &Submission) -> Result<Submitted, SubmitError> {
    if has_content_of(&job, submission) {
        return Ok(if job.state.is_final() { Submitted::Finished(job) } else { Submitted::Resumed(job) });
    }
    let is_same_input = without_trial_count(&job.training_input) == without_trial_count(&submission.training_input);
    let difference = if is_same_input { "program, arguments, --job-dir or --seed" } else { "configuration" };
    Err(SubmitError::OtherContent { id: job.id.clone(), difference: difference.to_owned() })
}

/// Returns the newest job with the content of `submission`, whatever its number of trials, that is `wanted`.
pub(super) async fn newest_job(
    store: &dyn Store,
    submission: &Submission,
    wanted: impl Fn(&Job) -> bool + Send,
) -> Result<Option<Job>, StoreError> {
    let mut found: Option<Job> = None;
    let mut jobs = pin!(pages::jobs(store, None));
    while let Some(job) = jobs.try_next().await? {
        let newer = found.as_ref().is_none_or(|other| other.create_time < job.create_time);
        if newer && wanted(&job) && has_content_of(&job, submission) {
            found = Some(job);
        }
    }
    Ok(found)
}

/// Returns the source studies of a new one: those of the previous job, oldest first, and its own study.
async fn prior_studies(store: &dyn Store, previous: Option<&JobId>) -> Result<Vec<StudyId>, SubmitError> {
    let Some(previous) = previous else { return Ok(Vec::new()) };
    let unknown = || SubmitError::NoSuchPreviousJob { id: previous.clone() };
    let job = match store.job(previous).await {
        Ok(job) => job,
        Err(StoreError::NotFound { .. }) => return Err(unknown()),
        Err(error) => return Err(error.into()),
    };
    let study = store.study(job.study.as_ref().ok_or_else(unknown)?).await?;
    Ok(study.with_sources().cloned().collect())
}

/// Generates a name from a prefix, the time and random digits, so that jobs sort by age and names are unique.
fn new_job_id(prefix: &str, now: Timestamp, random: u64) -> JobId {
    let stamp = now.strftime("%Y%m%d_%H%M%S");
    let short: String = prefix.chars().take(64).collect();
    let id = format!("{short}_{stamp}_{:04x}", random & 0xffff);
    id.parse()
        .or_else(|_| format!("job_{stamp}_{:04x}", random & 0xffff).parse())
        .expect("letters, digits, underscores")
}

/// The start of a digest that does not cover the number of trials.
const FINGERPRINT_2: &str = "2:";

/// Whether `job` was submitted with the content of `submission`, whatever the number of trials.
fn has_content_of(job: &Job, submission: &Submission) -> bool {
    if job.fingerprint.starts_with(FINGERPRINT_2) {
        return job.fingerprint == fingerprint(submission);
    }
    // A job of an earlier version, whose digest covers the number of trials.
    job.fingerprint == digest(&submission.training_input, &submission.plan, submission.seed)
}

/// Returns the digest of the content that identifies a job. The numbers of trials and of parallel trials are not part
/// of it: a job is extended and resumed with other ones. Nor are its machines, which a server configuration decides.
fn fingerprint(submission: &Submission) -> String {
    let plan = JobPlan { max_trials: 1, ..submission.plan.clone() };
    let digest = digest(&without_trial_count(&submission.training_input), &plan, submission.seed);
    format!("{FINGERPRINT_2}{digest}")
}

fn digest(training_input: &Value, plan: &JobPlan, seed: Option<u64>) -> String {
    // The server decides on machines, and access control on the principal.
    let mut plan =
        JobPlan { max_parallel_trials: 1, principal: None, machines: MachinePlan::default(), ..plan.clone() };
    plan.replicas.iter_mut().for_each(|group| group.resources = Resources::default());
    let content = serde_json::json!({
        "trainingInput": training_input,
        "plan": plan_document(&plan),
        "seed": seed,
    });
    hex::encode(Sha256::digest(content.to_string()))
}

/// Returns a training input without its number of trials.
fn without_trial_count(training_input: &Value) -> Value {
    let mut input = training_input.clone();
    if let Some(Value::Object(hyperparameters)) = input.get_mut("hyperparameters") {
        hyperparameters.remove("maxTrials");
    }
    input
}
