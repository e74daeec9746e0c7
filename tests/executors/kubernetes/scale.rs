//! A server with many attempts that wait in a queue of the cluster, and many that run: what they cost the API server and the server.
//!
//! `TUNESMITH_KUBERNETES_WAITING` sets the number of attempts that wait, 1,000 in a campaign and 40 by default. A fifth of it runs
//! beside them. The API server, the queue, the kubelet and the agents are no part of the process of the server that is measured.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::{found, until};
use tunesmith_testing::server::Server;
use tunesmith_testing::usage::{processor_time, status_kib};

use super::InProcess;
use super::kueue::Kueue;
use super::served::{serve, submit};

/// Trials of a job, all of which it runs at once.
const TRIALS: usize = 40;

/// Number of Jobs that the queue admits at once.
const QUOTA: usize = 40;

/// For how long the server is observed: so long for each attempt that waits, and at least.
const OBSERVED: Duration = Duration::from_millis(60);
const LEAST_OBSERVED: Duration = Duration::from_secs(10);

/// The regions of the two kinds of jobs.
const REGIONS: &str = "
regions:
  queued: {options: {label/kueue.x-k8s.io/queue-name: team}}
  direct: {}
";

/// Requests to the API server that a trial costs from its submission until nothing is left of it, at most: five that change something,
/// two that confirm the end of its place if it is seen before the report of its agent, and its part of those of the server.
const MOST_PER_TRIAL: f64 = 7.5;

/// Requests that the server makes per minute while nothing changes, at most: those of its sweep, whatever the number of attempts.
const MOST_PER_MINUTE: f64 = 12.0;

/// Resident memory in MiB that an attempt takes, at most, and that of an idle server in a debug build.
const MOST_MIB: (u64, f64) = (150, 0.1);

/// A pipe from which each program takes a line before it ends.
struct Latch(File);

impl Latch {
    fn new(workspace: &Workspace) -> Self {
        let path = workspace.path().join("latch");
        assert!(tunesmith_testing::program("mkfifo").arg(&path).status().unwrap().success());
        // With both ends open here, programs open it at once, and lines wait for them.
        Self(OpenOptions::new().read(true).write(true).open(path).unwrap())
    }

    fn open(&mut self, programs: usize) {
        self.0.write_all("\n".repeat(programs).as_bytes()).unwrap();
    }
}

/// Submits jobs with `trials` trials together, in `region`, and returns their paths.
fn submit_all(server: &Server, region: &str, trials: usize, script: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for begin in (0..trials).step_by(TRIALS) {
        let count = TRIALS.min(trials - begin);
        let id = format!("{region}{begin}");
        let input = json!({
            "region": region,
            "masterConfig": {"containerCommand": ["sh", "-c", script]},
            "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "acc", "maxTrials": count,
                "maxParallelTrials": count, "algorithm": "RANDOM_SEARCH",
                "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]},
            "tunesmith": {"metricFromStdout": true},
        });
        let (status, answer) = submit(server, &id, &input);
        assert_eq!(status, 200, "{answer}");
        paths.push(format!("/v1/projects/p/jobs/{id}"));
    }
    paths
}

/// Waits until `left` returns 0. It has to become less in the time of a look.
fn until_none(mut left: impl FnMut() -> usize) {
    let mut before = usize::MAX;
    while before > 0 {
        before = found(|| Some(left()).filter(|left| *left < before));
    }
}

