//! Authentication, authorisation, limits and the audit log of a server, over raw HTTP.

use std::process::Stdio;

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;

fn status(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["error"]["status"].as_str().unwrap_or(""))
}

const STUDIES: &str = "/v1/projects/p/locations/l/studies";

fn study() -> String {
    json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
        "algorithm": "RANDOM_SEARCH",
    }})
    .to_string()
}

#[test]
fn caller_has_the_permissions_of_its_roles_until_its_token_is_revoked() {
    let workspace = Workspace::new("");
    let developer = token(&workspace, &["--principal", "user:dev@x", "--role", "ml.developer@p"]);
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer"]);
    let server = Server::start(&workspace, &["--data-access-log"]);
    let create = format!("{STUDIES}?studyId=s");

    let anonymous = server.send("POST", &create, "content-type: application/json\r\n", &study());
    assert_eq!(status(&anonymous), (401, "UNAUTHENTICATED"), "{}", anonymous.1);
    let stranger = server.send("POST", &create, &bearer(&format!("{developer}x")), &study());
    assert_eq!(status(&stranger), (401, "UNAUTHENTICATED"));
    let refused = server.send("POST", &create, &bearer(&viewer), &study());
    assert_eq!(status(&refused), (403, "PERMISSION_DENIED"));
    let message = refused.1["error"]["message"].as_str().unwrap();
    assert_eq!(message, "permission ml.studies.create is denied on projects/p (or it does not exist)");
    assert_eq!(server.send("POST", &create, &bearer(&developer), &study()).0, 200);
    assert_eq!(server.send("GET", &format!("{STUDIES}/s"), &bearer(&viewer), "").0, 200);
    let elsewhere = server.send("GET", "/v1/projects/q/locations/l/studies", &bearer(&developer), "");
    assert_eq!(status(&elsewhere), (403, "PERMISSION_DENIED"));
    assert_eq!(
        server.get("/v1/projects/p/nothing").0,
        401,
        "unknown methods are reported only to authenticated callers"
    );
    assert_eq!(server.send("GET", "/v1/projects/p/nothing", &bearer(&viewer), "").0, 404);
    assert_eq!(server.text("GET", "/healthz").0, 200, "the liveness check needs no token");

    let id = developer.split('_').nth(1).unwrap();
    let revoke = workspace.command().args(["tokens", "revoke", id, "--data-dir", "data"]).output().unwrap();
    assert!(revoke.status.success());
    let revoked = server.send("GET", &format!("{STUDIES}/s"), &bearer(&developer), "");
    assert_eq!(status(&revoked), (401, "UNAUTHENTICATED"));

    let records = |name: &str| -> Vec<Value> {
        let text = workspace.read(&format!("data/audit/{name}.jsonl"));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let mut changes = records("admin_activity");
    // Changes of tokens by the command line are recorded as well.
    changes.retain(|record| record["principal"].as_str().is_some_and(|principal| !principal.starts_with("uid:")));
    let principals: Vec<(&str, u64)> = changes
        .iter()
        .map(|record| (record["principal"].as_str().unwrap(), record["status"].as_u64().unwrap()))
        .collect();
    assert_eq!(principals, [("unknown", 401), ("unknown", 401), ("user:view@x", 403), ("user:dev@x", 200)]);
    assert_eq!(changes[3]["method"], "ml.projects.locations.studies.create");
    assert_eq!(changes[3]["resource"], "projects/p/locations/l/studies");
    assert_eq!(changes[3]["callerIp"], "127.0.0.1");
    let reads = records("data_access");
    assert_eq!(reads.len(), 5, "{reads:?}");
    assert_eq!(reads[0]["permission"], "ml.studies.get");
}

#[test]
fn creator_of_a_job_owns_it_and_can_share_it() {
    let workspace = Workspace::new("");
    let ada = token(&workspace, &["--principal", "user:ada@x", "--role", "ml.developer@p"]);
    let bob = token(&workspace, &["--principal", "user:bob@x", "--role", "ml.developer@p"]);
    let server = Server::start(&workspace, &[]);
    let input =
        json!({"jobId": "j", "trainingInput": {"masterConfig": {"containerCommand": ["tail", "-f", "/dev/null"]}}});
    let created = server.send("POST", "/v1/projects/p/jobs", &bearer(&ada), &input.to_string());
    assert_eq!(created.0, 200, "{}", created.1);
    let job = "/v1/projects/p/jobs/j";
    let request = json!({"permissions": ["ml.jobs.get", "ml.jobs.cancel", "ml.nothing.get"]}).to_string();
    let has = |token: &str| server.send("POST", &format!("{job}:testIamPermissions"), &bearer(token), &request).1;
    assert_eq!(has(&ada), json!({"permissions": ["ml.jobs.get", "ml.jobs.cancel"]}));
    assert_eq!(has(&bob), json!({"permissions": ["ml.jobs.get"]}));
    let refused = server.send("POST", &format!("{job}:cancel"), &bearer(&bob), "");
    assert_eq!(status(&refused), (403, "PERMISSION_DENIED"));
    let owners = json!(["user:ada@x", "user:bob@x"]);
    let policy = json!({"policy": {"bindings": [{"role": "roles/ml.jobOwner", "members": owners}]}});
    let shared = server.send("POST", &format!("{job}:setIamPolicy"), &bearer(&ada), &policy.to_string());
    assert_eq!(shared.0, 200, "{}", shared.1);
    assert_eq!(server.send("POST", &format!("{job}:cancel"), &bearer(&bob), ""), (200, json!({})));
    until(|| server.send("GET", job, &bearer(&bob), "").1["state"] == "CANCELLED");
}

#[test]
fn encoded_location_of_jobs_does_not_bypass_authorisation() {
    let workspace = Workspace::new("");
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer"]);
    let server = Server::start(&workspace, &[]);
    // Only the plain path is that of the method for programs of trials, which checks the token of the trial.
    let path = "/v1/projects/p1/locations/%6Aobs/studies/mine/trials/1";
    assert_eq!(status(&server.get(path)), (401, "UNAUTHENTICATED"));
    assert_eq!(status(&server.send("GET", path, &bearer("unknown"), "")), (401, "UNAUTHENTICATED"));
    assert_eq!(status(&server.send("GET", path, &bearer(&viewer), "")), (404, "NOT_FOUND"));
    let report = server.send("POST", &format!("{path}:addMeasurement"), "content-type: application/json\r\n", "{}");
    assert_eq!(status(&report), (401, "UNAUTHENTICATED"));
}

#[test]
fn request_limit_applies_to_each_principal_separately() {
    let workspace = Workspace::new("");
    let greedy = token(&workspace, &["--principal", "user:greedy@x", "--role", "ml.viewer"]);
    let modest = token(&workspace, &["--principal", "user:modest@x", "--role", "ml.viewer"]);
    let server = Server::start(&workspace, &["--request-rate", "1"]);
    let list = |token: &str| server.send("GET", STUDIES, &bearer(token), "");
    let refused = loop {
        let answer = list(&greedy);
        if answer.0 != 200 {
            break answer;
        }
    };
    assert_eq!(status(&refused), (429, "RESOURCE_EXHAUSTED"));
    assert_eq!(refused.1["error"]["message"], "user:greedy@x sends more than 1 requests a second");
    assert_eq!(list(&modest).0, 200);
}

#[test]
fn public_server_requires_tokens() {
    let workspace = Workspace::new("");
    let open = ["serve", "--listen", "0.0.0.0:0", "--data-dir", "data"];
    let output = workspace.command().args(open).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("--listen 0.0.0.0:0") && error.contains("tunesmith tokens create"), "{error}");
}

