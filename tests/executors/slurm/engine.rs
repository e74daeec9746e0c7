//! The contract kit, and the ends that only Slurm has.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tunesmith_contract::executor::{Harness, run, shell};
use tunesmith_domain::{Accelerators, LossCause, Resources};
use tunesmith_executor::local::shared::SharedTimes;
use tunesmith_executor::{
    Executor, ExecutorJobSpec, ExecutorJobState, ExitStatus, Program, ProgramEnd, StopMode, StopReason,
};
use tunesmith_slurm::{SlurmCommands, SlurmExecutor, SlurmSettings};
use tunesmith_testing::slurm::{Cluster, PATIENCE, Shape};

use crate::pipes::{pipe, read_pipe};

/// A cluster with a folder that its nodes share.
struct Site {
    cluster: Cluster,
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        Self::of_shape(&Shape::default())
    }

    fn of_shape(shape: &Shape) -> Self {
        Self { cluster: Cluster::start(shape), folder: tempfile::TempDir::new().unwrap() }
    }

    fn settings(&self) -> SlurmSettings {
        SlurmSettings {
            supervisor: env!("CARGO_BIN_EXE_tunesmith").into(),
            registry: self.folder.path().join("executions"),
            commands: SlurmCommands {
                sbatch: self.cluster.wrapper("sbatch"),
                squeue: self.cluster.wrapper("squeue"),
                scancel: self.cluster.wrapper("scancel"),
                scontrol: self.cluster.wrapper("scontrol"),
            },
            submit_rate: NonZeroU32::new(100).unwrap(),
            poll_interval: Duration::from_millis(200),
            file_interval: Duration::from_millis(50),
            file_delay: Duration::from_millis(500),
            times: SharedTimes { check_ms: 50, lease_ms: 3_000 },
            ..SlurmSettings::default()
        }
    }

    fn slurm(&self) -> SlurmExecutor {
        SlurmExecutor::new(self.settings())
    }

    /// An executor whose jobs Slurm may requeue, and hold.
    fn requeueing(&self) -> SlurmExecutor {
        SlurmExecutor::new(SlurmSettings { options: vec!["--requeue".to_owned()], ..self.settings() })
    }

    /// The ID in Slurm of the only job that has not ended.
    fn job(&self) -> String {
        let rows = self.cluster.jobs("%i %T");
        let open: Vec<&String> = rows.iter().filter(|row| !row.ends_with("COMPLETED")).collect();
        assert_eq!(open.len(), 1, "{rows:?}");
        open[0].split(' ').next().unwrap().to_owned()
    }

    /// Starts a program that writes its process ID, and returns the ID once it runs.
    async fn start(&self, executor: &dyn Executor, script: &str) -> (ExecutorJobSpec, Pid) {
        let ready = pipe(self, "ready");
        let mut spec = shell(self, 1, &format!("{script} echo $$ > ready; while :; do sleep 1000; done"));
        spec.grace = Duration::from_millis(100);
        executor.submit(&spec).await.unwrap();
        let pid = Pid::from_raw(read_pipe(&ready).await.trim().parse().unwrap()).unwrap();
        (spec, pid)
    }
}

impl Harness for Site {
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(self.slurm())
    }

    fn directory(&self) -> &Path {
        self.folder.path()
    }

    fn working_directory(&self) -> &Path {
        self.folder.path()
    }
}

tunesmith_contract::executor_contract!(Site::new());

fn ended(end: ProgramEnd, stopped: Option<StopReason>) -> ExecutorJobState {
    ExecutorJobState::Ended(ExitStatus { end, stopped })
}

#[track_caller]
fn assert_lost(state: &ExecutorJobState, expected: LossCause, word: &str) {
    let ExecutorJobState::Lost { cause, reason } = state else { panic!("{state:?}") };
    assert_eq!(*cause, expected, "{reason}");
    assert!(reason.contains(word), "{reason}");
}

