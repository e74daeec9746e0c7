use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tunesmith_contract::samples;
use tunesmith_domain::{JobChange, JobState, StudyChange, StudyFields};
use tunesmith_store::{MemoryStore, observed};

use super::*;
use crate::WebhookFields;

/// A request: ID and body.
type Received = (String, serde_json::Value);

const OK: &str = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";

/// Receiver that sends `response` to the request with each number, from 0.
async fn receiver(
    listener: TcpListener,
    response: impl Fn(usize) -> String + Send + 'static,
) -> (mpsc::UnboundedReceiver<Received>, AbortHandle) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let task = tokio::spawn(async move {
        for number in 0.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut text = Vec::new();
            let (head, body) = loop {
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer).await.unwrap();
                text.extend_from_slice(&buffer[..read]);
                let all = String::from_utf8(text.clone()).unwrap();
                let Some((head, body)) = all.split_once("\r\n\r\n") else { continue };
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                if body.len() == length.parse::<usize>().unwrap() {
                    break (head.to_owned(), body.to_owned());
                }
            };
            stream.write_all(response(number).as_bytes()).await.unwrap();
            let id = head.lines().find_map(|line| line.strip_prefix("webhook-id: ")).unwrap().to_owned();
            if sender.send((id, serde_json::from_str(&body).unwrap())).is_err() {
                return;
            }
        }
    });
    (receiver, task.abort_handle())
}

fn webhook(address: SocketAddr, events: &[&str], filter: Option<&str>) -> Arc<Webhook> {
    let fields = WebhookFields {
        name: "team".into(),
        url: format!("http://{address}/hook"),
        secret: Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()),
        events: events.iter().map(|event| (*event).to_owned()).collect(),
        filter: filter.map(str::to_owned),
        allow_private_addresses: true,
        ..WebhookFields::default()
    };
    Arc::new(Webhook::new(fields).unwrap())
}

/// Webhooks on `store` with documents in `folder`, and the observed store. Time stands still at the creation of samples.
fn start(
    store: &Arc<dyn Store>,
    folder: &Path,
    webhook: &Arc<Webhook>,
) -> (Arc<Webhooks>, Arc<dyn Store>, AbortHandle) {
    static SECONDS: AtomicI64 = AtomicI64::new(0);
    let wiring = Wiring {
        store: Arc::clone(store),
        documents: DocumentStore::Folder(folder.to_owned()),
        server: "s".into(),
        now: Arc::new(|| samples::at(SECONDS.load(Ordering::Relaxed))),
    };
    let webhooks = Arc::new(Webhooks::new(std::slice::from_ref(webhook), wiring).unwrap());
    let store = observed(Arc::clone(store), webhooks.observer());
    let running = Arc::clone(&webhooks);
    let task = tokio::spawn(async move { running.run().await });
    (webhooks, store, task.abort_handle())
}

