//! The best trial is one and the same in lists, pages, files and the analysis; studies are analysed alike through a server
//! and in the data folder.

use rustix::process::Signal;
use serde_json::{Value, json};
use tunesmith_testing::client::client;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished, program};

const STUDIES: &str = "/v1/projects/local/locations/local/studies";

fn two_metrics() -> Value {
    json!([{"metric": "error", "goal": "MINIMIZE"}, {"metric": "speed", "goal": "MAXIMIZE"}])
}

fn create(server: &Server, id: &str, metrics: &Value, more: &Value) {
    let parameters = json!([{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 100}}]);
    let mut config = json!({"metrics": metrics, "parameters": parameters});
    for (name, value) in more.as_object().unwrap() {
        config[name] = value.clone();
    }
    let (status, answer) = server.post(&format!("{STUDIES}?studyId={id}"), &json!({"studyConfig": config}));
    assert_eq!(status, 200, "{answer}");
}

/// Adds finished trials at x = 1, 2, ... with these results.
fn add(server: &Server, id: &str, metrics: &Value, results: &[&[f64]]) {
    for (index, values) in results.iter().enumerate() {
        let names = metrics.as_array().unwrap().iter();
        let values = names.zip(*values).map(|(metric, value)| json!({"metric": metric["metric"], "value": value}));
        let body = json!({
            "parameters": [{"parameter": "x", "floatValue": index as f64 + 1.0}],
            "finalMeasurement": {"metrics": values.collect::<Vec<_>>()},
        });
        let (status, answer) = server.post(&format!("{STUDIES}/{id}/trials"), &body);
        assert_eq!(status, 200, "{answer}");
    }
}

/// The numbers of the trials in `answer`, in their order.
fn numbers(answer: &Value) -> Vec<String> {
    let trials = answer["trials"].as_array().unwrap();
    trials.iter().map(|trial| trial["name"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()).collect()
}

fn page(server: &Server, path: &str) -> String {
    let (status, text) = server.text("GET", path);
    assert_eq!(status, 200, "{text}");
    text
}

#[test]
fn best_trial_of_two_metrics_is_the_best_by_the_first_one_everywhere() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    create(&server, "s", &two_metrics(), &json!({"algorithm": "RANDOM_SEARCH"}));
    // Trials 5 and 6 are dominated; 5 has the best error as well.
    let results: [&[f64]; 6] = [&[0.5125, 8.0], &[0.25, 3.0], &[0.3, 5.0], &[0.75, 9.0], &[0.25, 2.0], &[0.5125, 1.0]];
    add(&server, "s", &two_metrics(), &results);
    let (_, optimal) = server.post(&format!("{STUDIES}/s/trials:listOptimalTrials"), &json!({}));
    assert_eq!(numbers(&optimal), ["2", "3", "1", "4"]);

    for address in ["/console", "/console/jobs"] {
        let text = page(&server, address);
        assert!(
            text.contains(">0.25</span><span class=\"sub\">4 optimal trials") && !text.contains("0.5125"),
            "{address}: {text}"
        );
    }
    let summary = page(&server, "/console/projects/local/locations/local/studies/s");
    let headline = summary.split("<dt>Best result").nth(1).unwrap().split("</dd>").next().unwrap();
    assert!(headline.contains("minimize error<") && headline.contains(">0.25</span><small>"), "{headline}");
    assert!(headline.contains(">trial 2</a>, one of 4 optimal trials"), "{headline}");
    let table = summary.split("<h2>Best trials").nth(1).unwrap();
    let rows = table.split("<tbody>").nth(1).unwrap().split("</tbody>").next().unwrap();
    let first = |number: &str| rows.find(&format!("/trials/{number}\"")).unwrap_or_else(|| panic!("{rows}"));
    assert!(first("2") < first("3") && first("3") < first("1") && first("1") < first("4"), "{rows}");
    let (_, history) = server.get(&format!("{STUDIES}/s/views/history?metric=error"));
    assert_eq!(history["view"]["improvements"]["trials"], json!([1, 2]), "{history}");

    let target = format!("http://{}", server.address);
    let list = ["trials", "list", "--study", "s", "--optimal", "--format", "json"];
    let listed = client(&workspace, &list, &["--server", &target]).expect(0).stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(numbers(&json!({"trials": listed})), ["2", "3", "1", "4"]);
}

