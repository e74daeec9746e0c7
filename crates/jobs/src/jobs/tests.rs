use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tempfile::TempDir;
use tunesmith_contract::samples;
use tunesmith_executor::local::{LocalExecutor, LocalSettings};
use tunesmith_objects::Buckets;
use tunesmith_packages::Environments;
use tunesmith_store::MemoryStore;
use tunesmith_store::{OnlyServer, Store};

use super::suspects::Start;
use super::*;
use crate::live_trials::LiveTrials;
use crate::packages::Packages;
use tunesmith_domain::{JobPlan, MachinePlan, ProgramPlan};
use tunesmith_studies::clock::ManualClock;
use tunesmith_studies::search_policy::SearchPolicy;

/// Jobs with folders in `folder` and a missing supervisor.
pub(super) fn jobs(folder: &TempDir, retry_pauses: Vec<Duration>) -> Arc<Jobs> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let root = folder.path().to_owned();
    Arc::new(Jobs::new(JobServices {
        claims: Arc::new(OnlyServer::new(Arc::clone(&store))),
        documents: None,
        policy: Arc::new(SearchPolicy::new(Arc::clone(&store), 1)),
        executor: Arc::new(LocalExecutor::new(LocalSettings {
            supervisor: root.join("no-such-supervisor"),
            registry: root.join("executions"),
            ..LocalSettings::default()
        })),
        packages: Packages::new(root.join("packages"), Packages::MAX_BYTES),
        environments: Arc::new(Environments::new(root.join("environments"))),
        live: Arc::new(LiveTrials::default()),
        pool: Arc::default(),
        clock: Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH)),
        directory: Arc::new(move |job| root.join("jobs").join(job.parts().1)),
        program_user: Arc::new(|_| None),
        buckets: Buckets::default(),
        allowed_folders: Arc::default(),
        retry_pauses,
        tracking: Arc::new(crate::NoTracking),
        predictions: Arc::new(crate::NoBatchPredictions),
        store,
    }))
}

pub(super) fn submission(id: &str, program: ProgramPlan) -> Submission {
    Submission {
        id: Some(id.parse().unwrap()),
        name_prefix: String::new(),
        labels: Default::default(),
        study: None,
        resume_previous_job: None,
        seed: None,
        training_input: serde_json::json!({}),
        plan: JobPlan {
            program,
            replicas: Vec::new(),
            working_directory: "/".into(),
            job_dir: None,
            job_dir_flag: None,
            machines: MachinePlan::default(),
            ..samples::plan()
        },
        policy: serde_json::Value::Null,
    }
}

pub(super) fn command() -> ProgramPlan {
    ProgramPlan::Command { argv: vec!["true".to_owned()] }
}

/// Submits `id` and waits until the queue has moved it to `state`.
async fn until(jobs: &Jobs, id: &str, state: JobState) -> Job {
    loop {
        let job = jobs.job(&id.parse().unwrap()).await.unwrap();
        if job.state == state {
            return job;
        }
        tokio::task::yield_now().await;
    }
}

