use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tunesmith_algorithms::problem::{
    Goal, MetricSpec, ParameterKind, ParameterSpec, ProblemStatement, ScaleType, SearchSpace,
};

use super::{Control, JobOutcome, JobServices, RunSettings};
use crate::jobs::Jobs;
use crate::live_trials::{LiveTrials, TrialKey};
use crate::packages::Packages;
use crate::resource_pool::{PoolLimits, PoolSettings, ResourcePool};
use crate::{JobEvent, Submission};
use tunesmith_contract::samples;
use tunesmith_domain::{
    Algorithm, CurveAxis, FinalMeasurement, Job, JobId, JobPlan, JobState, ProgramPlan, StudySpec, Trial, TrialId,
    TrialState,
};
use tunesmith_executor::{
    Capabilities, Executor, ExecutorError, ExecutorJobId, ExecutorJobSpec, ExecutorJobState, ExitStatus, LossCause,
    Placement, ProgramEnd, StopMode, StopReason,
};
use tunesmith_packages::Environments;
use tunesmith_store::MemoryStore;
use tunesmith_store::OnlyServer;
use tunesmith_store::Store;
use tunesmith_studies::clock::ManualClock;
use tunesmith_studies::search_policy::SearchPolicy;
use tunesmith_telemetry::telemetry;

/// Engine that holds its first attempt until `released`, and ends attempts as scripted.
struct Scripted {
    ends: Vec<ExecutorJobState>,
    submitted: Mutex<HashSet<ExecutorJobId>>,
    released: watch::Sender<bool>,
}

impl Scripted {
    fn new(ends: Vec<ExecutorJobState>) -> Arc<Self> {
        Arc::new(Self { ends, submitted: Mutex::default(), released: watch::Sender::new(false) })
    }

    fn is_submitted(&self, id: &ExecutorJobId) -> bool {
        self.submitted.lock().unwrap().contains(id)
    }
}

#[async_trait]
impl Executor for Scripted {
    fn capabilities(&self, _: &Placement) -> Capabilities {
        Capabilities::ELSEWHERE
    }

    async fn submit(&self, spec: &ExecutorJobSpec) -> Result<(), ExecutorError> {
        self.submitted.lock().unwrap().insert(spec.id.clone());
        Ok(())
    }

    async fn state(&self, id: &ExecutorJobId) -> Result<ExecutorJobState, ExecutorError> {
        Ok(match id.attempt {
            _ if !self.is_submitted(id) => ExecutorJobState::Unknown,
            1 if !*self.released.borrow() => ExecutorJobState::Waiting { reason: "Resources".to_owned() },
            _ => ExecutorJobState::Running,
        })
    }

    async fn changed(&self, id: &ExecutorJobId, known: &ExecutorJobState) -> Result<ExecutorJobState, ExecutorError> {
        let state = self.state(id).await?;
        if state != *known {
            return Ok(state);
        }
        if id.attempt == 1 {
            self.released.subscribe().wait_for(|released| *released).await.unwrap();
        }
        Ok(self.ends[id.attempt as usize - 1].clone())
    }

    async fn stop(&self, _: &ExecutorJobId, _: StopMode) -> Result<(), ExecutorError> {
        self.released.send_replace(true);
        Ok(())
    }

    async fn forget(&self, _: &JobId) -> io::Result<()> {
        Ok(())
    }
}

fn lost(cause: LossCause) -> ExecutorJobState {
    ExecutorJobState::Lost { cause, reason: "its node was taken".to_owned() }
}

fn exited(code: i32) -> ExecutorJobState {
    ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::Exited(code), stopped: None })
}

fn study() -> StudySpec {
    let kind = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
    let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
    let metrics = vec![MetricSpec { name: "loss".to_owned(), goal: Goal::Minimize }];
    StudySpec {
        problem: ProblemStatement::new(space, metrics).unwrap(),
        initial_points: Vec::new(),
        algorithm: Algorithm::RandomSearch,
        stopping_rule: None,
        stopping_axis: CurveAxis::Step,
        study_stopping: Default::default(),
        final_measurement: FinalMeasurement::Last,
        max_trials: None,
        trial_lease: None,
    }
}

/// Observations of one run.
struct Ran {
    job: Job,
    trial: Option<Trial>,
    events: Vec<JobEvent>,
    /// Why the first trial waited.
    waiting_reason: Option<String>,
}

/// Runs a job with one trial, or a single run if `study` is `None`, on an engine with these ends.
async fn run(study: Option<StudySpec>, ends: Vec<ExecutorJobState>) -> Ran {
    run_in(study, ends, None).await
}