#[test]
fn trial_that_was_stopped_early_is_not_the_best_while_one_is_finished() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let metrics = json!([{"metric": "error", "goal": "MINIMIZE"}]);
    let more = json!({"algorithm": "RANDOM_SEARCH", "automatedStoppingConfig": {"medianAutomatedStoppingConfig": {}}});
    create(&server, "s", &metrics, &more);
    let (_, operation) =
        server.post(&format!("{STUDIES}/s/trials:suggest"), &json!({"clientId": "c", "suggestionCount": 1}));
    let trial = format!("/v1/{}", server.wait(operation)["response"]["trials"][0]["name"].as_str().unwrap());
    let early = json!({"measurement": {"stepCount": "1", "metrics": [{"metric": "error", "value": 0.125}]}});
    assert_eq!(server.post(&format!("{trial}:addMeasurement"), &early).0, 200);
    assert_eq!(server.post(&format!("{trial}:stop"), &json!({})).0, 200);
    let (_, stopped) = server.post(&format!("{trial}:complete"), &json!({}));
    assert_eq!(stopped["tunesmith"]["stoppedEarly"], true, "{stopped}");
    let best = || numbers(&server.post(&format!("{STUDIES}/s/trials:listOptimalTrials"), &json!({})).1);
    // Its last value is all there is.
    assert_eq!(best(), ["1"]);
    add(&server, "s", &metrics, &[&[0.75], &[0.5], &[0.625]]);
    assert_eq!(best(), ["3"]);
    let summary = page(&server, "/console/projects/local/locations/local/studies/s");
    assert!(summary.contains(">0.5</span><small>") && !summary.contains(">0.125<"), "{summary}");
    let (_, history) = server.get(&format!("{STUDIES}/s/views/history?metric=error"));
    assert_eq!(history["view"]["improvements"]["trials"], json!([2, 3]), "{history}");
    let (_, trials) = server.get(&format!("{STUDIES}/s/trials"));
    assert_eq!(trials["trials"].as_array().unwrap().len(), 4);
}

/// A configuration of a study without anything that may be left out.
const LEAST: &str = "
metrics: [{metric: error}]
parameters: [{parameter: x, type: DOUBLE, doubleValueSpec: {maxValue: 100}}]
";

#[test]
fn studies_of_every_client_are_explained_alike_by_a_server_and_in_the_data_folder() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let target = format!("http://{}", server.address);
    let one = json!([{"metric": "error"}]);
    create(&server, "rest", &one, &json!({}));
    create(&server, "two", &two_metrics(), &json!({}));
    create(&server, "seeded", &one, &json!({"tunesmith": {"seed": "5"}}));
    workspace.write("study.yaml", LEAST);
    let made = ["studies", "create", "cli", "--config", "study.yaml"];
    client(&workspace, &made, &["--server", &target]).expect(0);
    let python = "import sys\nsys.path.insert(0, sys.argv[2])\nimport tunesmith\n\
                  client = tunesmith.Client(sys.argv[1])\n\
                  client.create_study('python', metrics=[tunesmith.minimize('error')], \
                  parameters=[tunesmith.double('x', 0, 100)])\n";
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/python/src");
    let made = program("python3").args(["-c", python, &target, package]).output().unwrap();
    finished(made).expect(0);
    let studies = ["rest", "two", "seeded", "cli", "python"];
    for id in studies {
        let metrics = if id == "two" { two_metrics() } else { one.clone() };
        let value = |index: usize| [(index as f64 - 5.0).powi(2), index as f64];
        let results: Vec<[f64; 2]> = (0..12).map(value).collect();
        let results: Vec<&[f64]> = results.iter().map(|result| &result[..metrics.as_array().unwrap().len()]).collect();
        add(&server, id, &metrics, &results);
        // One that a client has, one that failed, one that waits.
        let suggest = json!({"clientId": "c", "suggestionCount": 1});
        let (_, operation) = server.post(&format!("{STUDIES}/{id}/trials:suggest"), &suggest);
        server.wait(operation);
        let point = |x: f64| json!([{"parameter": "x", "floatValue": x}]);
        let failed = json!({"parameters": point(70.0), "trialInfeasible": true});
        assert_eq!(server.post(&format!("{STUDIES}/{id}/trials"), &failed).0, 200);
        assert_eq!(server.post(&format!("{STUDIES}/{id}/trials"), &json!({"parameters": point(80.0)})).0, 200);
    }
    let commands = |id: &'static str| -> Vec<Vec<&'static str>> {
        vec![
            vec!["explain", "--study", id, "--json"],
            vec!["explain", "--study", id, "--slices"],
            vec!["trials", "list", "--study", id, "--format", "table"],
            vec!["trials", "export", "--study", id, "--format", "csv"],
            vec!["studies", "describe", id, "--format", "json"],
        ]
    };
    let run = |target: &[&str]| -> Vec<String> {
        let all = studies.iter().flat_map(|id| commands(id));
        all.map(|command| client(&workspace, &command, target).expect(0).stdout).collect()
    };
    let by_server = run(&["--server", &target]);
    let explained: Value = serde_json::from_str(&by_server[0]).unwrap();
    assert_eq!((&explained["study"], &explained["trials"]["measured"]), (&json!("rest"), &json!(12)), "{explained}");
    assert!(explained["seed"].as_str().is_some_and(|seed| seed.parse::<u64>().is_ok()), "{explained}");
    let seeded: Value = serde_json::from_str(&by_server[10]).unwrap();
    assert_eq!(seeded["seed"], "5");
    server.signal(Signal::TERM);
    assert_eq!(server.end(), Some(0));
    let by_folder = run(&["--data-dir", "data"]);
    for (one, other) in by_server.iter().zip(&by_folder) {
        assert_eq!(one, other);
    }
}