fn lives(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Waits until `id` has a state that `condition` accepts.
async fn until(executor: &dyn Executor, spec: &ExecutorJobSpec, condition: impl Fn(&ExecutorJobState) -> bool) {
    let begin = Instant::now();
    loop {
        let state = executor.state(&spec.id).await.unwrap();
        if condition(&state) {
            return;
        }
        assert!(state.is_open() && begin.elapsed() < PATIENCE, "{state:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_folder_with_any_characters_runs_programs_and_keeps_the_log_of_its_supervisor() {
    for name in ["100%", "100%j", "back\\slash", "both \\ and %j 'quoted'"] {
        let mut site = Site::new();
        site.folder = tempfile::Builder::new().prefix(name).tempdir().unwrap();
        let slurm = site.slurm();
        let spec = shell(&site, 1, "echo done");
        slurm.submit(&spec).await.unwrap();
        assert_eq!(slurm.wait(&spec.id).await.unwrap(), ended(ProgramEnd::Exited(0), None), "{name:?}");
        let attempt = site.folder.path().join("executions").join(spec.id.to_string());
        assert!(attempt.join("engine.log").exists(), "{name:?}: the log of Slurm is where it is read");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requeued_job_is_a_preemption_and_does_not_run_again() {
    let site = Site::new();
    let executor = site.executor();
    let (spec, pid) = site.start(&*executor, "echo x >> runs;").await;
    let job = site.job();
    assert!(site.cluster.requeue(&job));
    let state = executor.wait(&spec.id).await.unwrap();
    assert_lost(&state, LossCause::Preemption, "Slurm requeued its job");
    assert!(!lives(pid));
    // Slurm would start the requeued job again; it is cancelled.
    site.cluster.wait_until("the job is cancelled", || site.cluster.jobs("%T") == ["CANCELLED"]);
    assert_eq!(std::fs::read_to_string(site.folder.path().join("runs")).unwrap(), "x\n");
    // The same is reported after a restart of the server.
    assert_eq!(site.executor().state(&spec.id).await.unwrap(), state);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_slurm_cannot_launch_is_lost_and_cancelled() {
    let scripts = tempfile::TempDir::new().unwrap();
    let prolog = scripts.path().join("prolog");
    std::fs::write(&prolog, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(&prolog, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let site = Site::of_shape(&Shape { lines: format!("Prolog={}", prolog.display()), ..Shape::default() });
    let (executor, spec) = (site.requeueing(), shell(&site, 1, "echo x >> runs"));
    executor.submit(&spec).await.unwrap();
    assert_lost(&executor.wait(&spec.id).await.unwrap(), LossCause::Failure, "could not launch its job");
    // Slurm would hold it for ever.
    site.cluster.wait_until("the job is cancelled", || site.cluster.jobs("%T") == ["CANCELLED"]);
    assert!(!site.folder.path().join("runs").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_job_of_an_attempt_that_ended_under_another_process_is_cancelled() {
    let site = Site::new();
    let (executor, spec) = (site.requeueing(), shell(&site, 1, "echo x >> runs"));
    executor.submit(&spec).await.unwrap();
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ended(ProgramEnd::Exited(0), None));
    drop(executor);
    site.cluster.wait_until("the job has ended", || site.cluster.jobs("%T") == ["COMPLETED"]);
    let job = site.cluster.jobs("%i").remove(0);
    site.cluster.text("scontrol", &["requeuehold", &job]);
    let foreign = site.cluster.text("sbatch", &["--parsable", "--hold", "--wrap=true"]).trim().to_owned();
    let executor = site.executor();
    let spec = shell(&site, 2, "true");
    executor.submit(&spec).await.unwrap();
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ended(ProgramEnd::Exited(0), None));
    let state = |id: &str| {
        let rows = site.cluster.jobs("%i %T");
        rows.iter().find_map(|row| row.strip_prefix(&format!("{id} ")).map(str::to_owned)).unwrap()
    };
    site.cluster.wait_until("the job is cancelled", || state(&job) == "CANCELLED");
    assert_eq!(state(&foreign), "PENDING");
    assert_eq!(std::fs::read_to_string(site.folder.path().join("runs")).unwrap(), "x\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphan_of_a_lost_node_is_dead_when_the_loss_is_reported() {
    let site = Site::new();
    let executor = site.executor();
    let (spec, pid) = site.start(&*executor, "trap '' TERM;").await;
    let node = site.cluster.jobs("%N")[0].clone();
    site.cluster.kill_node(&node);
    assert!(lives(pid), "a lost node is not a dead process");
    let state = executor.wait(&spec.id).await.unwrap();
    assert_lost(&state, LossCause::Failure, "its node failed (NODE_FAIL");
    assert!(!lives(pid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_supervisor_is_a_loss_and_leaves_no_process() {
    let site = Site::new();
    let executor = site.executor();
    let (spec, pid) = site.start(&*executor, "").await;
    let started = site.folder.path().join("executions").join(spec.id.to_string()).join("started.json");
    let started: serde_json::Value = serde_json::from_slice(&std::fs::read(started).unwrap()).unwrap();
    let supervisor = i32::try_from(started["supervisor_pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap();
    let state = executor.wait(&spec.id).await.unwrap();
    assert_lost(&state, LossCause::Failure, "its supervisor died (FAILED");
    assert!(!lives(pid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_someone_cancels_is_lost_and_one_that_is_asked_to_end_is_preempted() {
    let site = Site::new();
    let executor = site.executor();
    let (spec, pid) = site.start(&*executor, "").await;
    site.cluster.text("scancel", &[&site.job()]);
    let state = executor.wait(&spec.id).await.unwrap();
    assert_lost(&state, LossCause::Failure, "its job was cancelled in Slurm, and not by this server (CANCELLED");
    assert!(!lives(pid));
    std::fs::remove_file(site.folder.path().join("ready")).unwrap();
    let job = |name: &str, spec: &mut ExecutorJobSpec| spec.id.job = name.parse().unwrap();
    let mut second = shell(&site, 2, "echo > go; while :; do sleep 1000; done");
    job("second", &mut second);
    second.grace = Duration::from_millis(100);
    let go = pipe(&site, "go");
    executor.submit(&second).await.unwrap();
    read_pipe(&go).await;
    let rows = site.cluster.jobs("%i %T");
    let running = rows.iter().find_map(|row| row.strip_suffix(" RUNNING")).unwrap();
    site.cluster.text("scancel", &["--signal=TERM", "--batch", running]);
    let state = executor.wait(&second.id).await.unwrap();
    assert_lost(&state, LossCause::Preemption, "it was asked to end by a signal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_changes_while_the_controller_is_away() {
    let site = Site::new();
    let executor = site.executor();
    let go = pipe(&site, "go");
    let (ready, spec) = (pipe(&site, "ready"), shell(&site, 1, "echo > ready; read line < go; exit 3"));
    executor.submit(&spec).await.unwrap();
    read_pipe(&ready).await;
    // The files of a job that the last listing shows as pending are not read.
    until(&*executor, &spec, |state| *state == ExecutorJobState::Running).await;
    site.cluster.stop_controller(Signal::TERM);
    let waiting = shell(&site, 2, "exit 4");
    executor.submit(&waiting).await.unwrap();
    until(
        &*executor,
        &waiting,
        |state| matches!(state, ExecutorJobState::Waiting { reason } if reason.contains("Slurm cannot be reached: ")),
    )
    .await;
    assert_eq!(executor.state(&spec.id).await.unwrap(), ExecutorJobState::Running);
    // The end of the program is reported without the controller.
    let writer = tokio::task::spawn_blocking(move || std::fs::write(go, "go\n").unwrap());
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ended(ProgramEnd::Exited(3), None));
    writer.await.unwrap();
    site.cluster.start_controller();
    assert_eq!(executor.wait(&waiting.id).await.unwrap(), ended(ProgramEnd::Exited(4), None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_the_controller_forgot_runs_once() {
    let site = Site::new();
    let executor = site.executor();
    let mut specs = Vec::new();
    for trial in 1..=8 {
        let spec = shell(&site, trial, &format!("echo x >> runs-{trial}"));
        executor.submit(&spec).await.unwrap();
        specs.push(spec);
    }
    site.cluster.wait_until("some jobs are accepted", || site.cluster.jobs("%i").len() >= 4);
    // Its state is saved every few seconds, so that it forgets jobs or runs them twice.
    site.cluster.stop_controller(Signal::KILL);
    site.cluster.start_controller();
    for spec in &specs {
        assert_eq!(executor.wait(&spec.id).await.unwrap(), ended(ProgramEnd::Exited(0), None), "{}", spec.id);
        let trial = spec.id.trial.unwrap();
        assert_eq!(std::fs::read_to_string(site.folder.path().join(format!("runs-{trial}"))).unwrap(), "x\n");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_job_names_its_reason_and_ends_without_a_start() {
    let site = Site::new();
    let executor = site.executor();
    let mut spec = shell(&site, 1, "echo x >> runs");
    spec.placement.queue = Some("closed".to_owned());
    executor.submit(&spec).await.unwrap();
    let reason = "PartitionDown (the partition is down)";
    until(&*executor, &spec, |state| matches!(state, ExecutorJobState::Waiting { reason: now } if now == reason)).await;
    // Another executor finds the job in Slurm and does not submit it again.
    let other = site.executor();
    until(&*other, &spec, |state| matches!(state, ExecutorJobState::Waiting { reason: now } if now == reason)).await;
    assert_eq!(site.cluster.jobs("%i").len(), 1);
    other.stop(&spec.id, StopMode::Graceful).await.unwrap();
    let state = executor.wait(&spec.id).await.unwrap();
    let ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::NotStarted(_), stopped }) = &state else {
        panic!("{state:?}")
    };
    assert_eq!(*stopped, Some(StopReason::Requested));
    assert_eq!(site.cluster.jobs("%T"), ["CANCELLED"]);
    assert!(!site.folder.path().join("runs").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impossible_requests_are_refused_with_what_to_do() {
    let site = Site::new();
    let executor = site.executor();
    let mut partition = shell(&site, 1, "true");
    partition.placement.queue = Some("nope".to_owned());
    let mut gpus = shell(&site, 2, "true");
    let accelerators = Some(Accelerators { kind: None, count: 9 });
    gpus.replicas[0].resources = Resources { accelerators, ..Resources::default() };
    for (spec, words, advice) in [
        (&partition, "Invalid partition name specified", "list the partitions with sinfo"),
        (&gpus, "Requested node configuration is not available", "ask for no more cpus, memory and GPUs"),
    ] {
        let state = run(&*executor, spec).await;
        let ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::NotStarted(reason), stopped: None }) = state else {
            panic!("{state:?}")
        };
        assert!(reason.contains(words) && reason.contains(advice), "{reason}");
    }
    let mut container = shell(&site, 3, "true");
    container.replicas[0].program =
        Program::Container { image: "i".to_owned(), command: Vec::new(), args: Vec::new(), mounts: Vec::new() };
    let error = executor.submit(&container).await.unwrap_err().to_string();
    assert!(error.contains("cannot be run: it is a container"), "{error}");
    assert_eq!(executor.state(&container.id).await.unwrap(), ExecutorJobState::Unknown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resources_are_requested_and_devices_handed_out() {
    let site = Site::new();
    let executor = site.executor();
    let mut spec = shell(&site, 1, "echo $CUDA_VISIBLE_DEVICES $SLURM_CPUS_PER_TASK $SLURM_MEM_PER_NODE");
    let accelerators = Some(Accelerators { kind: None, count: 2 });
    spec.replicas[0].resources = Resources { milli_cpus: Some(2_500), memory_bytes: Some(200 << 20), accelerators };
    assert_eq!(run(&*executor, &spec).await, ended(ProgramEnd::Exited(0), None));
    let printed = std::fs::read_to_string(spec.directory.join("stdout.log")).unwrap();
    assert_eq!(printed, "0,1 3 200\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_of_submitted_jobs_is_waited_for() {
    let site = Site::new();
    // `sbatch` of a cluster with accounting prints this while the user has as many jobs as a QOS allows.
    let (sbatch, full) = (site.cluster.wrapper("sbatch"), site.folder.path().join("full"));
    let limited = site.cluster.folder().join("limited.sh");
    let script = format!(
        "#!/bin/sh\nif [ -e '{}' ]; then echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit
sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)' >&2; exit 1; fi
exec '{}' \"$@\"\n",
        full.display(),
        sbatch.display()
    );
    std::fs::write(&limited, script).unwrap();
    std::fs::set_permissions(&limited, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(&full, "").unwrap();
    let mut settings = site.settings();
    settings.commands.sbatch = limited;
    let executor = SlurmExecutor::new(settings);
    let spec = shell(&site, 1, "exit 5");
    executor.submit(&spec).await.unwrap();
    until(&executor, &spec, |state| {
        matches!(state, ExecutorJobState::Waiting { reason }
            if reason.starts_with("submission limit: QOSMaxSubmitJobPerUserLimit; "))
    })
    .await;
    std::fs::remove_file(full).unwrap();
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ended(ProgramEnd::Exited(5), None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_commands_and_partitions_are_errors_at_the_start() {
    let site = Site::new();
    site.slurm().check().await.unwrap();
    let mut settings = site.settings();
    settings.partition = Some("main,nope".to_owned());
    let error = SlurmExecutor::new(settings).check().await.unwrap_err().to_string();
    assert!(error.starts_with("Slurm has no partition \"nope\" (") && error.ends_with("with sinfo"), "{error}");
    let mut settings = site.settings();
    settings.commands.sbatch = "/no/such/sbatch".into();
    let error = SlurmExecutor::new(settings).check().await.unwrap_err().to_string();
    assert!(error.starts_with("Slurm's command /no/such/sbatch cannot be started: No such file"), "{error}");
}
