//! The views of a study: their content, filters, roles, and what a client that has them gets.

use serde_json::{Value, json};
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished};

const STUDY: &str = "/v1/projects/p/locations/l/studies/s";

/// The views of one metric that need nothing else.
const VIEWS: [&str; 11] = [
    "history",
    "parallelCoordinates",
    "slice",
    "contour",
    "rank",
    "paretoFront",
    "distribution",
    "learningCurves",
    "timeline",
    "importance",
    "trust",
];

fn study() -> Value {
    json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}, {"metric": "speed", "goal": "MAXIMIZE"}],
        "parameters": [
            {
                "parameter": "rate",
                "type": "DOUBLE",
                "scaleType": "UNIT_LOG_SCALE",
                "doubleValueSpec": {"minValue": 0.001, "maxValue": 1},
            },
            {"parameter": "<img src=x>", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["a b", "\"ü\""]}},
        ],
        "algorithm": "RANDOM_SEARCH",
    }})
}

fn loss(index: u32) -> f64 {
    let rate: f64 = rate(index);
    (rate.ln() + 3.0).powi(2) / 10.0 + f64::from(index % 2)
}

fn rate(index: u32) -> f64 {
    0.001 * 1.19_f64.powi(index as i32 % 39)
}

/// A result of trial `index`.
fn result(index: u32) -> Value {
    json!({"stepCount": 9, "metrics": [
        {"metric": "loss", "value": loss(index)},
        {"metric": "speed", "value": f64::from(index)},
    ]})
}

/// Adds the trials 1 to 39, of which each fourth has failed, and trial 40, which runs and has five measurements.
fn fill(server: &Server) {
    assert_eq!(server.post("/v1/projects/p/locations/l/studies?studyId=s", &study()).0, 200);
    for index in 1..40 {
        let level = if index % 2 == 0 { "a b" } else { "\"ü\"" };
        let mut trial = json!({"parameters": [
            {"parameter": "rate", "floatValue": rate(index)},
            {"parameter": "<img src=x>", "stringValue": level},
        ]});
        if index % 4 == 0 {
            trial["trialInfeasible"] = json!(true);
            trial["infeasibleReason"] = json!("out of <b>memory</b>");
        } else {
            trial["finalMeasurement"] = result(index);
        }
        let (status, answer) = server.post(&format!("{STUDY}/trials"), &trial);
        assert_eq!(status, 200, "{answer}");
    }
    let request = json!({"suggestionCount": 1, "clientId": "worker-1"});
    server.wait(server.post(&format!("{STUDY}/trials:suggest"), &request).1);
    for step in 1..=5 {
        let metrics = json!([{"metric": "loss", "value": 1.0 / f64::from(step)}, {"metric": "speed", "value": 1}]);
        let measurement = json!({"measurement": {"stepCount": step, "metrics": metrics}});
        assert_eq!(server.post(&format!("{STUDY}/trials/40:addMeasurement"), &measurement).0, 200);
    }
}