#[test]
fn tokens_are_listed_without_their_secrets_and_invalid_ones_are_rejected() {
    let workspace = Workspace::new("");
    let secret =
        token(&workspace, &["--principal", "serviceAccount:ci", "--role", "ml.admin", "--expires-in-days", "2"]);
    let list = workspace.command().args(["tokens", "list", "--data-dir", "data"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let mut parts = secret.splitn(3, '_');
    let (_, id, key) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    assert!(list.contains(id) && list.contains("serviceAccount:ci") && list.contains("roles/ml.admin"), "{list}");
    assert!(!list.contains(key), "{list}");
    let narrow = |more: &[&str]| {
        let mut command = workspace.command();
        command.args(["tokens", "list", "--data-dir", "data"]).args(more).env("COLUMNS", "60");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = narrow(&[]);
    let (table, hint) = text.split_at(text.find("2 columns do not fit").unwrap_or_else(|| panic!("{text}")));
    assert!(table.lines().all(|line| line.trim_end().chars().count() <= 60) && table.contains(id), "{table}");
    assert!(!table.contains("CREATED") && hint.starts_with("2 columns do not fit: CREATED, ENDS (--wide"), "{hint}");
    assert_eq!(narrow(&["--wide"]), list);
    let words = narrow(&["--columns", "principal,id"]);
    assert_eq!(words.split_whitespace().collect::<Vec<_>>(), ["PRINCIPAL", "ID", "serviceAccount:ci", id]);
    for (arguments, expected) in [
        (["--principal", "ada", "--role", "ml.admin"], "\"ada\" is not a principal"),
        (["--principal", "user:ada", "--role", "owner"], "\"owner\" is not a role"),
        (["--principal", "user:ada", "--role", "ml.jobOwner"], "setIamPolicy"),
        (["--principal", "user:ada", "--role", "ml.viewer@"], "has an empty project"),
    ] {
        let output = workspace.command().args(["tokens", "create", "--data-dir", "data"]).args(arguments).output();
        let output = output.unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(expected), "{error}");
    }
    let revoke = workspace.command().args(["tokens", "revoke", "unknown", "--data-dir", "data"]).output().unwrap();
    assert_eq!(revoke.status.code(), Some(2));
    assert!(String::from_utf8(revoke.stderr).unwrap().contains("there is no token unknown"));
}

#[test]
fn requests_are_encrypted_when_the_server_has_a_certificate() {
    let workspace = Workspace::new("");
    let subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
    let mut make = tunesmith_testing::program("openssl");
    make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
    let made = make.args(["-keyout", "key.pem", "-out", "certificate.pem"]).args(subject);
    assert!(made.current_dir(workspace.path()).stderr(Stdio::null()).status().unwrap().success());
    let server = Server::start(&workspace, &["--tls-certificate", "certificate.pem", "--tls-key", "key.pem"]);
    let mut client = tunesmith_testing::program("openssl");
    let address = server.address.to_string();
    client.args(["s_client", "-quiet", "-connect", &address, "-CAfile", "certificate.pem", "-verify_return_error"]);
    client.current_dir(workspace.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut client = client.spawn().unwrap();
    let request =
        format!("GET {STUDIES} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-request-id: abc\r\n\r\n");
    std::io::Write::write_all(&mut client.stdin.take().unwrap(), request.as_bytes()).unwrap();
    let answer = String::from_utf8(client.wait_with_output().unwrap().stdout).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n{}\n"), "{answer}");
    assert!(answer.contains("x-request-id: abc\r\n"), "{answer}");

    let wrong = ["serve", "--data-dir", "other", "--listen", "127.0.0.1:0"];
    let wrong = wrong.into_iter().chain(["--tls-certificate", "key.pem", "--tls-key", "key.pem"]);
    let output = workspace.command().args(wrong).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("key.pem has no usable certificate"));
}

#[test]
fn metrics_and_readiness_are_reported() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.text("GET", "/readyz").0, 200);
    assert_eq!(
        server.send("POST", &format!("{STUDIES}?studyId=s"), "content-type: application/json\r\n", &study()).0,
        200
    );
    let suggested =
        server.post(&format!("{STUDIES}/s/trials:suggest"), &json!({"suggestionCount": 3, "clientId": "c"}));
    server.wait(suggested.1);
    let (status, text) = server.text("GET", "/metrics");
    assert_eq!(status, 200);
    for line in [
        "tunesmith_http_requests_total{method=\"ml.projects.locations.studies.create\",status=\"200\"} 1",
        "tunesmith_suggestions_total{algorithm=\"RANDOM_SEARCH\",source=\"computed\"} 3",
        "tunesmith_trials_total{state=\"ACTIVE\"} 3",
        "tunesmith_suggestion_seconds_count{algorithm=\"RANDOM_SEARCH\",phase=\"compute\"} 1",
        "tunesmith_jobs_running 0",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }
}
