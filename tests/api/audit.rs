//! The audit log: what it contains, and what happens if it cannot be written.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::client::client;
use tunesmith_testing::server::Server;

const ADMIN: &str = "data/audit/admin_activity.jsonl";

fn records(workspace: &Workspace) -> Vec<(String, String, String, u64)> {
    let field = |record: &Value, name: &str| record[name].as_str().unwrap().to_owned();
    let lines = workspace.read(ADMIN);
    let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let parts = |record: Value| {
        let status = record["status"].as_u64().unwrap();
        (field(&record, "principal"), field(&record, "method"), field(&record, "resource"), status)
    };
    records.map(parts).collect()
}

fn job(id: &str) -> Value {
    json!({"jobId": id, "trainingInput": {"masterConfig": {"containerCommand": ["true"]}}})
}

#[test]
fn changes_are_recorded_with_their_resource_and_reads_are_not() {
    let workspace = Workspace::new("");
    let me = format!("uid:{}", rustix::process::getuid().as_raw());
    client(&workspace, &["jobs", "submit", "training", "local", "--", "true"], &["--data-dir", "data"]).expect(0);
    client(&workspace, &["jobs", "list"], &["--data-dir", "data"]).expect(0);
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.send("POST", "/v1/projects/p/jobs", &bearer(&admin), &job("mine").to_string()).0, 200);
    let studies = "/v1/projects/p/locations/l/studies";
    let study = json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter": "a", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "5"}}],
    }});
    assert_eq!(server.send("POST", &format!("{studies}?studyId=s"), &bearer(&admin), &study.to_string()).0, 200);
    assert_eq!(server.send("POST", &format!("{studies}/s/trials:listOptimalTrials"), &bearer(&admin), "").0, 200);
    let permissions = json!({"permissions": ["ml.jobs.get"]}).to_string();
    assert_eq!(
        server.send("POST", "/v1/projects/p/jobs/mine:testIamPermissions", &bearer(&admin), &permissions).0,
        200
    );
    let id = admin.split('_').nth(1).unwrap();
    let revoke = workspace.command().args(["tokens", "revoke", id, "--data-dir", "data"]).output().unwrap();
    assert!(revoke.status.success());
    let revoke = workspace.command().args(["tokens", "revoke", "other", "--data-dir", "data"]).output().unwrap();
    assert_eq!(revoke.status.code(), Some(2));
    let seen = records(&workspace);
    let seen: Vec<(&str, &str, &str, u64)> =
        seen.iter().map(|(who, method, what, status)| (&**who, &**method, &**what, *status)).collect();
    let me = me.as_str();
    let token = format!("tokens/{id}");
    let expected = [
        (me, "ml.projects.jobs.create", "projects/local/jobs/local", 200),
        (me, "tunesmith.tokens.create", token.as_str(), 200),
        ("user:admin@x", "ml.projects.jobs.create", "projects/p/jobs/mine", 200),
        ("user:admin@x", "ml.projects.locations.studies.create", "projects/p/locations/l/studies", 200),
        (me, "tunesmith.tokens.revoke", token.as_str(), 200),
        (me, "tunesmith.tokens.revoke", "tokens/other", 404),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn changes_are_refused_while_they_cannot_be_recorded() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let jobs = "/v1/projects/p/jobs";
    let log = workspace.path().join(ADMIN);
    let breakages: [fn(&std::path::Path); 2] =
        [|log| fs::create_dir(log).unwrap(), |log| symlink("/dev/full", log).unwrap()];
    for damage in breakages {
        let moved = log.with_extension("moved");
        fs::rename(&log, &moved).unwrap();
        damage(&log);
        let (status, error) = server.post(jobs, &job("unrecorded"));
        assert_eq!((status, &error["error"]["status"]), (503, &json!("UNAVAILABLE")), "{error}");
        assert!(error["error"]["message"].as_str().unwrap().contains("the audit log cannot be written"), "{error}");
        assert_eq!(server.get(jobs), (200, json!({})), "nothing was changed, and reads are answered");
        let (status, text) = server.text("GET", "/readyz");
        assert!(status == 503 && text.contains("audit log"), "{text}");
        assert_eq!(server.text("GET", "/healthz").0, 200);
        if log.is_dir() {
            fs::remove_dir(&log).unwrap()
        } else {
            fs::remove_file(&log).unwrap()
        }
        fs::rename(&moved, &log).unwrap();
        assert_eq!(server.text("GET", "/readyz").0, 200, "the server is ready again without a restart");
    }
    assert_eq!(server.post(jobs, &job("recorded")).0, 200);
    assert_eq!(records(&workspace).last().unwrap().2, "projects/p/jobs/recorded");
    drop(server);

    let server = Server::start(&workspace, &["--on-audit-failure", "allow"]);
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    assert_eq!(server.text("GET", "/readyz").0, 200);
    assert_eq!(server.post(jobs, &job("later")).0, 200);
    fs::remove_dir(&log).unwrap();
    assert_eq!(server.post(jobs, &job("after")).0, 200);
    let resources: Vec<String> = records(&workspace).into_iter().map(|record| record.2).collect();
    assert_eq!(resources[0], "projects/p/jobs/later", "the record is written once that is possible");
    assert_eq!(resources[resources.len() - 1], "projects/p/jobs/after");
}

#[test]
fn callers_without_a_token_cannot_make_the_log_grow() {
    let workspace = Workspace::new("");
    token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let server = Server::start(&workspace, &["--data-access-log"]);
    let path = format!("/v1/{}", "x".repeat(50_000));
    for _ in 0..150 {
        assert_eq!(server.send("POST", &path, "", "").0, 401);
        assert_eq!(server.send("GET", &path, "", "").0, 401);
    }
    for name in ["admin_activity", "data_access"] {
        let size = fs::metadata(workspace.path().join(format!("data/audit/{name}.jsonl"))).unwrap().len();
        assert!(size < 102 * 2400, "{name}: {size} bytes after 150 requests with 50 kB each");
    }
    let (_, metrics) = server.text("GET", "/metrics");
    assert!(metrics.lines().any(|line| line == "tunesmith_audit_suppressed_total 100"), "{metrics}");
}
