//! Every page of the console, and the page of a report, is valid HTML.

use std::fs;

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::console::{JOBS, job, sign_in};
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;

use crate::console_scripts::Checker;

const CONFIG: &str = "resources:\n  cpus: 8\n  memory: 4GiB\n  devices:\n  - {id: '0', type: v100}\n  - {id: '1'}\n\
                      limits:\n  runningTrials: {project: 3}\n";

/// A job whose trials fail.
fn failing() -> Value {
    json!({
        "jobId": "failing",
        "trainingInput": {
            "hyperparameters": {
                "hyperparameterMetricTag": "loss", "maxTrials": 3, "maxFailedTrials": 2,
                "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}],
            },
            "masterConfig": {"containerCommand": ["sh", "-c", "echo '<b>' >&2; exit 3"]},
        },
    })
}

fn program(id: &str, command: &[&str]) -> Value {
    json!({"jobId": id, "trainingInput": {"masterConfig": {"containerCommand": command}}})
}

/// Pages under names of files.
#[derive(Default)]
struct Saved(Vec<(String, String)>);

impl Saved {
    fn get(&mut self, server: &Server, headers: &str, status: u16, path: &str) {
        let (found, page) = server.exchange("GET", path, headers, "");
        assert_eq!(found, status, "{path}: {page}");
        assert!(page.starts_with("<!doctype html>"), "{path}: {page}");
        self.0.push((format!("{:02}{}", self.0.len(), path.replace(['/', '?', '&'], "_")), page));
    }
}

#[test]
fn every_page_is_valid_html() {
    let mut saved = Saved::default();
    let workspace = Workspace::new("");
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let viewer = token(&workspace, &["--principal", "user:<img/src=x>", "--role", "ml.viewer@p"]);
    workspace.write("server.yaml", CONFIG);
    let server = Server::start(&workspace, &["--server-config", "server.yaml", "--job-slots", "1"]);
    let bearer_of_admin = bearer(&admin);
    let submit = |job: &Value, state: &str| {
        let id = job["jobId"].as_str().unwrap();
        assert_eq!(server.send("POST", JOBS, &bearer_of_admin, &job.to_string()).0, 200);
        until(|| {
            let (_, found) = server.send("GET", &format!("{JOBS}/{id}"), &bearer_of_admin, "");
            let is_final = ["SUCCEEDED", "FAILED", "CANCELLED"].iter().any(|ended| found["state"] == *ended);
            assert!(!is_final || found["state"] == state, "the job is not {state}: {found}");
            found["state"] == state
        });
    };
    submit(&job("first", 5), "SUCCEEDED");
    submit(&job("second", 5), "SUCCEEDED");
    submit(&failing(), "FAILED");
    submit(&program("plain", &["echo", "<b>"]), "SUCCEEDED");
    submit(&program("waits", &["tail", "-f", "/dev/null"]), "RUNNING");
    submit(&program("queued", &["true"]), "QUEUED");
    let study = json!({"studyConfig": {
        "metrics": [{"metric": "<b>\"", "goal": "MINIMIZE"},
                    {"metric": "latency", "goal": "MINIMIZE", "safetyConfig": {"safetyThreshold": 0.5}}],
        "parameters": [{"parameter": "a'&<i>", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["<u>", "y"]}}],
        "algorithm": "RANDOM_SEARCH",
    }});
    let trial = json!({
        "parameters": [{"parameter": "a'&<i>", "stringValue": "<u>"}],
        "finalMeasurement": {"metrics": [{"metric": "<b>\"", "value": 1}, {"metric": "latency", "value": 1}]},
    });
    let studies = "/v1/projects/p/locations/l/studies";
    for (path, body) in [(format!("{studies}?studyId=s"), &study), (format!("{studies}/s/trials"), &trial)] {
        assert_eq!(server.send("POST", &path, &bearer_of_admin, &body.to_string()).0, 200, "{path}");
    }

    let (cookie, _) = sign_in(&server, &admin);
    let session = format!("cookie: {cookie}\r\n");
    for path in [
        "",
        "/jobs",
        "/jobs?job=p/first&job=p/second",
        "/jobs?filter=state%3ACANCELLED",
        "/jobs?filter=state(",
        "/projects/p/jobs/first/trials?after=100",
        "/projects/p/jobs/first/trials/5",
        "/projects/p/jobs/first/explore",
        "/projects/p/jobs/first/trust",
        "/projects/p/jobs/first/configuration",
        "/projects/p/jobs/first/report",
        "/projects/p/jobs/failing/trials/1",
        "/projects/p/jobs/plain/output",
        "/projects/p/jobs/waits/output",
        "/compare?job=p/first&job=p/second",
        "/new",
        "/new?from=p/first",
        "/keys",
        "/workers",
        "/access",
        "/access?log=reads",
        "/access?filter=principal(",
        "/server",
        "/login",
    ] {
        saved.get(&server, &session, 200, &format!("/console{path}"));
    }
    for tab in ["", "/trials", "/trials/1", "/explore", "/trust", "/configuration", "/report"] {
        saved.get(&server, &session, 200, &format!("/console/projects/p/locations/l/studies/s{tab}"));
    }
    for job in ["first", "failing", "plain", "waits", "queued"] {
        saved.get(&server, &session, 200, &format!("/console/projects/p/jobs/{job}"));
    }
    for job in ["first", "failing"] {
        saved.get(&server, &session, 200, &format!("/console/projects/p/jobs/{job}/trials"));
    }
    for (status, path) in [(404, "compare?job=none"), (404, "nothing"), (404, "projects/p/jobs/none")] {
        saved.get(&server, &session, status, &format!("/console/{path}"));
    }
    saved.get(&server, &bearer(&viewer), 200, "/console/projects/p/jobs/first");
    saved.get(&server, &bearer(&viewer), 403, "/console/server");
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    let (status, refused) = server.exchange("POST", "/console/login", form, "token=wrong");
    assert_eq!(status, 401);
    saved.0.push(("refused".to_owned(), refused));

    let empty = Workspace::new("");
    let server = Server::start(&empty, &[]);
    for path in ["", "/jobs", "/workers", "/access", "/server", "/compare"] {
        saved.get(&server, "", 200, &format!("/console{path}"));
    }

    let checker = Checker::new();
    let folder = checker.empty("pages");
    for (name, page) in &saved.0 {
        fs::write(folder.join(format!("{name}.html")), page).unwrap();
    }
    let validate = || checker.run("html-validate", &["--config", "html-validate.mjs", "--formatter", "text", "pages"]);
    let findings = validate();
    assert_eq!((findings.code, findings.stdout.as_str()), (Some(0), ""), "{}", findings.stderr);
    // It finds what is wrong.
    fs::write(folder.join("wrong.html"), saved.0[0].1.replace("<h1>", "<p id=\"content\"><h1>")).unwrap();
    let findings = validate();
    assert!(findings.code == Some(1) && findings.stdout.contains("wrong.html"), "{findings:?}");
}
