//! Acknowledged changes survive when the server is killed under load, and no trial is assigned twice.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Client;
use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::server::Server;

/// Number of kills, unless set by `TUNESMITH_SERVICE_CRASH_ROUNDS`.
const ROUNDS: usize = 40;

const CLIENTS: usize = 50;

const STUDIES: &str = "v1/projects/p/locations/l/studies";

/// The responses to clients, by trial number.
#[derive(Default)]
pub(crate) struct Acknowledged {
    pub(crate) given: BTreeMap<String, (String, Value)>,
    pub(crate) completed: BTreeMap<String, f64>,
    pub(crate) reported: BTreeMap<String, usize>,
}

impl Acknowledged {
    /// Checks that `trials`, which a server has returned, contain all that was acknowledged.
    pub(crate) fn check(&self, trials: &[Value]) {
        let mut open = BTreeMap::new();
        for (number, trial) in (1..).zip(trials) {
            let id = number.to_string();
            assert_eq!(trial["name"], format!("projects/p/locations/l/studies/s/trials/{id}"), "numbers have no gaps");
            if let Some((client, parameters)) = self.given.get(&id) {
                assert_eq!((trial["clientId"].as_str(), &trial["parameters"]), (Some(client.as_str()), parameters));
            }
            if let Some(value) = self.completed.get(&id) {
                assert_eq!(trial["finalMeasurement"]["metrics"][0]["value"], *value, "trial {id}");
            }
            let stored = trial["measurements"].as_array().map_or(0, Vec::len);
            let reported = self.reported.get(&id).copied().unwrap_or(0);
            assert!(stored >= reported, "trial {id}: {reported} reports were acknowledged, {stored} are stored");
            if trial["state"] == "ACTIVE" {
                let other = open.insert(trial["clientId"].as_str().unwrap().to_owned(), id);
                assert_eq!(other, None, "a client has one trial at a time");
            }
        }
        let last = self.given.keys().filter_map(|id| id.parse::<usize>().ok()).max().unwrap();
        assert!(trials.len() >= last, "trial {last} was assigned and is missing");
    }
}

#[test]
fn acknowledged_changes_survive_kills_under_load() {
    let rounds = std::env::var("TUNESMITH_SERVICE_CRASH_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let workspace = Workspace::new("");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let acknowledged = Mutex::new(Acknowledged::default());
    let server = Server::start(&workspace, &[]);
    let study = json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
        "algorithm": "RANDOM_SEARCH",
    }});
    assert_eq!(server.post(&format!("/{STUDIES}?studyId=s"), &study).0, 200);
    server.kill();
    for round in 0..rounds {
        let server = Server::start(&workspace, &[]);
        runtime.block_on(load(server, round, &acknowledged));
    }
    let server = Server::start(&workspace, &[]);
    let trials = server.get(&format!("/{STUDIES}/s/trials")).1["trials"].as_array().unwrap().clone();
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.completed.len() >= rounds, "the load was too low: {} completed", acknowledged.completed.len());
    acknowledged.check(&trials);
    let Acknowledged { given, completed, reported } = &acknowledged;
    let count = given.len() + completed.len() + reported.len();
    println!("figures: {rounds} kills of a server under load, {count} changes acknowledged, 0 lost");
}

