//! A job whose cluster refuses its submissions, or is away, for a while.

use std::time::Instant;

use tunesmith_contract::executor::{Harness, shell, until_ready};
use tunesmith_executor::{ExecutorJobState, ExitStatus, ProgramEnd, StopMode, StopReason};
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::until;

use super::InProcess;
use super::runs::{STUDY, command, finish, job, kubeconfig_for};
use crate::network::{Network, Proxy};

/// Runs a job of four trials on `place`, whose API server answers again once it has had `requests` like `refused`. Returns the
/// output of the job.
async fn run_through(place: &InProcess, refused: &str, requests: usize) -> String {
    let workspace = Workspace::new(&format!("{STUDY}tunesmith: {{metricFromStdout: true}}\n"));
    let mut run = command(place, &workspace);
    run.args(["--kubernetes-image", "trainer:1", "--", "sh", "-c", "echo acc=0.5"]);
    let running = tokio::spawn(finish(run, 0));
    let count = || place.api().requests().iter().filter(|request| *request == refused).count();
    while count() < requests && !running.is_finished() {
        tokio::task::yield_now().await;
    }
    place.api().recover();
    let output = running.await.unwrap();
    check_end(place, &workspace);
    output
}

/// Checks that all trials have succeeded, and that the cluster has nothing of them.
fn check_end(place: &InProcess, workspace: &Workspace) {
    let job = job(workspace);
    let trials = job["trainingOutput"]["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4, "{job:#}");
    assert!(trials.iter().all(|trial| trial["finalMetric"]["objectiveValue"] == 0.5), "{job:#}");
    assert!(place.api().all("jobs").is_empty() && place.api().all("secrets").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_role_holds_the_job_and_costs_no_trial() {
    let place = InProcess::new();
    place.api().refuse("jobs");
    let output = run_through(&place, "POST jobs", 4).await;
    assert!(output.contains("its executor cannot be reached, and is tried again: "), "{output}");
    assert!(output.contains("cannot create resource \"jobs\""), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_server_that_is_away_holds_the_job() {
    let place = InProcess::new();
    place.api().go_down_at("POST secrets");
    let output = run_through(&place, "POST secrets", 12).await;
    assert!(output.contains("the API server answers 503: the server is down"), "{output}");
    assert!(!output.contains("could not be run"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_connections_hold_the_job_whose_programs_end_meanwhile() {
    let seconds: u64 = std::env::var("TUNESMITH_KUBERNETES_OUTAGE").map_or(5, |text| text.parse().unwrap());
    let place = InProcess::new();
    let proxy = Proxy::start();
    proxy.connect_to(place.api().url.strip_prefix("http://").unwrap().parse().unwrap());
    let workspace = Workspace::new(&format!("{STUDY}tunesmith: {{metricFromStdout: true}}\n"));
    let mut run = command(&place, &workspace);
    run.env("TUNESMITH_LOG", "info");
    run.env("KUBECONFIG", kubeconfig_for(&format!("http://{}", proxy.address()), &workspace));
    let here = workspace.path().display();
    let script = format!("echo >> {here}/started; until [ -e {here}/go ]; do sleep 0.1; done; echo acc=0.5");
    run.args(["--kubernetes-image", "trainer:1", "--", "sh", "-c", &script]);
    let running = tokio::spawn(finish(run, 0));
    tokio::task::block_in_place(|| {
        until(|| std::fs::read_to_string(workspace.path().join("started")).is_ok_and(|text| text.len() == 2));
        proxy.set(Network::Refuses);
        let begin = Instant::now();
        workspace.write("go", "");
        // The reports of two programs arrive, and the next trials cannot be submitted.
        until(|| begin.elapsed().as_secs() >= seconds && proxy.refused() > 10);
        proxy.set(Network::Works);
    });
    let output = running.await.unwrap();
    check_end(&place, &workspace);
    assert!(output.contains("waits: its executor cannot be reached, and is tried again: "), "{output}");
    assert!(output.contains("cannot be reached: the API server does not answer: "), "{output}");
    assert!(!output.contains("eof in poll"), "a library logs it without context: {output}");
    assert_eq!(place.api().created("jobs").len(), 4, "each trial has run once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_is_stopped_and_its_end_recorded_behind_a_watch_that_reports_nothing() {
    let place = InProcess::new();
    let (executor, spec) =
        (place.executor(), shell(&place, 1, "trap 'exit 6' TERM; sh -c 'echo ready; exec sleep 1000' & wait"));
    executor.submit(&spec).await.unwrap();
    until_ready(&place, &*executor, &spec).await;
    place.api().stall_watches();
    executor.stop(&spec.id, StopMode::Graceful).await.unwrap();
    let stopped = ExitStatus { end: ProgramEnd::Exited(6), stopped: Some(StopReason::Requested) };
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ExecutorJobState::Ended(stopped));
    executor.clean_up(&spec.id).await.unwrap();
    assert!(place.api().all("jobs").is_empty() && place.api().all("secrets").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_could_not_be_removed_are_swept() {
    let place = InProcess::without_nodes();
    let executor = place.executor();
    let waiting = shell(&place, 1, "true");
    let open = shell(&place, 2, "true");
    for spec in [&waiting, &open] {
        executor.submit(spec).await.unwrap();
    }
    // Stopped while the API server is away, by a server that is killed afterwards.
    place.api().set_down(true);
    executor.stop(&waiting.id, StopMode::Graceful).await.unwrap_err();
    place.api().recover();
    assert_eq!(place.api().all("jobs").len(), 2);
    let next = place.executor();
    next.sweep().await.unwrap();
    let left: Vec<String> = place.api().all("jobs").into_iter().map(|(key, _)| key.2).collect();
    assert_eq!(left, [place.job_of(&open)]);
    assert_eq!(place.api().all("secrets").len(), 1);
    assert!(matches!(next.state(&open.id).await.unwrap(), ExecutorJobState::Waiting { .. }));
    // And of a job that was deleted meanwhile.
    place.inbox.forget(&open.id.job).unwrap();
    next.sweep().await.unwrap();
    assert!(place.api().all("jobs").is_empty() && place.api().all("secrets").is_empty());
}