/// The answer with the view `name`, which is a name with query parameters.
#[track_caller]
fn view(server: &Server, name: &str) -> Value {
    let (status, answer) = server.get(&format!("{STUDY}/views/{name}"));
    assert_eq!(status, 200, "{answer}");
    answer
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

#[test]
fn views_show_the_trials_that_the_filter_accepts() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    fill(&server);
    let measured: Vec<u32> = (1..40).filter(|index| index % 4 != 0).collect();
    let best = *measured.iter().min_by(|a, b| loss(**a).total_cmp(&loss(**b))).unwrap();

    let history = view(&server, "history");
    assert_eq!((&history["total"], &history["matched"]), (&json!(40), &json!(40)));
    let history = &history["view"];
    assert_eq!(history["measured"], 30);
    assert_eq!(
        numbers(&history["points"]["trials"]),
        measured.iter().map(|index| f64::from(*index)).collect::<Vec<_>>()
    );
    assert_eq!(numbers(&history["points"]["y"])[0], loss(1));
    assert_eq!(numbers(&history["improvements"]["trials"]).last(), Some(&f64::from(best)));

    let filter = encoded("parameters.\"<img src=x>\" = \"a b\" AND metric.loss < 1 AND NOT state = INFEASIBLE");
    let filtered = view(&server, &format!("history?filter={filter}"));
    let expected: Vec<f64> =
        measured.iter().filter(|index| *index % 2 == 0 && loss(**index) < 1.0).map(|index| f64::from(*index)).collect();
    assert_eq!(numbers(&filtered["view"]["points"]["trials"]), expected);
    assert_eq!(filtered["matched"].as_u64().unwrap() as usize, expected.len());

    let lines = &view(&server, "parallelCoordinates")["view"];
    assert_eq!(lines["trials"][0], best);
    let level = lines["dimensions"].as_array().unwrap().iter().find(|axis| axis["kind"] == "LEVEL").unwrap();
    assert_eq!((&level["name"], &level["levels"]), (&json!("<img src=x>"), &json!(["a b", "\"ü\""])));
    let slice = &view(&server, "slice?parameter=rate")["view"];
    assert_eq!((&slice["parameter"]["isLog"], slice["measured"].as_u64()), (&json!(true), Some(30)));
    let contour = &view(&server, &format!("contour?x=rate&y={}", encoded("<img src=x>")))["view"];
    assert_eq!(numbers(&contour["counts"]).iter().sum::<f64>(), 30.0);
    let front = &view(&server, "paretoFront?x=loss&y=speed")["view"];
    let dominates = |a: u32, b: u32| loss(a) <= loss(b) && a > b;
    let expected = measured.iter().filter(|b| !measured.iter().any(|a| dominates(*a, **b))).count();
    assert_eq!(front["frontSize"].as_u64().unwrap() as usize, expected);
    let distribution = &view(&server, "distribution")["view"];
    assert_eq!(numbers(&distribution["values"])[0], loss(best));
    assert_eq!(numbers(&distribution["shares"]).last(), Some(&1.0));
    let rank = &view(&server, "rank")["view"];
    assert_eq!((&rank["points"]["trials"][0], &rank["ranks"][0]), (&json!(best), &json!(0.0)));
    let curves = &view(&server, "learningCurves")["view"];
    let running = curves["curves"].as_array().unwrap().iter().find(|curve| curve["trial"] == 40).unwrap();
    assert_eq!(numbers(&running["values"]), [1.0, 0.5, 1.0 / 3.0, 0.25, 0.2]);
    let timeline = &view(&server, "timeline?filter=clientId:worker-1")["view"];
    assert_eq!((&timeline["started"], &timeline["lanes"][0]["ends"]), (&json!(1), &json!([null])));
    let importance = &view(&server, "importance")["view"];
    assert_eq!(importance["parameters"].as_array().unwrap().len(), 2);
    let trust = &view(&server, "trust")["view"];
    assert_eq!(trust["observed"].as_array().unwrap().len(), trust["modelled"].as_u64().unwrap() as usize);
    assert_eq!(trust["best"][0]["trial"], best);

    let page = view(&server, &format!("table?orderBy={}&offset=1&limit=2", encoded("metric.speed desc")));
    let ids: Vec<u64> =
        page["view"]["rows"].as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [38, 37]);
    assert_eq!(page["view"]["rows"][0]["parameters"]["rate"], rate(38));
    assert_eq!(page["view"]["rows"][0]["metrics"]["loss"], loss(38));

    let (status, list) = server.get(&format!("{STUDY}/trials?filter={}", encoded("id >= 39")));
    let names: Vec<&str> =
        list["trials"].as_array().unwrap().iter().map(|trial| trial["name"].as_str().unwrap()).collect();
    assert_eq!(status, 200);
    assert!(names[0].ends_with("/trials/39") && names[1].contains("/trials/40") && names.len() == 2, "{names:?}");
    let url = format!("http://{}", server.address);
    let mut command = workspace.command();
    command.args(["trials", "list", "--study", "s", "--region", "l", "--project", "p", "--server", &url]);
    command.args(["--format", "json", "--filter", "state = SUCCEEDED AND id < 4"]);
    let listed = finished(command.output().unwrap()).expect(0).stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 3);
}

