//! Acknowledged changes survive when servers on one database, and the database itself, are killed under load, and no trial
//! is assigned twice.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::postgres::Cluster;
use tunesmith_testing::server::Server;

use crate::service_crash::Acknowledged;

/// Number of kills, unless set by `TUNESMITH_DATABASE_CRASH_ROUNDS`.
const ROUNDS: usize = 4;

const SERVERS: usize = 3;
const CLIENTS: usize = 50;

/// The time after which a client sends another request in place of one without an answer, in seconds.
const PATIENCE: u64 = 60;

const STUDIES: &str = "v1/projects/p/locations/l/studies";

/// What the clients share.
struct Load {
    client: Client,
    /// The servers. One that is killed is replaced by the next one in its folder.
    addresses: Mutex<Vec<SocketAddr>>,
    acknowledged: Mutex<Acknowledged>,
    /// Receives one value for each completed trial.
    answers: mpsc::Sender<()>,
    has_ended: AtomicBool,
    /// Number of requests without an answer in `PATIENCE` seconds.
    unanswered: AtomicUsize,
}

#[test]
fn acknowledged_changes_survive_kills_of_servers_and_of_the_database() {
    let rounds = std::env::var("TUNESMITH_DATABASE_CRASH_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let cluster = Cluster::with_options(&["max_connections=200"]);
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let folder = |number: usize| -> PathBuf { workspace.path().join(format!("server{number}")) };
    let start = |number| Cluster::serve_in(&folder(number), &address, &[]);
    let mut servers: Vec<Server> = (0..SERVERS).map(start).collect();
    let study = json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
        "algorithm": "RANDOM_SEARCH",
    }});
    assert_eq!(servers[0].post(&format!("/{STUDIES}?studyId=s"), &study).0, 200);
    // The client requires a provider although no request is encrypted. Another test may have installed it already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let (answers, answered) = mpsc::channel();
    let load = Load {
        client: Client::builder().timeout(Duration::from_secs(PATIENCE)).build().unwrap(),
        addresses: Mutex::new(servers.iter().map(|server| server.address).collect()),
        acknowledged: Mutex::default(),
        answers,
        has_ended: AtomicBool::new(false),
        unanswered: AtomicUsize::new(0),
    };
    let (mut server_kills, mut database_kills) = (0, 0);
    std::thread::scope(|scope| {
        let load = &load;
        scope.spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(futures::future::join_all((0..CLIENTS).map(|number| load.run_client(number))));
        });
        for round in 0..rounds {
            // Those of before the kill are not counted.
            let _ = answered.try_iter().count();
            let enough = 12 + 7 * round % 31;
            assert_eq!(answered.iter().take(enough).count(), enough);
            if round % 4 == 3 {
                cluster.kill();
                cluster.restart();
                database_kills += 1;
            } else {
                let number = round * 7 % SERVERS;
                let fresh = servers.remove(number);
                fresh.kill();
                servers.insert(number, start(number));
                load.addresses.lock().unwrap()[number] = servers[number].address;
                server_kills += 1;
            }
        }
        let _ = answered.try_iter().count();
        assert_eq!(answered.iter().take(CLIENTS).count(), CLIENTS);
        load.has_ended.store(true, Ordering::Relaxed);
    });
    let unanswered = load.unanswered.load(Ordering::Relaxed);
    let acknowledged = load.acknowledged.into_inner().unwrap();
    for server in &servers {
        let trials = server.get(&format!("/{STUDIES}/s/trials")).1["trials"].as_array().unwrap().clone();
        acknowledged.check(&trials);
    }
    let Acknowledged { given, completed, reported } = &acknowledged;
    let count = given.len() + completed.len() + reported.len();
    println!(
        "figures: {server_kills} kills of servers and {database_kills} of the database under load, {count} changes \
         acknowledged, 0 lost; {unanswered} requests without an answer in {PATIENCE} s"
    );
}

impl Load {
    async fn run_client(&self, number: usize) {
        let name = format!("client-{number}");
        let mut sent = number;
        while !self.has_ended.load(Ordering::Relaxed) {
            if self.pair(&name, &mut sent).await.is_some() {
                // The test may have failed.
                let _ = self.answers.send(());
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Requests a trial, reports on it and completes it, each from another server; `None` after a request without success.
    async fn pair(&self, name: &str, sent: &mut usize) -> Option<()> {
        let request = json!({"suggestionCount": 1, "clientId": name});
        let mut operation = self.post(sent, &format!("{STUDIES}/s/trials:suggest"), &request).await?;
        while operation["done"] != json!(true) {
            operation = self.get(sent, &format!("v1/{}", operation["name"].as_str().unwrap())).await?;
        }
        let trial = &operation["response"]["trials"][0];
        let trial_name = trial["name"].as_str()?;
        let id = trial_name.rsplit('/').next().unwrap().to_owned();
        let given = (name.to_owned(), trial["parameters"].clone());
        let before = self.acknowledged.lock().unwrap().given.insert(id.clone(), given.clone());
        assert!(before.is_none_or(|before| before == given), "trial {id} was assigned to two clients");
        let value = trial["parameters"][0]["floatValue"].as_f64().unwrap();
        let metrics = json!([{"metric": "loss", "value": value}]);
        let measurement = json!({"measurement": {"stepCount": "1", "metrics": metrics}});
        self.post(sent, &format!("v1/{trial_name}:addMeasurement"), &measurement).await?;
        // The same report again has no effect.
        self.acknowledged.lock().unwrap().reported.insert(id.clone(), 1);
        let completion = json!({"finalMeasurement": {"stepCount": "2", "metrics": metrics}});
        self.post(sent, &format!("v1/{trial_name}:complete"), &completion).await?;
        self.acknowledged.lock().unwrap().completed.insert(id, value);
        Some(())
    }

    /// The address of the next server, after `sent` requests of a client.
    fn next(&self, sent: &mut usize) -> SocketAddr {
        *sent += 1;
        self.addresses.lock().unwrap()[*sent % SERVERS]
    }

    async fn post(&self, sent: &mut usize, path: &str, body: &Value) -> Option<Value> {
        let address = self.next(sent);
        self.answer(path, self.client.post(format!("http://{address}/{path}")).json(body)).await
    }

    async fn get(&self, sent: &mut usize, path: &str) -> Option<Value> {
        let address = self.next(sent);
        self.answer(path, self.client.get(format!("http://{address}/{path}"))).await
    }

    /// Sends `request`, and returns the body of a successful response; `None` if the server was killed, or has no database.
    async fn answer(&self, path: &str, request: RequestBuilder) -> Option<Value> {
        let answer = request.send().await;
        if answer.as_ref().is_err_and(reqwest::Error::is_timeout) {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        }
        success(path, answer.ok()?).await
    }
}

/// The body of `answer` if it is a success; `None` if the server was killed meanwhile, or has no database.
async fn success(path: &str, answer: Response) -> Option<Value> {
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.ok()?;
    if status == 200 {
        return Some(body);
    }
    // A trial that was completed without an answer is not the client's any more, and neither is its operation.
    let is_repeated = matches!(status, 400 | 404) && !path.ends_with(":suggest");
    // 504: a busy machine did not answer in time, and the request may still take effect.
    assert!(matches!(status, 409 | 503 | 504) || is_repeated, "{path}: {status}: {body}");
    None
}