/// The number of requests by verb and resource, without the names of objects.
fn by_kind(requests: &[String]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for request in requests {
        let kind = match request.split_once('/') {
            Some((kind, _)) => format!("{kind}/NAME"),
            None => request.clone(),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_and_running_attempts_cost_few_requests() {
    let waiting: usize = std::env::var("TUNESMITH_KUBERNETES_WAITING").map_or(40, |text| text.parse().unwrap());
    let running = waiting / 5;
    let all = waiting + running;
    let place = InProcess::new();
    let api = place.api();
    let kueue = Kueue::start(api);
    let workspace = Workspace::new("");
    workspace.write("server.yaml", REGIONS);
    let mut latch = Latch::new(&workspace);
    let server = serve(&place, &workspace, &["--server-config", "server.yaml"]);
    tokio::task::block_in_place(|| {
        let process = server.process_id();
        let idle = status_kib(process, "VmRSS") / 1024;
        let folder = workspace.path().display();
        let script = format!("echo >> {folder}/started; read line < {folder}/latch; echo acc=0.5");
        let begin = Instant::now();
        let mut jobs = submit_all(&server, "direct", running, &script);
        jobs.extend(submit_all(&server, "queued", waiting, &script));
        let started = || std::fs::read_to_string(workspace.path().join("started")).map_or(0, |text| text.len());
        until_none(|| running - started());
        // The last request of a submission.
        until_none(|| all - by_kind(&api.requests()).get("PATCH secrets/NAME").copied().unwrap_or_default());
        let submitted = begin.elapsed();
        let is_suspended = |job: &Value| (job["spec"]["suspend"] == true).then_some(());
        assert_eq!(api.view("jobs", |_, job| is_suspended(job)).len(), waiting);
        // Every trial that waits states its reason.
        for job in &jobs[jobs.len() - waiting.div_ceil(TRIALS)..] {
            until(|| {
                let job = server.get(job).1;
                let reasons = job["tunesmith"]["waiting"].as_array().unwrap();
                reasons.iter().all(|one| one["reason"].as_str().unwrap().starts_with("queued by Kueue in team: "))
            });
        }

        let observed = LEAST_OBSERVED.max(OBSERVED * u32::try_from(waiting).unwrap());
        let (requests, time) = (api.requests().len(), processor_time(process));
        std::thread::sleep(observed);
        let made = api.requests()[requests..].to_vec();
        let minutes = observed.as_secs_f64() / 60.0;
        let share = (processor_time(process) - time).as_secs_f64() / observed.as_secs_f64();
        let memory = status_kib(process, "VmRSS") / 1024;
        let anonymous = status_kib(process, "RssAnon") / 1024;

        latch.open(all);
        kueue.set_quota(QUOTA);
        let ended = |job: &String| server.get(job).1["endTime"].is_string();
        let objects = || ["jobs", "secrets", "pods"].map(|kind| api.view(kind, |_, _| Some(())).len());
        until_none(|| jobs.iter().filter(|job| !ended(job)).count() + objects().iter().sum::<usize>());
        for job in &jobs {
            let job = server.get(job).1;
            assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
        }
        let requests = api.requests();
        let kinds = by_kind(&requests);
        assert_eq!(kinds["POST jobs"], all, "no attempt was submitted twice");
        let per_trial = requests.len() as f64 / all as f64;
        let per_waiting = made.len() as f64 / minutes / waiting as f64;
        println!(
            "figures: {waiting} attempts wait and {running} run, submitted in {:.0} s; {} requests in {:.0} s of waiting \
             ({per_waiting:.3} per waiting Job and minute); {memory} MiB resident ({anonymous} MiB anonymous, {idle} MiB \
             resident when idle), {:.1}% of one core; {per_trial:.2} requests per trial; highest {} MiB, {:.0} s of \
             processor time in all",
            submitted.as_secs_f64(),
            made.len(),
            observed.as_secs_f64(),
            share * 100.0,
            status_kib(process, "VmHWM") / 1024,
            processor_time(process).as_secs_f64(),
        );
        println!("figures of requests: {kinds:?}; while waiting: {:?}", by_kind(&made));
        assert!(made.len() as f64 <= MOST_PER_MINUTE * minutes.max(1.0), "{made:?}");
        assert!(per_trial <= MOST_PER_TRIAL, "{kinds:?}");
        let most = MOST_MIB.0 + (MOST_MIB.1 * all as f64) as u64;
        assert!(memory <= most, "{memory} MiB of {most}");
    });
}
