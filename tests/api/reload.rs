//! Reload of the certificate and of the server configuration on SIGHUP, and expiry.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::server::Server;

/// Status of a submission of the job `id` on a machine of the type `machine`, and the message of its error.
fn submit(server: &Server, id: &str, machine: &str) -> (u16, String) {
    let input = json!({
        "scaleTier": "CUSTOM", "masterType": machine, "region": "us-central1",
        "masterConfig": {"containerCommand": ["sh", "-c", "sleep 600"]},
    });
    let (status, answer) = server.post("/v1/projects/p/jobs", &json!({"jobId": id, "trainingInput": input}));
    (status, answer["error"]["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn server_configuration_is_reloaded_without_closing_connections() {
    let workspace = Workspace::new("");
    workspace.write("server.yaml", "limits: {queuedJobs: {project: 1}}\n");
    let server = Server::start(&workspace, &["--server-config", "server.yaml", "--job-slots", "1"]);

    let mut connection = TcpStream::connect(server.address).unwrap();
    let mut request = || {
        write!(connection, "GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", server.address).unwrap();
        let mut head = [0; 15];
        connection.read_exact(&mut head).unwrap();
        let mut rest = Vec::new();
        while !rest.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            connection.read_exact(&mut byte).unwrap();
            rest.push(byte[0]);
        }
        String::from_utf8(head.to_vec()).unwrap()
    };
    assert_eq!(request(), "HTTP/1.1 200 OK");

    let (status, message) = submit(&server, "early", "large");
    assert_eq!(status, 400, "{message}");
    assert!(message.contains("large"), "{message}");

    workspace.write(
        "server.yaml",
        "machineTypes: {large: {cpus: 1}}\nlimits: {queuedJobs: {project: 2}, runningTrials: {cluster: 7}}\n",
    );
    server.signal(Signal::HUP);
    server.wait_for_error("reloaded: the server configuration");
    assert_eq!(request(), "HTTP/1.1 200 OK", "the connection was kept");
    assert_eq!(submit(&server, "first", "large"), (200, String::new()));
    server.until("/v1/projects/p/jobs/first", "RUNNING");
    for id in ["second", "third"] {
        assert_eq!(submit(&server, id, "large"), (200, String::new()), "{id}");
    }
    let (status, message) = submit(&server, "fourth", "large");
    assert_eq!(status, 429, "{message}");
    assert!(message.contains("2 of 2 wait"), "{message}");

    // Errors and changes that need a restart leave everything as it is.
    for (text, expected) in [
        ("machineTypes: {large: {cpu: 1}}\n", "machineTypes.large.cpu"),
        ("executor: slurm\n", "executor, executors, slurm, ray, kubernetes or placementTimeout: only a restart"),
        ("resources: {cpus: 1}\n", "resources: only a restart"),
        ("allowedFolders: [relative]\n", "allowedFolders[0]"),
    ] {
        workspace.write("server.yaml", text);
        server.signal(Signal::HUP);
        server.wait_for_error("not reloaded, and nothing has changed: ");
        let (status, message) = submit(&server, "fifth", "large");
        assert_eq!((status, message.contains("2 of 2 wait")), (429, true), "{expected}: {message}");
    }
    assert_eq!(request(), "HTTP/1.1 200 OK");
}

#[test]
fn certificate_is_replaced_while_the_server_runs() {
    let workspace = Workspace::new("");
    let make = |name: &str| {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        workspace.write(&format!("{name}.pem"), &made.cert.pem());
        workspace.write(&format!("{name}-key.pem"), &made.signing_key.serialize_pem());
    };
    let take = |name: &str| {
        for (from, to) in [(format!("{name}.pem"), "current.pem"), (format!("{name}-key.pem"), "current-key.pem")] {
            fs::copy(workspace.path().join(from), workspace.path().join(to)).unwrap();
        }
    };
    let list = |server: &Server, trusted: &str| {
        let mut command = workspace.command();
        command.args(["jobs", "list", "--server", &format!("https://{}", server.address)]);
        command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR").env("TUNESMITH_CA_FILE", trusted);
        command.output().unwrap().status.code()
    };
    make("old");
    make("new");
    take("old");
    let server = Server::start(&workspace, &["--tls-certificate", "current.pem", "--tls-key", "current-key.pem"]);
    assert_eq!((list(&server, "old.pem"), list(&server, "new.pem")), (Some(0), Some(1)));

    // A certificate without its key is not taken.
    fs::copy(workspace.path().join("new.pem"), workspace.path().join("current.pem")).unwrap();
    server.signal(Signal::HUP);
    server.wait_for_error("not reloaded, and nothing has changed: the certificate and the key cannot be used");
    assert_eq!(list(&server, "old.pem"), Some(0));

    take("new");
    server.signal(Signal::HUP);
    server.wait_for_error("reloaded: a new certificate");
    assert_eq!((list(&server, "old.pem"), list(&server, "new.pem")), (Some(1), Some(0)));
    server.signal(Signal::HUP);
    server.wait_for_error("reloaded: the same certificate");
}

#[test]
fn old_files_of_the_audit_log_are_removed_and_a_full_one_is_continued_in_a_new_file() {
    let workspace = Workspace::new("");
    let folder = workspace.path().join("data/audit");
    fs::create_dir_all(&folder).unwrap();
    let old = folder.join("admin_activity-20200101T000000.000000Z.jsonl");
    fs::write(&old, "").unwrap();
    workspace.write("server.yaml", "audit: {maxFileSize: 1KB, retentionDays: 30}\n");
    let server = Server::start(&workspace, &["--server-config", "server.yaml", "--job-slots", "1"]);
    let study = json!({"studyConfig": {"metrics": [{"metric": "m", "goal": "MINIMIZE"}],
        "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}]}});
    for number in 0..20 {
        let (status, answer) = server.post(&format!("/v1/projects/p/locations/l/studies?studyId=s{number}"), &study);
        assert_eq!(status, 200, "{answer}");
    }
    drop(server);
    assert!(!old.exists());
    let mut records = 0;
    let mut files = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(text.len() < 1500, "{} bytes", text.len());
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            assert_eq!(record["method"], "ml.projects.locations.studies.create");
            records += 1;
        }
        files += 1;
    }
    assert!(records == 20 && files > 3, "{records} records in {files} files");
}
