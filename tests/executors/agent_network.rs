//! Cuts and mends the network between agents and their server at random while trials with checkpoints run.
//!
//! `TUNESMITH_NETWORK_CUTS` sets the number of cuts, 4 by default. The number of trials grows with it.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tunesmith_domain::{StudyId, Trial, TrialId, TrialState};
use tunesmith_store::{OpenMode, SqliteStore, Store};
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, processes_with};

use crate::network::{Network, Proxy};

/// Steps of a trial, each of a tenth of a second and with a checkpoint.
const STEPS: u64 = 15;

/// Number of trials that run at once.
const PARALLEL: u64 = 4;

/// Time without the server after which an agent ends its program.
const OUT_OF_REACH: Duration = Duration::from_millis(1500);

/// Goes on from its checkpoint, and records every step in the folder of the trial.
const TRAINER: &str = r#"
for argument in "$@"; do case $argument in --job-dir=*) folder=${argument#--job-dir=};; esac; done
mkdir -p "$folder"
note() { echo "$TUNESMITH_TOKEN $*" >> "$folder/log"; }
step=$(cat "$folder/checkpoint" 2>/dev/null || echo 0)
note start "$step"
while [ "$step" -lt 15 ]; do
    sleep 0.1
    step=$((step + 1))
    echo "$step" > "$folder/checkpoint.new"
    mv "$folder/checkpoint.new" "$folder/checkpoint"
    note step "$step"
    echo "score=$step step=$step"
done
note done
echo "score=$step step=$step"
"#;

#[test]
fn trials_survive_cuts_of_the_network_between_agents_and_server() {
    let cuts: u32 = std::env::var("TUNESMITH_NETWORK_CUTS").map_or(4, |text| text.parse().unwrap());
    let trials = u64::from(cuts.max(4)) * 3;
    let begin = Instant::now();
    let workspace = Workspace::new("");
    let script = workspace.write("train.sh", TRAINER);
    let proxy = Proxy::start();
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--allow-unisolated-programs"]);
    command.args(["--public-url", &format!("http://{}", proxy.address())]);
    command.env("TUNESMITH_EXECUTOR", "agent");
    command.env("TUNESMITH_AGENT_OUT_OF_REACH", OUT_OF_REACH.as_secs_f64().to_string());
    let server = Server::start_command(&mut command);
    proxy.connect_to(server.address);
    let input = json!({
        "masterConfig": {"containerCommand": ["sh", script]},
        "jobDir": workspace.path().join("models"),
        "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "score", "maxTrials": trials,
            "maxParallelTrials": PARALLEL, "algorithm": "RANDOM_SEARCH",
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]},
        "tunesmith": {"metricFromStdout": true, "maxLostAttempts": 1000, "seed": 1, "stopGracePeriod": "1s"}});
    let (status, answer) = server.post("/v1/projects/p/jobs", &json!({"jobId": "j", "trainingInput": input}));
    assert_eq!(status, 200, "{answer}");
    let mut random = StdRng::seed_from_u64(15);
    for cut in 0..cuts {
        std::thread::sleep(Duration::from_millis(random.random_range(200..700)));
        // Every third one is longer than agents wait; the first of these hangs.
        let is_long = cut % 3 == 1;
        let hangs = if is_long { cut % 2 == 1 } else { random.random_range(0..2) == 0 };
        proxy.set(if hangs { Network::Hangs } else { Network::Refuses });
        let length = if is_long { random.random_range(1900..2500) } else { random.random_range(50..500) };
        std::thread::sleep(Duration::from_millis(length));
        proxy.set(Network::Works);
    }
    let job = server.until("/v1/projects/p/jobs/j", "SUCCEEDED");
    let output = &job["trainingOutput"];
    assert_eq!(output["completedTrialCount"], json!(trials.to_string()), "{job:#}");
    // Agents that had ended their work, or were superseded, go away by themselves.
    let agents = workspace.path().join("data/agent-spools").display().to_string();
    until(|| processes_with(&agents).iter().all(|(_, arguments)| !arguments.contains(" agent ")));
    server.kill();
    let path = workspace.path().display().to_string();
    until(|| processes_with(&path).is_empty());
    let (mut attempts, mut lost) = (0, 0);
    for trial in stored(&workspace, trials) {
        assert_eq!(trial.state, TrialState::Succeeded, "{trial:?}");
        let result = trial.final_measurement.as_ref().unwrap();
        assert_eq!((result.step, result.value("score")), (STEPS.cast_signed(), Some(STEPS as f64)), "{trial:?}");
        assert_eq!(trial.attempt, trial.lost_attempts + 1, "{trial:?}");
        check_log(&workspace.read(&format!("models/{}/log", trial.id)));
        attempts += trial.attempt;
        lost += trial.lost_attempts;
    }
    assert!(lost > 0, "no program ended although {} cuts were longer than agents wait", cuts.div_ceil(3));
    let seconds = begin.elapsed().as_secs();
    println!("figures: {cuts} cuts, {trials} trials in {attempts} attempts, {lost} of them out of reach, {seconds} s");
}

/// Checks that attempts went on from the last checkpoint, and that none wrote after the next one had started.
fn check_log(log: &str) {
    let (mut step, mut current, mut former) = (0, "", Vec::new());
    for line in log.lines() {
        let mut words = line.split(' ');
        let (token, what) = (words.next().unwrap(), words.next().unwrap());
        let number: Option<u64> = words.next().map(|number| number.parse().unwrap());
        if what == "start" {
            assert!(!former.contains(&token) && token != current, "an attempt began twice: {log}");
            former.push(std::mem::replace(&mut current, token));
            // The checkpoint is written before its line.
            assert!((step..=step + 1).contains(&number.unwrap()), "steps were lost: {log}");
        }
        assert_eq!(token, current, "an attempt wrote after the next one had started: {log}");
        if what == "step" {
            assert!(number.unwrap() > step, "a step was repeated: {log}");
        }
        step = number.unwrap_or(step);
    }
    assert!(log.trim_end().ends_with("done") && step == STEPS, "{log}");
}

fn stored(workspace: &Workspace, trials: u64) -> Vec<Trial> {
    let study = StudyId::new("p", StudyId::JOBS_LOCATION, "j").unwrap();
    let store = SqliteStore::open(&workspace.path().join("data/store.sqlite"), OpenMode::Existing).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut all = Vec::new();
        for number in 1..=trials {
            all.push(store.trial(&study, TrialId(number)).await.unwrap());
        }
        all
    })
}
