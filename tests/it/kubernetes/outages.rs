//! A job whose cluster refuses its submissions, or is away, for a while.

use tunesmith_executor::contract::{Harness, shell};
use tunesmith_executor::{ExecutorJobState, StopMode};

use super::InProcess;
use super::runs::{STUDY, command, finish, job};
use crate::support::Workspace;

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
    let job = job(&workspace);
    let trials = job["trainingOutput"]["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4, "{job:#}");
    assert!(trials.iter().all(|trial| trial["finalMetric"]["objectiveValue"] == 0.5), "{job:#}");
    assert!(place.api().all("jobs").is_empty() && place.api().all("secrets").is_empty());
    output
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