#[test]
fn change_repeated_after_an_abandoned_request_has_one_effect() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let json_type = "content-type: application/json\r\n";
    let study = json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
    }});
    let (studies, trials) = (format!("/{STUDIES}"), format!("/{STUDIES}/s/trials"));
    let metrics = json!([{"metric": "loss", "value": 0.5}]);
    let measurement = json!({"measurement": {"stepCount": "1", "metrics": metrics}});
    let changes = [
        ("POST", format!("{studies}?studyId=s"), study, 409),
        ("POST", trials.clone(), json!({"parameters": [{"parameter": "x", "floatValue": 0.25}]}), 200),
        ("POST", format!("{trials}:suggest"), json!({"suggestionCount": 2, "clientId": "c"}), 200),
        ("POST", format!("{trials}/1:addMeasurement"), measurement, 200),
        ("POST", format!("{trials}/2:stop"), json!({}), 200),
        ("POST", format!("{trials}/1:complete"), json!({"finalMeasurement": {"metrics": metrics}}), 200),
        ("DELETE", format!("{trials}/2"), json!({}), 404),
    ];
    for (number, (method, path, body, again)) in changes.iter().enumerate() {
        let headers = format!("{json_type}idempotency-key: change-{number}\r\n");
        server.abandon(method, path, &headers, &body.to_string());
        // The abandoned request takes effect before or after this one.
        let (first, _) = server.send(method, path, &headers, &body.to_string());
        let (second, answer) = server.send(method, path, &headers, &body.to_string());
        assert!(first == 200 || first == *again, "{method} {path}: {first}");
        assert_eq!(second, *again, "{method} {path}: {answer}");
        if path.ends_with(":suggest") {
            server.wait(answer);
        }
    }
    let (_, stored) = server.get(&trials);
    let stored = stored["trials"].as_array().unwrap();
    assert_eq!(stored.len(), 1, "{stored:?}");
    assert_eq!((&stored[0]["state"], &stored[0]["parameters"][0]["floatValue"]), (&json!("COMPLETED"), &json!(0.25)));
    assert_eq!(stored[0]["measurements"].as_array().map(Vec::len), Some(1));
}

/// Runs clients until the server is killed, after a number of responses that differs from round to round.
async fn load(server: Server, round: usize, acknowledged: &Mutex<Acknowledged>) {
    let answers = AtomicUsize::new(0);
    let (enough, reached) = (60 + 37 * round % 151, tokio::sync::Notify::new());
    let address = server.address;
    // The client requires a provider although no request is encrypted. Another test may have installed it already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = Client::new();
    let work = (0..CLIENTS).map(|number| {
        let (client, answers, reached) = (client.clone(), &answers, &reached);
        async move {
            let name = format!("client-{number}");
            // The end of the server ends the round.
            while let Some(()) = pair(&client, address, &name, acknowledged).await {
                if answers.fetch_add(1, Ordering::Relaxed) == enough {
                    reached.notify_one();
                }
            }
        }
    });
    let killer = async {
        reached.notified().await;
        tokio::task::spawn_blocking(move || server.kill()).await.unwrap();
    };
    tokio::join!(futures::future::join_all(work), killer);
}

/// Requests a trial, reports on it and completes it; `None` if the server does not respond.
async fn pair(client: &Client, address: SocketAddr, name: &str, acknowledged: &Mutex<Acknowledged>) -> Option<()> {
    let request = json!({"suggestionCount": 1, "clientId": name});
    let operation = post(client, address, &format!("{STUDIES}/s/trials:suggest"), &request).await?;
    if operation["done"] != json!(true) {
        // The trial belongs to the client, which requests it again.
        return Some(());
    }
    let trial = &operation["response"]["trials"][0];
    let trial_name = trial["name"].as_str().unwrap();
    let id = trial_name.rsplit('/').next().unwrap().to_owned();
    let given = (name.to_owned(), trial["parameters"].clone());
    let before = acknowledged.lock().unwrap().given.insert(id.clone(), given.clone());
    assert!(before.is_none_or(|before| before == given), "trial {id} was assigned to two clients");
    let value = trial["parameters"][0]["floatValue"].as_f64().unwrap();
    let metrics = json!([{"metric": "loss", "value": value}]);
    let measurement = json!({"measurement": {"stepCount": "1", "metrics": metrics}});
    post(client, address, &format!("v1/{trial_name}:addMeasurement"), &measurement).await?;
    acknowledged.lock().unwrap().reported.insert(id.clone(), 1);
    let completion = json!({"finalMeasurement": {"stepCount": "2", "metrics": metrics}});
    post(client, address, &format!("v1/{trial_name}:complete"), &completion).await?;
    acknowledged.lock().unwrap().completed.insert(id, value);
    Some(())
}

async fn post(client: &Client, address: SocketAddr, path: &str, body: &Value) -> Option<Value> {
    let answer = client.post(format!("http://{address}/{path}")).json(body).send().await.ok()?;
    let status = answer.status();
    let body: Value = answer.json().await.ok()?;
    assert!(status.is_success(), "{path}: {status}: {body}");
    Some(body)
}
