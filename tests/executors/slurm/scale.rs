//! A server whose trials all wait in Slurm: 120 jobs of 30 trials in a partition that is down.
//!
//! `TUNESMITH_SLURM_JOBS` sets the number of jobs, 120 in a campaign and 20 by default.

use std::time::{Duration, Instant};

use serde_json::json;
use tunesmith_domain::TrialId;
use tunesmith_executor::{Executor, ExecutorJobId, ExecutorJobState};
use tunesmith_slurm::{SlurmCommands, SlurmExecutor, SlurmSettings};
use tunesmith_testing::Workspace;
use tunesmith_testing::server::Server;
use tunesmith_testing::slurm::{Cluster, Shape};
use tunesmith_testing::usage::{processor_time, status_kib};

/// Trials of each job, all of which it runs at once.
const TRIALS: usize = 30;

/// For how long the waiting server is observed.
const OBSERVED: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_waiting_trials_cost_little_and_name_their_reason() {
    let jobs: usize = std::env::var("TUNESMITH_SLURM_JOBS").map_or(20, |text| text.parse().unwrap());
    let cluster = Cluster::start(&Shape { lines: "MaxJobCount=20000".to_owned(), ..Shape::default() });
    let workspace = Workspace::new("");
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--job-slots", &jobs.to_string()]);
    workspace.write("server.yaml", "slurm: {submitRate: 1000}\n");
    command.args(["--executor", "slurm", "--slurm-partition", "closed", "--server-config", "server.yaml"]);
    let server = Server::start_command(command.env("SLURM_CONF", cluster.configuration()));
    let input = json!({
        "masterConfig": {"containerCommand": ["true"]},
        "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "acc", "maxTrials": TRIALS,
            "maxParallelTrials": TRIALS, "algorithm": "RANDOM_SEARCH",
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]}});
    let begin = Instant::now();
    for job in 0..jobs {
        let body = json!({"jobId": format!("j{job}"), "trainingInput": input});
        let (status, answer) = server.post("/v1/projects/p/jobs", &body);
        assert_eq!(status, 200, "{answer}");
    }
    let all = jobs * TRIALS;
    loop {
        let pending = cluster.jobs("%T").iter().filter(|state| *state == "PENDING").count();
        if pending == all {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(540), "{pending} of {all} were submitted");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let submitted = begin.elapsed();
    // The submission of the last jobs has to be noticed.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let process = server.process_id();
    let before = processor_time(process);
    tokio::time::sleep(OBSERVED).await;
    let used = processor_time(process).saturating_sub(before);
    let share = used.as_secs_f64() / OBSERVED.as_secs_f64();
    let memory = status_kib(process, "VmRSS") / 1024;
    server.kill();
    assert_reasons(&cluster, &workspace, jobs).await;
    assert_eq!(cluster.jobs("%T").len(), all, "no job was submitted twice");
    println!(
        "figures: {all} waiting trials of {jobs} jobs, submitted in {} s; {memory} MiB resident, {:.1}% of one core with \
         squeue; every one names its reason",
        submitted.as_secs(),
        share * 100.0
    );
    assert!(memory < 200, "{memory} MiB");
    assert!(share < 0.2, "{share} of a core");
}

/// Checks the reason of every trial, as the next server finds it.
async fn assert_reasons(cluster: &Cluster, workspace: &Workspace, jobs: usize) {
    let executor = SlurmExecutor::new(SlurmSettings {
        registry: workspace.path().join("data/executions"),
        supervisor: env!("CARGO_BIN_EXE_tunesmith").into(),
        commands: SlurmCommands {
            sbatch: cluster.wrapper("sbatch"),
            squeue: cluster.wrapper("squeue"),
            scancel: cluster.wrapper("scancel"),
            scontrol: cluster.wrapper("scontrol"),
        },
        poll_interval: Duration::from_millis(500),
        ..SlurmSettings::default()
    });
    let id = |job: usize, trial| ExecutorJobId {
        job: format!("p/j{job}").parse().unwrap(),
        trial: Some(TrialId(trial)),
        attempt: 1,
    };
    let ids: Vec<ExecutorJobId> =
        (0..jobs).flat_map(|job| (1..=TRIALS as u64).map(move |trial| id(job, trial))).collect();
    // The first look lets the executor follow all of them, before one of them is waited for.
    for id in &ids {
        executor.state(id).await.unwrap();
    }
    let begin = Instant::now();
    for id in &ids {
        loop {
            let state = executor.state(id).await.unwrap();
            let ExecutorJobState::Waiting { reason } = &state else { panic!("{id}: {state:?}") };
            if reason == "PartitionDown (the partition is down)" {
                break;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{id}: {reason}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
