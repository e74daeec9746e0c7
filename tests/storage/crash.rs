//! Kills the server, a supervisor, or both, at random times of a running job, and resumes the job.
//!
//! `TUNESMITH_CRASH_ROUNDS` sets the number of kills, 60 by default.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};
use tunesmith_testing::{Workspace, processes_with};

const TRIALS: usize = 12;
/// Longest time after its start at which a process is killed.
const LONGEST_LIFE_MS: u64 = 600;

/// Reports three steps over HTTP, and records the acknowledged ones. Also prints the last one to standard output.
const TRAINER: &str = r#"
import http.client, json, os, sys, urllib.request
trial = os.environ["CLOUD_ML_TRIAL_ID"]
def note(file, text):
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, (text + "\n").encode())
    os.close(descriptor)
note("starts", trial)
for step in (1, 2, 3):
    value = float(trial) + step / 10
    body = {"measurement": {"stepCount": str(step), "metrics": [{"metric": "score", "value": value}]}}
    url = os.environ["TUNESMITH_ENDPOINT"] + "/v1/" + os.environ["TUNESMITH_TRIAL"] + ":addMeasurement"
    request = urllib.request.Request(url, data=json.dumps(body).encode())
    request.add_header("authorization", "Bearer " + os.environ["TUNESMITH_TOKEN"])
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            json.load(answer)
        note("acknowledged", f"{trial} {step} {value!r}")
    except (OSError, ValueError, http.client.HTTPException):
        pass
print(f"score={float(trial) + 0.3!r} step=3")
note("ends", trial)
"#;

#[test]
fn acknowledged_reports_survive_kills_and_no_trial_runs_twice() {
    let rounds: u32 = std::env::var("TUNESMITH_CRASH_ROUNDS").map_or(60, |text| text.parse().unwrap());
    let mut random = StdRng::seed_from_u64(1);
    let mut kills = 0;
    for job in 0.. {
        if kills >= rounds {
            break;
        }
        kills += crash_one_job(job, rounds - kills, &mut random);
    }
    println!("figures: {kills} kills of run and its supervisors, 0 reports lost, 0 trials run twice");
}

/// Runs one job to its end through up to `most` kills, checks it, and returns the number of kills.
fn crash_one_job(job: u32, most: u32, random: &mut StdRng) -> u32 {
    let workspace = Workspace::new(&format!(
        "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: score
  maxTrials: {TRIALS}
  maxParallelTrials: 2
  algorithm: RANDOM_SEARCH
  params: [{{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}}]
tunesmith: {{metricFromStdout: true, maxLostAttempts: 1000, seed: {job}}}
"
    ));
    workspace.write("train.py", TRAINER);
    let args = ["--job-id", "crash", "--", "python3", "train.py"];
    let marker = workspace.path().display().to_string();
    let mut kills = 0;
    loop {
        let mut child = workspace.run_command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let ended = when_ended(&mut child);
        let life = Duration::from_millis(random.random_range(0..LONGEST_LIFE_MS));
        let stderr_text = match ended.recv_timeout(if kills == most { Duration::MAX } else { life }) {
            Ok(said) => said,
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("standard error was not read"),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                kills += 1;
                let (server, supervisors) = [(true, false), (false, true), (true, true)][random.random_range(0..3)];
                if supervisors {
                    kill_supervisors(&marker);
                }
                if server {
                    kill(child.id());
                    child.wait().unwrap();
                    continue;
                }
                ended.recv().unwrap()
            }
        };
        assert_eq!(child.wait().unwrap().code(), Some(0), "{stderr_text}");
        break;
    }
    check(&workspace, &marker);
    kills
}

fn check(workspace: &Workspace, marker: &str) {
    assert_eq!(processes_with(marker), [], "no process is left");
    let trials = workspace.trials();
    let ids: BTreeSet<&str> = trials.iter().map(|trial| trial["trial_id"].as_str()).collect();
    assert_eq!((trials.len(), ids.len()), (TRIALS, TRIALS));
    let points: BTreeSet<&str> = trials.iter().map(|trial| trial["x"].as_str()).collect();
    assert_eq!(points.len(), TRIALS);
    for trial in &trials {
        assert_eq!(trial["state"], "SUCCEEDED", "{trial:?}");
        let id: f64 = trial["trial_id"].parse().unwrap();
        assert_eq!(trial["objective_value"], format!("{:?}", id + 0.3));
    }
    // A trial is started again only if it had not ended.
    let mut starts: BTreeMap<String, usize> = BTreeMap::new();
    for line in workspace.read("starts").lines() {
        *starts.entry(line.to_owned()).or_default() += 1;
    }
    assert_eq!(starts.len(), TRIALS);
    let curves = stored_curves(workspace);
    for line in workspace.read("acknowledged").lines() {
        assert!(curves.contains(line), "acknowledged and lost: {line}");
    }
}

/// `trial step value` of every stored measurement.
fn stored_curves(workspace: &Workspace) -> BTreeSet<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tunesmith_data_dir::DataDir::open_read_only(&workspace.path().join(".tunesmith"), "test").unwrap();
        let store = folder.store().await.unwrap();
        let study = "crash".parse().unwrap();
        let mut found = BTreeSet::new();
        for trial in store.trials(&study, None, 1000).await.unwrap() {
            for measurement in store.measurements(&study, trial.id, 0, 100_000).await.unwrap() {
                let value = measurement.value("score").unwrap();
                found.insert(format!("{} {} {value:?}", trial.id, measurement.step));
            }
        }
        found
    })
}

/// Returns a channel that receives the standard error of the process when it is closed.
fn when_ended(child: &mut Child) -> mpsc::Receiver<String> {
    let mut stderr = child.stderr.take().unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let stderr_text = std::io::read_to_string(&mut stderr).unwrap_or_default();
        // The receiver may have been dropped.
        let _ = sender.send(stderr_text);
    });
    receiver
}

fn kill_supervisors(marker: &str) {
    for (pid, arguments) in processes_with(marker) {
        if arguments.contains("__supervise") {
            kill(pid);
        }
    }
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // The process may have ended already.
    let _ = kill_process(pid, Signal::KILL);
}
