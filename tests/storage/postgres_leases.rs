//! Leases of trials on a database that several servers share.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::postgres::Cluster;
use tunesmith_testing::server::Server;

const STUDIES: &str = "/v1/projects/p/locations/l/studies";

/// Number of servers that start beside a busy one.
const STARTS: usize = 8;

/// Number of clients.
const CLIENTS: usize = 6;

fn create_study(server: &Server, id: &str) {
    let study = json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
        "algorithm": "RANDOM_SEARCH",
        // Shorter than most starts, so that leases end all the time.
        "tunesmith": {"trialLease": "0.2s"},
    }});
    let (status, answer) = server.post(&format!("{STUDIES}?studyId={id}"), &study);
    assert_eq!(status, 200, "{answer}");
}

fn suggest(server: &Server, study: &str, client: &str) -> Value {
    let request = json!({"suggestionCount": 1, "clientId": client});
    let (status, operation) = server.post(&format!("{STUDIES}/{study}/trials:suggest"), &request);
    assert_eq!(status, 200, "{operation}");
    server.wait(operation)["response"]["trials"][0].clone()
}

#[test]
fn servers_start_beside_one_whose_trials_end_and_vanish_meanwhile() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let busy = Cluster::serve_in(&workspace.path().join("busy"), &address, &[]);
    create_study(&busy, "s");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (busy, is_over) = (&busy, &is_over);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let trial = suggest(busy, "s", &format!("client-{client}-{number}"));
                    let name = trial["name"].as_str().unwrap();
                    match number % 3 {
                        // It ends, it vanishes, or its client is silent.
                        0 => {
                            let result = json!({"finalMeasurement": {"metrics": [{"metric": "loss", "value": 0.5}]}});
                            busy.post(&format!("/v1/{name}:complete"), &result);
                        }
                        1 => drop(busy.send("DELETE", &format!("/v1/{name}"), "", "")),
                        _ => {}
                    }
                }
            });
        }
        for number in 0..STARTS {
            // It panics if the server does not start.
            let other = Cluster::serve_in(&workspace.path().join(format!("other-{number}")), &address, &[]);
            assert_eq!(other.text("GET", "/readyz").0, 200);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
