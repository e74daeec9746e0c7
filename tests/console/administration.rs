//! The pages of the console for administrators: server and access.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::console::browse;
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;

/// A principal whose name is an attack where it is not escaped.
const PAYLOAD: &str = "user:<img/src=x/onerror=injected()>";

const CONFIG: &str = "resources:\n  cpus: 8\n  memory: 4GiB\n  devices:\n  - {id: '0', type: v100}\n  - {id: '1'}\n\
                      limits:\n  runningTrials: {project: 3}\n";

#[test]
fn administrators_see_the_server_and_who_may_use_it() {
    let workspace = Workspace::new("");
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer"]);
    token(&workspace, &["--principal", PAYLOAD, "--role", "ml.admin@p"]);
    workspace.write("server.yaml", CONFIG);
    let options = ["--server-config", "server.yaml", "--request-rate", "77", "--job-slots", "4", "--data-access-log"];
    let server = Server::start(&workspace, &options);
    let waits = json!({
        "jobId": "waits",
        "trainingInput": {"masterConfig": {"containerCommand": ["tail", "-f", "/dev/null"]}},
    });
    assert_eq!(server.send("POST", "/v1/projects/p/jobs", &bearer(&admin), &waits.to_string()).0, 200);
    until(|| {
        let (_, job) = server.send("GET", "/v1/projects/p/jobs/waits", &bearer(&admin), "");
        assert!(["QUEUED", "PREPARING", "RUNNING"].map(Value::from).contains(&job["state"]), "{job}");
        job["state"] == "RUNNING"
    });

    let page = |path: &str, token: &str| server.exchange("GET", path, &bearer(token), "");
    let (status, text) = page("/console/server", &admin);
    assert_eq!(status, 200);
    for part in ["sqlite", "local", "0 of 8 in use", "v100", "running trials of a project", "server.yaml"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let (status, text) = page("/console/access?log=reads&filter=method%3Aconsole.server", &admin);
    assert_eq!(status, 200);
    assert!(text.contains("console.server") && !text.contains("onerror=injected()>"), "{text}");
    // A role in one project is not one in all.
    let local = token(&workspace, &["--principal", "user:local@x", "--role", "ml.admin@p"]);
    for path in ["/console/server", "/console/access"] {
        for (name, secret) in [("viewer", &viewer), ("administrator of a project", &local)] {
            assert_eq!(page(path, secret).0, 403, "{path} for a {name}");
        }
    }
    let revoked =
        workspace.command().args(["tokens", "revoke", local.split('_').nth(1).unwrap(), "--data-dir", "data"]).output();
    assert!(revoked.unwrap().status.success());
    browse("administration.py", &server, &[&admin, &viewer]);
}

#[test]
fn server_without_tokens_states_that_and_reports_why_it_is_not_ready() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let page = |path: &str| server.exchange("GET", path, "", "");
    assert!(page("/console/access").1.contains("This server needs none, and answers this machine only."));
    assert!(page("/console/server").1.contains("The server is ready"));
    // A log that cannot be written is a reason, as for /readyz.
    let log = workspace.path().join("data/audit/admin_activity.jsonl");
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    let (status, answer) = server.get("/readyz");
    assert_eq!(status, 503);
    let reason = answer["error"]["message"].as_str().unwrap();
    let (_, text) = page("/console/server");
    assert!(text.contains("Not ready:") && text.contains(reason), "{reason}\n{text}");
    assert!(page("/console/access").1.contains("the audit log cannot be read"));
}

#[test]
fn dashboard_shows_every_metric_of_the_server_and_only_documented_ones() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let documented = fs::read_to_string(root.join("docs/reference/metrics.md")).unwrap();
    let dashboard = fs::read_to_string(root.join("examples/grafana/tunesmith.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let mut shown = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let names: Vec<&str> = words.filter(|word| word.starts_with("tunesmith_")).collect();
            assert!(!names.is_empty(), "{panel}");
            for name in names {
                let name = name.trim_end_matches("_bucket").trim_end_matches("_count");
                assert!(documented.contains(&format!("| `{name}` |")), "{name} is not documented");
                shown.insert(name.trim_end_matches("_total").trim_end_matches("_info").to_owned());
            }
        }
    }
    // Families without a sample are not in the text.
    let (_, text) = server.text("GET", "/metrics");
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let missing: Vec<&str> = families.filter(|family| !shown.contains(*family)).collect();
    assert!(missing.is_empty() && shown.len() > 15, "{missing:?} are not in the dashboard");
    let (status, readiness) = server.get("/readyz");
    assert_eq!((status, readiness), (200, json!({"ready": true})));
}