/// Runs the queue with one slot.
fn run(jobs: &Arc<Jobs>) -> watch::Sender<Control> {
    let (control, level) = watch::channel(Control::Run);
    let slots = SlotCounts { local: NonZeroUsize::MIN, remote: NonZeroUsize::MIN };
    let settings = QueueSettings { endpoint: String::new(), slots };
    let jobs = Arc::clone(jobs);
    tokio::spawn(async move { jobs.run(settings, level).await });
    control
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_cannot_be_run_fails_after_its_tries() {
    let folder = TempDir::new().unwrap();
    let jobs = jobs(&folder, vec![Duration::ZERO; 2]);
    jobs.create(submission("no_supervisor", command()), 1).await.unwrap();
    std::fs::create_dir(folder.path().join("jobs")).unwrap();
    std::fs::write(folder.path().join("jobs/no_folder"), "a file").unwrap();
    jobs.create(submission("no_folder", command()), 1).await.unwrap();
    let _control = run(&jobs);
    let failed = until(&jobs, "no_supervisor", JobState::Failed).await;
    assert!(failed.error_message.starts_with("the job could not be run, after 3 tries: "), "{}", failed.error_message);
    assert!(failed.error_message.contains("no-such-supervisor"), "{}", failed.error_message);
    let failed = until(&jobs, "no_folder", JobState::Failed).await;
    assert!(failed.error_message.contains("jobs/no_folder: File exists"), "{}", failed.error_message);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_waits_to_be_run_again_has_no_slot_and_can_be_cancelled() {
    let folder = TempDir::new().unwrap();
    let jobs = jobs(&folder, vec![Duration::from_secs(3600)]);
    jobs.create(submission("waits", command()), 1).await.unwrap();
    let package = folder.path().join("broken-1.tar.gz");
    std::fs::write(&package, "not an archive").unwrap();
    let uri = package.display().to_string();
    let program = ProgramPlan::PythonModule {
        package_uris: vec![uri],
        package_path: None,
        requirements: Vec::new(),
        module: "m".to_owned(),
        args: Vec::new(),
    };
    jobs.create(submission("other", program), 1).await.unwrap();
    let control = run(&jobs);
    // Its packages cannot be installed.
    until(&jobs, "other", JobState::Failed).await;
    assert_eq!(until(&jobs, "waits", JobState::Running).await.error_message, "");
    jobs.cancel(&"waits".parse().unwrap()).await.unwrap();
    let cancelled = until(&jobs, "waits", JobState::Cancelled).await;
    assert_eq!(cancelled.error_message, CANCELLED_BY_USER);
    control.send_replace(Control::Detach);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_run_that_fails_too_often_ends_its_job() {
    let folder = TempDir::new().unwrap();
    let jobs = jobs(&folder, vec![Duration::ZERO]);
    jobs.submit(submission("one", command()), 1).await.unwrap();
    let (_control, level) = watch::channel(Control::Run);
    let (events, mut emitted) = tokio::sync::mpsc::unbounded_channel();
    let settings = RunSettings { endpoint: String::new(), parallel: None, events: Some(events) };
    let outcome = jobs.run_one(&"one".parse().unwrap(), settings, level).await.unwrap();
    let JobOutcome::Ended(job) = outcome else { panic!("{outcome:?}") };
    assert_eq!(job.state, JobState::Failed);
    let mut warnings = Vec::new();
    while let Ok(event) = emitted.try_recv() {
        warnings.extend(if let crate::JobEvent::Warning { message } = event { Some(message) } else { None });
    }
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("the job could not be run, and is run again in 0 s: "), "{}", warnings[0]);
}

#[tokio::test]
async fn job_that_is_being_claimed_is_not_queued_a_second_time() {
    let folder = TempDir::new().unwrap();
    let jobs = jobs(&folder, Vec::new());
    let job = jobs.create(submission("one", command()), 1).await.unwrap();
    assert_eq!(jobs.state().start_next(|_| true), Some((job.id.clone(), SlotKind::Local)));
    // Another server announces a job, and the creator's request arrives late.
    jobs.discover_jobs().await.unwrap();
    jobs.push(&job).unwrap();
    assert_eq!(jobs.state().queue.position(&job.id), None);
    assert!(jobs.register(&job.id).await.unwrap().is_some());
    jobs.discover_jobs().await.unwrap();
    jobs.push(&job).unwrap();
    assert_eq!(jobs.state().queue.position(&job.id), None);
    jobs.unregister(&job.id);
    jobs.discover_jobs().await.unwrap();
    assert_eq!(jobs.state().queue.position(&job.id), Some(0));
}

#[tokio::test]
async fn job_that_waits_in_no_queue_is_cancelled_at_once() {
    let folder = TempDir::new().unwrap();
    let jobs = jobs(&folder, Vec::new());
    // Stored by another server, not yet noticed by this one.
    jobs.submit(submission("one", command()), 1).await.unwrap();
    jobs.cancel(&"one".parse().unwrap()).await.unwrap();
    assert_eq!(jobs.job(&"one".parse().unwrap()).await.unwrap().state, JobState::Cancelled);
    assert!(jobs.cancel(&"one".parse().unwrap()).await.is_err(), "it has ended");
    // While the claim is pending, the run itself stops it.
    let job = jobs.create(submission("two", command()), 1).await.unwrap();
    assert_eq!(jobs.state().start_next(|_| true), Some((job.id.clone(), SlotKind::Local)));
    jobs.cancel(&job.id).await.unwrap();
    assert_eq!(jobs.job(&job.id).await.unwrap().state, JobState::Cancelling);
    let registered = jobs.register(&job.id).await.unwrap().unwrap();
    assert!(*registered.cancelled.borrow());
}

#[tokio::test]
async fn job_that_another_server_has_run_since_it_was_queued_is_not_started() {
    let folder = TempDir::new().unwrap();
    let jobs = jobs(&folder, Vec::new());
    let job = jobs.create(submission("one", command()), 1).await.unwrap();
    assert_eq!(jobs.state().start_next(|_| true), Some((job.id.clone(), SlotKind::Local)));
    let end = JobChange::Become { state: JobState::Failed, error_message: "x".to_owned(), at: Timestamp::UNIX_EPOCH };
    jobs.change(&job.id, end).await.unwrap();
    let (_control, level) = watch::channel(Control::Run);
    assert!(Arc::clone(&jobs).run_queued(job.id.clone(), Start::TOGETHER, String::new(), level).await.is_none());
    assert!(!jobs.state().is_started(&job.id));
    assert!(!folder.path().join("jobs/one").exists(), "nothing is written for it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_deleted_after_their_retention_but_unfinished_ones_are_kept() {
    let folder = TempDir::new().unwrap();
    let jobs = jobs(&folder, Vec::new());
    jobs.create(submission("ended", command()), 1).await.unwrap();
    let control = run(&jobs);
    let ended = until(&jobs, "ended", JobState::Failed).await;
    control.send_replace(Control::Kill);
    jobs.create(submission("queued", command()), 1).await.unwrap();
    let end = ended.end_time.unwrap();
    assert_eq!(jobs.delete_ended_before(end).await.unwrap(), []);
    let later = end + jiff::SignedDuration::from_secs(1);
    assert_eq!(jobs.delete_ended_before(later).await.unwrap(), std::slice::from_ref(&ended.id));
    assert!(!folder.path().join("jobs/ended").exists());
    assert!(jobs.job(&ended.id).await.is_err());
    assert_eq!(jobs.job(&"queued".parse().unwrap()).await.unwrap().state, JobState::Queued);
    assert_eq!(jobs.delete_ended_before(later).await.unwrap(), []);
}
