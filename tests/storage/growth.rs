//! Costs of requests that do not grow with the size of a study or a curve.

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::server::Server;
use tunesmith_testing::usage::status_kib;

const STUDIES: &str = "/v1/projects/p/locations/l/studies";
const STUDY: &str = "/v1/projects/p/locations/l/studies/s";

fn study(algorithm: &str, metrics: &[&str]) -> Value {
    let metrics: Vec<Value> = metrics.iter().map(|metric| json!({"metric": metric, "goal": "MINIMIZE"})).collect();
    json!({"studyConfig": {
        "metrics": metrics,
        "algorithm": algorithm,
        "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
        "tunesmith": {"seed": "3"},
    }})
}

fn measurement(step: u32) -> Value {
    json!({"stepCount": step.to_string(), "metrics": [{"metric": "loss", "value": 1.0 / f64::from(step)}]})
}

#[test]
fn answer_to_a_report_does_not_grow_with_the_curve() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.post(&format!("{STUDIES}?studyId=s"), &study("RANDOM_SEARCH", &["loss"])).0, 200);
    let suggestion = json!({"clientId": "c", "suggestionCount": 1});
    let suggested = server.wait(server.post(&format!("{STUDY}/trials:suggest"), &suggestion).1);
    let trial = suggested["response"]["trials"][0]["name"].as_str().unwrap();
    let report = |step: u32| {
        let (status, answer) =
            server.post(&format!("/v1/{trial}:addMeasurement"), &json!({"measurement": measurement(step)}));
        assert_eq!(status, 200, "{answer}");
        answer
    };
    for step in 1..=100 {
        let answer = report(step);
        assert_eq!(answer["measurements"].as_array().unwrap().len(), step as usize);
        assert_eq!(answer["tunesmith"]["omittedMeasurements"], Value::Null);
    }
    let first = report(101);
    assert_eq!(first["measurements"], Value::Null, "{first}");
    assert_eq!(first["tunesmith"]["omittedMeasurements"], "101");
    for step in 102..150 {
        report(step);
    }
    let last = report(150);
    assert_eq!(last["tunesmith"]["omittedMeasurements"], "150");
    assert_eq!(last.to_string().len(), first.to_string().len());
    let whole = server.get(&format!("/v1/{trial}")).1;
    let steps: Vec<&Value> = whole["measurements"].as_array().unwrap().iter().map(|each| &each["stepCount"]).collect();
    assert_eq!(steps, (1..=150).map(|step| json!(step.to_string())).collect::<Vec<_>>().iter().collect::<Vec<_>>());
    assert_eq!(server.get(&format!("{STUDY}/trials")).1["trials"], json!([whole]));
    let completed = server.post(&format!("/v1/{trial}:complete"), &json!({})).1;
    assert_eq!(completed["finalMeasurement"], measurement(150), "{completed}");
    assert_eq!(completed["measurements"], whole["measurements"]);
}

#[test]
fn list_of_many_trials_is_sent_in_parts() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.post(&format!("{STUDIES}?studyId=s"), &study("RANDOM_SEARCH", &["loss"])).0, 200);
    assert_eq!(server.get(&format!("{STUDY}/trials")).1, json!({}));
    let suggestion = json!({"clientId": "c", "suggestionCount": 1000});
    let suggested = server.wait(server.post(&format!("{STUDY}/trials:suggest"), &suggestion).1);
    let trials = &suggested["response"]["trials"];
    assert_eq!(trials.as_array().unwrap().len(), 1000);
    let (status, text) = server.text("GET", &format!("{STUDY}/trials"));
    assert_eq!(status, 200);
    assert!(text.len() > 200_000, "{}", text.len());
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["trials"], *trials);
    // Deleted trials are left out, also where a whole page of them is.
    for number in (2..=420).chain([1000]) {
        assert_eq!(server.send("DELETE", &format!("{STUDY}/trials/{number}"), "", "").0, 200);
    }
    let left = server.get(&format!("{STUDY}/trials")).1;
    let expected: Vec<&Value> = trials
        .as_array()
        .unwrap()
        .iter()
        .take(999)
        .enumerate()
        .filter(|(i, _)| *i == 0 || *i >= 420)
        .map(|(_, t)| t)
        .collect();
    assert_eq!(left["trials"].as_array().unwrap().iter().collect::<Vec<_>>(), expected);
    assert_eq!(server.get(&format!("{STUDIES}/none/trials")).0, 404);
}

#[test]
fn readers_of_a_long_list_share_no_copies_of_it() {
    const READERS: usize = 12;
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.post(&format!("{STUDIES}?studyId=s"), &study("RANDOM_SEARCH", &["loss"])).0, 200);
    for client in 0..3 {
        // A long name makes a long list.
        let suggestion = json!({"clientId": format!("{client:01000}"), "suggestionCount": 1000});
        server.wait(server.post(&format!("{STUDY}/trials:suggest"), &suggestion).1);
    }
    let process = server.process_id();
    // Resets the highest resident memory.
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").unwrap();
    let before = status_kib(process, "VmRSS");
    let readers: Vec<_> = (0..READERS).map(|_| server.begin(&format!("{STUDY}/trials"))).collect();
    let lists: Vec<String> = readers.into_iter().map(Server::rest).collect();
    // The two counters are updated at different times, so that the highest value may lie slightly below the earlier one.
    let more = status_kib(process, "VmHWM").saturating_sub(before);
    let list: Value = serde_json::from_str(&lists[0]).unwrap();
    assert_eq!(list["trials"].as_array().unwrap().len(), 3000);
    assert!(lists.iter().all(|other| *other == lists[0]));
    let whole = READERS * lists[0].len() / 1024;
    assert!((more as usize) < whole / 2, "{more} KiB for {READERS} lists of {whole} KiB");
}

#[test]
fn optimal_trials_follow_new_results_and_deletions() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    for (name, metrics) in [("one", &["loss"][..]), ("two", &["loss", "time"])] {
        let path = format!("{STUDIES}/{name}");
        assert_eq!(server.post(&format!("{STUDIES}?studyId={name}"), &study("RANDOM_SEARCH", metrics)).0, 200);
        let optimal = || -> Vec<u64> {
            let answer = server.post(&format!("{path}/trials:listOptimalTrials"), &json!({})).1;
            let number = |trial: &Value| trial["name"].as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap();
            answer["trials"].as_array().into_iter().flatten().map(number).collect()
        };
        assert_eq!(optimal(), [] as [u64; 0]);
        let add = |loss: f64, time: f64| {
            let values = json!([{"metric": "loss", "value": loss}, {"metric": "time", "value": time}]);
            let trial = json!({
                "parameters": [{"parameter": "x", "floatValue": 0.5}],
                "finalMeasurement": {"metrics": values.as_array().unwrap()[..metrics.len()]},
            });
            assert_eq!(server.post(&format!("{path}/trials"), &trial).0, 200);
        };
        for (loss, time) in [(3.0, 1.0), (2.0, 2.0), (2.0, 2.0), (2.5, 2.5)] {
            add(loss, time);
        }
        let is_single = metrics.len() == 1;
        assert_eq!(optimal(), if is_single { vec![2] } else { vec![2, 3, 1] });
        add(1.0, 1.5);
        assert_eq!(optimal(), if is_single { vec![5] } else { vec![5, 1] });
        assert_eq!(server.send("DELETE", &format!("{path}/trials/5"), "", "").0, 200);
        assert_eq!(optimal(), if is_single { vec![2] } else { vec![2, 3, 1] });
    }
}