/// As [`run`], with an optional wait limit, under which the engine never starts the first attempt by itself.
async fn run_in(study: Option<StudySpec>, ends: Vec<ExecutorJobState>, queue_deadline: Option<Duration>) -> Ran {
    let folder = TempDir::new().unwrap();
    let root = folder.path().to_owned();
    let (executor, live) = (Scripted::new(ends), Arc::new(LiveTrials::default()));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let jobs = Jobs::new(JobServices {
        claims: Arc::new(OnlyServer::new(Arc::clone(&store))),
        documents: None,
        packages: Packages::new(root.join("packages"), Packages::MAX_BYTES),
        buckets: Default::default(),
        allowed_folders: Arc::default(),
        policy: Arc::new(SearchPolicy::new(Arc::clone(&store), 1)),
        executor: executor.clone(),
        environments: Arc::new(Environments::new(root.join("environments"))),
        live: Arc::clone(&live),
        pool: ResourcePool::new(PoolSettings {
            limits: PoolLimits { queue_deadline, ..PoolLimits::default() },
            ..PoolSettings::default()
        }),
        clock: Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH)),
        directory: Arc::new(move |job| root.join("jobs").join(job.parts().1)),
        program_user: Arc::new(|_| None),
        retry_pauses: Vec::new(),
        tracking: Arc::new(crate::NoTracking),
        predictions: Arc::new(crate::NoBatchPredictions),
        store: Arc::clone(&store),
    });
    let has_study = study.is_some();
    let plan = JobPlan {
        max_trials: 1,
        max_failed_trials: 0,
        max_lost_attempts: 1,
        metric_tag: "loss".to_owned(),
        further_tags: Vec::new(),
        program: ProgramPlan::Command { argv: vec!["true".to_owned()] },
        replicas: Vec::new(),
        working_directory: "/".into(),
        job_dir: None,
        job_dir_flag: None,
        max_running_time: None,
        ..samples::plan()
    };
    let submission = Submission {
        id: Some("job".parse().unwrap()),
        name_prefix: String::new(),
        labels: Default::default(),
        study,
        resume_previous_job: None,
        seed: None,
        training_input: serde_json::json!({}),
        plan,
        policy: serde_json::Value::Null,
    };
    let id: JobId = "job".parse().unwrap();
    jobs.submit(submission, 1).await.unwrap();
    let (_control, level) = watch::channel(Control::Run);
    let (events, mut emitted) = mpsc::unbounded_channel();
    let settings = RunSettings { endpoint: String::new(), parallel: None, events: Some(events) };
    let key = TrialKey { study: "job".parse().unwrap(), trial: TrialId::FIRST };
    let release = async {
        let mut reason = live.waiting_reason(&key);
        while has_study && reason.is_none() {
            tokio::task::yield_now().await;
            reason = live.waiting_reason(&key);
        }
        if queue_deadline.is_none() {
            executor.released.send_replace(true);
        }
        reason
    };
    let (outcome, waiting_reason) = tokio::join!(jobs.run_one(&id, settings, level), release);
    let JobOutcome::Ended(job) = outcome.unwrap() else { panic!("the job has not ended") };
    let trial = match &job.study {
        Some(study) => Some(store.trial(study, TrialId::FIRST).await.unwrap()),
        None => None,
    };
    let mut events = Vec::new();
    while let Ok(event) = emitted.try_recv() {
        events.push(event);
    }
    Ran { job, trial, events, waiting_reason }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preempted_trial_is_repeated_without_limit_and_counted_apart() {
    let mut ends = vec![lost(LossCause::Preemption); 5];
    ends.extend([lost(LossCause::Failure), exited(3)]);
    let Ran { trial, events, waiting_reason, .. } = run(Some(study()), ends).await;
    let trial = trial.unwrap();
    assert_eq!((trial.attempt, trial.preempted_attempts, trial.lost_attempts), (7, 5, 1));
    assert_eq!((trial.state, trial.infeasible_reason.as_deref()), (TrialState::Infeasible, Some("exit code 3")));
    assert_eq!(waiting_reason.as_deref(), Some("Resources"));
    let waited = events.iter().position(|event| matches!(event, JobEvent::TrialWaiting { .. })).unwrap();
    let reason = "Resources".to_owned();
    assert_eq!(events[waited], JobEvent::TrialWaiting { id: TrialId::FIRST, reason });
    let causes: Vec<LossCause> = events
        .iter()
        .filter_map(|event| if let JobEvent::TrialLost { cause, .. } = event { Some(*cause) } else { None })
        .collect();
    assert_eq!(causes[..5], [LossCause::Preemption; 5]);
    assert_eq!(causes[5..], [LossCause::Failure]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trial_that_is_lost_too_often_is_infeasible_despite_preemptions() {
    use LossCause::{Failure, Preemption};
    let Ran { trial, .. } = run(Some(study()), [Failure, Preemption, Failure].map(lost).to_vec()).await;
    let trial = trial.unwrap();
    assert_eq!((trial.attempt, trial.preempted_attempts, trial.lost_attempts), (3, 1, 1));
    let reason = "its supervisor or machine was lost 2 times: its node was taken";
    assert_eq!(trial.infeasible_reason.as_deref(), Some(reason));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preempted_run_without_hyperparameters_is_repeated_without_limit() {
    let mut ends = vec![lost(LossCause::Preemption); 5];
    ends.push(exited(0));
    let Ran { job, .. } = run(None, ends).await;
    assert_eq!((job.state, job.error_message.as_str()), (JobState::Succeeded, ""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_that_waits_in_its_engine_longer_than_the_queue_deadline_fails_with_the_reason() {
    let stopped = ExitStatus { end: ProgramEnd::Signaled(9), stopped: Some(StopReason::Requested) };
    let ends = vec![ExecutorJobState::Ended(stopped)];
    let deadline = Some(Duration::from_millis(300));
    let reason = "waited longer than the queue deadline of 0.3 s of this server: Resources";
    let Ran { trial, waiting_reason, .. } = run_in(Some(study()), ends.clone(), deadline).await;
    let trial = trial.unwrap();
    assert_eq!((trial.attempt, trial.state), (1, TrialState::Infeasible));
    assert!(trial.infeasible_reason.as_deref().is_some_and(|text| text.ends_with(reason)), "{trial:?}");
    assert_eq!(waiting_reason.as_deref(), Some("Resources"));
    let metrics = telemetry().text();
    assert!(metrics.contains("tunesmith_trials_waiting{reason=\"engine\"} 0\n"), "{metrics}");
    let Ran { job, .. } = run_in(None, ends, deadline).await;
    assert_eq!(job.state, JobState::Failed);
    assert!(job.error_message.contains(reason), "{}", job.error_message);
}