#[test]
fn bad_queries_are_refused_with_the_place() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.post("/v1/projects/p/locations/l/studies?studyId=s", &study()).0, 200);
    let refused = |name: &str| {
        let (status, answer) = server.get(&format!("{STUDY}/views/{name}"));
        (status, answer["error"]["message"].as_str().unwrap_or_default().to_owned())
    };
    for (query, message) in [
        (
            "state = DONE",
            "filter: column 9: found DONE; state is one of REQUESTED, ACTIVE, STOPPING, SUCCEEDED, INFEASIBLE",
        ),
        ("metric.acc > 1", "filter: column 1: found the field metric.acc; allowed: metric.loss, metric.speed"),
        ("id > 1 AND", "filter: column 11: found the end; expected a field, NOT or ("),
    ] {
        for view in VIEWS.iter().chain(&["table"]) {
            assert_eq!(refused(&format!("{view}?filter={}", encoded(query))), (400, message.to_owned()), "{view}");
        }
        assert_eq!(server.get(&format!("{STUDY}/trials?filter={}", encoded(query))).0, 400);
    }
    for (name, message) in [
        ("history?points=3", "points: is 3, must be from 10 to 20000"),
        ("history?metric=acc", "metric: \"acc\" is not a metric of the study; allowed: \"loss\", \"speed\""),
        ("slice?parameter=x", "parameter: \"x\" is not a parameter of the study; allowed: \"rate\", \"<img src=x>\""),
        ("contour?y=x", "y: \"x\" is not a parameter of the study; allowed: \"rate\", \"<img src=x>\""),
        ("paretoFront?y=x", "y: \"x\" is not a metric of the study; allowed: \"loss\", \"speed\""),
        ("table?limit=-1", "limit: -1 is negative"),
        (
            "table?orderBy=nothing",
            "orderBy: \"nothing\" is not a field of trials, as in \"metric.loss desc\"; allowed are those of filters",
        ),
        ("timeline?metric=loss", "metric: unknown name \"metric\": this method has no such query parameter"),
    ] {
        assert_eq!(refused(name), (400, message.to_owned()), "{name}");
    }
    assert_eq!(refused("nothing").0, 404);
    let (status, message) = refused("trust");
    assert_eq!((status, message.as_str()), (400, "\"loss\" was measured at 0 different points, and 5 are needed"));
}

#[test]
fn poll_without_news_is_not_answered_with_the_view_again() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    fill(&server);
    for name in VIEWS.iter().chain(&["table"]) {
        let path = format!("{STUDY}/views/{name}?prettyPrint=false");
        let etag = server.header("GET", &path, "etag").unwrap();
        let known = format!("if-none-match: \"other\", {etag}\r\n");
        assert_eq!(server.exchange("GET", &path, &known, ""), (304, String::new()), "{name}");
        assert_eq!(server.exchange("GET", &path, "if-none-match: \"other\"\r\n", "").0, 200, "{name}");
    }
    // A compressed response has the same weak tag.
    let path = format!("{STUDY}/views/table");
    let etag = server.header("GET", &path, "etag").unwrap();
    let gzip = "accept-encoding: gzip\r\n";
    let (head, body) = server.bytes("GET", &path, gzip);
    assert!(head.lines().any(|line| line == "content-encoding: gzip") && body.starts_with(&[0x1f, 0x8b]), "{head}");
    assert!(etag.starts_with("W/") && head.lines().any(|line| line == format!("etag: {etag}")), "{etag} {head}");
    for headers in ["", gzip] {
        for known in [&etag, etag.trim_start_matches("W/"), "*"] {
            let headers = format!("{headers}if-none-match: {known}\r\n");
            assert_eq!(server.exchange("GET", &path, &headers, ""), (304, String::new()), "{headers}");
        }
    }
    let path = format!("{STUDY}/views/history");
    let known = format!("if-none-match: {}\r\n", server.header("GET", &path, "etag").unwrap());
    assert_eq!(server.post(&format!("{STUDY}/trials/40:complete"), &json!({"finalMeasurement": result(40)})).0, 200);
    let (status, history) = server.send("GET", &path, &known, "");
    assert_eq!((status, &history["view"]["measured"]), (200, &json!(31)));
}

#[test]
fn views_require_the_permission_to_list_trials() {
    let workspace = Workspace::new("");
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer@p"]);
    let stranger = token(&workspace, &["--principal", "user:other@x", "--role", "ml.admin@q"]);
    let developer = token(&workspace, &["--principal", "user:dev@x", "--role", "ml.developer@p"]);
    let server = Server::start(&workspace, &[]);
    let create = "/v1/projects/p/locations/l/studies?studyId=s";
    assert_eq!(server.send("POST", create, &bearer(&developer), &study().to_string()).0, 200);
    for name in ["history", "table", "timeline", "learningCurves"] {
        let path = format!("{STUDY}/views/{name}");
        let status = |headers: &str| server.send("GET", &path, headers, "").0;
        assert_eq!((status(""), status(&bearer(&stranger)), status(&bearer(&viewer))), (401, 403, 200), "{name}");
        assert_eq!(server.send("POST", &path, &bearer(&viewer), "").0, 405);
    }
}
