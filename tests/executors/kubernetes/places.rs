//! Attempts with several replicas on a node that has too few places for all of them.

use tunesmith_domain::{StudyId, TrialId, TrialState};
use tunesmith_store::{OpenMode, SqliteStore, Store};
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::found;

use super::InProcess;
use super::kubelet::NODE;
use super::runs::{STUDY, command, finish, job};

/// A job whose attempts have a master and two workers.
fn workspace(trials: u64) -> Workspace {
    let study = STUDY.replace("maxTrials: 4", &format!("maxTrials: {trials}"));
    let workspace = Workspace::new(&format!("scaleTier: STANDARD_1\n{study}tunesmith: {{metricFromStdout: true}}\n"));
    workspace.write(
        "server.yaml",
        "scaleTiers: {STANDARD_1: {workerCount: 2, parameterServerCount: 0}}\nplacementTimeout: 1s\nqueueDeadline: 120s\n",
    );
    workspace
}

fn run(place: &InProcess, workspace: &Workspace) -> std::process::Command {
    let script = r#"case "$TF_CONFIG" in *'"type":"master"'*) echo acc=0.5;; *) exec sleep 1000;; esac"#;
    let mut run = command(place, workspace);
    run.args(["--kubernetes-image", "trainer:1", "--server-config", "server.yaml", "--", "sh", "-c", script]);
    run
}

async fn trials(workspace: &Workspace, count: u64) -> Vec<tunesmith_domain::Trial> {
    let job = job(workspace);
    let store = SqliteStore::open(&workspace.path().join(".tunesmith/store.sqlite"), OpenMode::Existing).unwrap();
    let id: tunesmith_domain::JobId = job["jobId"].as_str().unwrap().parse().unwrap();
    let mut trials = Vec::new();
    for number in 1..=count {
        trials.push(store.trial(&StudyId::from(&id), TrialId(number)).await.unwrap());
    }
    trials
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_get_their_places_one_after_the_other() {
    let place = InProcess::new();
    // Two attempts at once need six.
    place.kubelet().set_capacity(4);
    let workspace = workspace(4);
    let output = finish(run(&place, &workspace), 0).await;
    assert!(output.contains("attempts with several replicas get their places one after the other"), "{output}");
    for trial in trials(&workspace, 4).await {
        assert_eq!((trial.state, trial.lost_attempts, trial.preempted_attempts), (TrialState::Succeeded, 0, 0));
        let place = trial.places.last().unwrap();
        let tasks: Vec<_> =
            place.nodes.iter().map(|node| (node.task.as_deref().unwrap(), node.node.as_str())).collect();
        assert_eq!(tasks, [("master-0", NODE), ("worker-0", NODE), ("worker-1", NODE)]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempt_without_all_of_its_places_gives_them_back_and_tries_again() {
    let place = InProcess::new();
    place.kubelet().set_capacity(2);
    let workspace = workspace(1);
    let mut run = run(&place, &workspace);
    run.env("TUNESMITH_LOG", "info");
    let running = tokio::task::spawn_blocking(move || run.output().unwrap());
    // Two of its three pods have run, and are gone again.
    let api = place.api().clone();
    let looked = tokio::task::spawn_blocking(move || {
        found(|| (api.created("jobs").len() > 3).then_some(()));
    });
    looked.await.unwrap();
    place.kubelet().set_capacity(3);
    let output = running.await.unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("of 3 places within 1 s, and gave them back"), "{text}");
    let trial = trials(&workspace, 1).await.remove(0);
    assert_eq!((trial.state, trial.lost_attempts, trial.preempted_attempts), (TrialState::Succeeded, 0, 0));
    assert!(trial.attempt >= 2, "{trial:?}");
    assert!(place.api().all("jobs").is_empty() && place.api().all("secrets").is_empty());
}