/// Waits until there were no changes to compare.
async fn compared(webhooks: &Webhooks) {
    while !webhooks.work.lock().is_idle() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn next(receiver: &mut mpsc::UnboundedReceiver<Received>) -> Received {
    tokio::time::timeout(Duration::from_secs(30), receiver.recv()).await.unwrap().unwrap()
}

async fn become_state(store: &dyn Store, job: &JobId, state: JobState, secs: i64) {
    let change = JobChange::Become { state, error_message: String::new(), at: samples::at(secs) };
    store.change_job(job, change).await.unwrap();
}

async fn run_trial(store: &dyn Store, study: &StudyId, number: u64, value: Option<f64>) {
    store.create_trial(study, samples::new_trial(number)).await.unwrap();
    let id = tunesmith_domain::TrialId(number);
    store.change_trial(study, id, samples::begin(1)).await.unwrap();
    let end = value.map_or_else(|| samples::fail(1, "exit status 1"), |value| samples::succeed(1, value));
    store.change_trial(study, id, end).await.unwrap();
}

/// A job whose second and fourth trial are each the best so far, and whose third one fails.
async fn run_job(store: &dyn Store, id: &str) {
    let job = samples::job(id);
    let (id, study) = (job.id.clone(), job.study.clone().unwrap());
    store.create_job(job, Some(samples::study(study.as_str()))).await.unwrap();
    become_state(store, &id, JobState::Running, 1).await;
    for (number, value) in [(1, Some(0.5)), (2, Some(0.25)), (3, None), (4, Some(0.75))] {
        run_trial(store, &study, number, value).await;
    }
    become_state(store, &id, JobState::Succeeded, 5).await;
}

#[tokio::test]
async fn an_outage_and_a_restart_lose_no_event_and_repeat_none() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // Nothing listens there.
    drop(listener);
    let webhook = webhook(address, &[], None);
    let (webhooks, observed, task) = start(&store, folder.path(), &webhook);
    compared(&webhooks).await;
    run_job(&*observed, "census").await;
    compared(&webhooks).await;
    task.abort();
    // A change that no process derives events for before the restart.
    let other = samples::job("other");
    let study = other.study.clone().unwrap();
    store.create_job(other, Some(samples::study(study.as_str()))).await.unwrap();

    let listener = TcpListener::bind(address).await.unwrap();
    let (mut receiver, _) = receiver(listener, |_| OK.to_owned()).await;
    let (webhooks, ..) = start(&store, folder.path(), &webhook);
    assert_eq!(webhooks.drain(Duration::from_secs(30)).await, 0);
    let mut received = Vec::new();
    for _ in 0..10 {
        received.push(next(&mut receiver).await);
    }
    let ids: BTreeSet<&String> = received.iter().map(|(id, _)| id).collect();
    assert_eq!((ids.len(), receiver.try_recv().ok()), (10, None));
    let mut kinds: Vec<String> = received
        .iter()
        .map(|(_, body)| {
            let trial = body["data"]["trial"]["id"].as_str().unwrap_or_default();
            format!("{} {} {trial}", body["type"].as_str().unwrap(), body["data"]["job"].as_str().unwrap())
        })
        .collect();
    // Events of the same time have no order.
    kinds.sort_unstable();
    let census = "projects/local/jobs/census";
    let expected = [
        format!("job.created {census} "),
        "job.created projects/local/jobs/other ".to_owned(),
        format!("job.started {census} "),
        format!("job.succeeded {census} "),
        format!("trial.best {census} 1"),
        format!("trial.best {census} 4"),
        format!("trial.completed {census} 1"),
        format!("trial.completed {census} 2"),
        format!("trial.completed {census} 4"),
        format!("trial.failed {census} 3"),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(received.last().unwrap().1["type"], "job.succeeded");
    let failed = received.iter().find(|(_, body)| body["type"] == "trial.failed").unwrap();
    assert_eq!(failed.1["data"]["trial"]["message"], "exit status 1");
    let best = received.iter().rfind(|(_, body)| body["type"] == "trial.best").unwrap();
    assert_eq!(best.1["data"]["labels"], serde_json::json!({"owner": "someone"}));
    assert_eq!(best.1["data"]["trial"]["metrics"]["accuracy"], 0.75);
    assert_eq!(best.1["data"]["trial"]["parameters"]["rate"], 0.1 / 3.0);
}

#[tokio::test]
async fn failures_are_repeated_refusals_let_others_pass_and_redirects_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hidden = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let redirect = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{}/\r\nConnection: close\r\n\r\n",
        hidden.local_addr().unwrap()
    );
    let refusal = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let later = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let respond = move |number| match number {
        0 => redirect.clone(),
        1 => later.to_owned(),
        2 => refusal.to_owned(),
        _ => OK.to_owned(),
    };
    let (mut receiver, _) = receiver(listener, respond).await;
    let webhook = webhook(address, &["job.*"], Some("project = local AND labels.owner = someone"));
    let (webhooks, observed, _) = start(&store, folder.path(), &webhook);
    compared(&webhooks).await;
    run_job(&*observed, "census").await;
    assert_eq!(webhooks.drain(Duration::from_secs(30)).await, 0);
    let mut received = Vec::new();
    for _ in 0..6 {
        let (id, body) = next(&mut receiver).await;
        received.push((id, body["type"].as_str().unwrap().to_owned()));
    }
    let kinds: Vec<&str> = received.iter().map(|(_, kind)| kind.as_str()).collect();
    // The refused event is repeated after the others.
    assert_eq!(kinds, ["job.created", "job.created", "job.created", "job.started", "job.succeeded", "job.created"]);
    let ids: BTreeSet<&String> = received.iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 3);
    let followed = tokio::time::timeout(Duration::ZERO, hidden.accept()).await;
    assert!(followed.is_err());
}

#[tokio::test]
async fn studies_without_jobs_have_events_after_the_first_webhook() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let id: StudyId = "team/here/tuned".parse().unwrap();
    let sample = samples::study("team/here/tuned");
    let former =
        StudyFields { id: "team/here/former".parse().unwrap(), create_time: samples::at(-9), ..(*sample).clone() };
    let former_id = former.id.clone();
    store.create_study(Study::restore(former)).await.unwrap();
    store.change_study(&former_id, StudyChange::Complete { reason: "old".into() }).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let webhook = webhook(listener.local_addr().unwrap(), &["study.*", "trial.best"], None);
    let (mut receiver, _) = receiver(listener, |_| OK.to_owned()).await;
    let (webhooks, observed, _) = start(&store, folder.path(), &webhook);
    compared(&webhooks).await;
    let created = StudyFields { create_time: samples::at(0), ..(*sample).clone() };
    observed.create_study(Study::restore(created)).await.unwrap();
    run_trial(&*observed, &id, 1, Some(0.5)).await;
    assert_eq!(webhooks.drain(Duration::from_secs(30)).await, 0);
    for reason in ["first", "second"] {
        observed.change_study(&id, StudyChange::Complete { reason: reason.into() }).await.unwrap();
        assert_eq!(webhooks.drain(Duration::from_secs(30)).await, 0);
        observed.change_study(&id, StudyChange::Reopen).await.unwrap();
        assert_eq!(webhooks.drain(Duration::from_secs(30)).await, 0);
    }
    let mut ids = BTreeSet::new();
    for (kind, message) in [
        ("study.created", None),
        ("trial.best", None),
        ("study.completed", Some("first")),
        ("study.completed", Some("second")),
    ] {
        let (id, body) = next(&mut receiver).await;
        assert_eq!((body["type"].as_str(), body["data"]["message"].as_str()), (Some(kind), message));
        assert_eq!(body["data"]["study"], "projects/team/locations/here/studies/tuned");
        ids.insert(id);
    }
    assert_eq!((ids.len(), receiver.try_recv().ok()), (4, None));
}
