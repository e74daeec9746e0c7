//! Uploading packages, and reading logs, over HTTP.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tunesmith_testing::client::{client, read_head};
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, write_probe_wheel};

#[test]
fn invalid_uploads_leave_no_files() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let content = "PK\x03\x04 content";
    let sha256: String = hex::encode(Sha256::digest(content));
    let put = |path: &str, body: &str| server.send("PUT", path, "content-type: application/octet-stream\r\n", body);
    let package = |file: &str| format!("/v1/projects/p/packages/{sha256}/{file}");
    let refused = |(status, error): (u16, Value)| {
        assert_eq!((status, error["error"]["status"].as_str()), (400, Some("INVALID_ARGUMENT")), "{error}");
        error["error"]["details"][0]["fieldViolations"][0]["description"].as_str().unwrap().to_owned()
    };
    assert!(refused(put(&package("a.zip"), "PK\x03\x04 other")).contains(&format!("not {sha256}")));
    assert!(refused(put(&package("a.py"), content)).contains("does not end in .whl"));
    for path in ["..%2F..%2Fsecret.zip", "%2e%2e", ".hidden.zip", "a%00.zip", "a%2Fb.zip"] {
        assert!(refused(put(&package(path), content)).contains("name of a package's file"), "{path}");
    }
    assert!(refused(put(&format!("/v1/projects/%2e%2e/packages/{sha256}/a.zip"), content)).contains("project"));
    assert!(refused(put("/v1/projects/p/packages/%2e%2e/a.zip", content)).contains("SHA-256"));
    assert_eq!(server.get(&package("a.zip")).0, 404);

    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = |length: u64| {
        format!("PUT {} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n", package("a.zip"))
    };
    stream.write_all(head((256 << 20) + 1).as_bytes()).unwrap();
    let answer = read_head(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");

    let uploads = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let folder = workspace.path().join("data/packages/p");
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(head(1000).as_bytes()).unwrap();
    stream.write_all(content.as_bytes()).unwrap();
    until(|| uploads(&folder).iter().any(|name| name.starts_with(".uploading-")));
    drop(stream);
    until(|| uploads(&folder).is_empty());

    // Larger than the limit of other requests, and uploaded twice.
    let large = format!("PK\x03\x04{}", "x".repeat(5 << 20));
    let sha256: String = hex::encode(Sha256::digest(&large));
    let path = format!("/v1/projects/p/packages/{sha256}/large-1.zip");
    let (status, first) = put(&path, &large);
    assert_eq!((status, &first["sizeBytes"]), (200, &json!(large.len().to_string())));
    assert_eq!(first["uri"], format!("tunesmith://projects/p/packages/{sha256}/large-1.zip"));
    assert_eq!(put(&path, &large), (200, first.clone()));
    assert_eq!(server.get(&path), (200, first));
    assert_eq!(uploads(&folder), [sha256]);
}

#[test]
fn logs_are_read_in_chunks() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let url = format!("http://{}", server.address);
    let script = "i=0; while [ $i -lt 60000 ]; do echo line-$i; i=$((i + 1)); done; echo err >&2";
    let args = ["jobs", "submit", "training", "j", "--stream-logs", "--", "sh", "-c", script];
    let streamed = client(&workspace, &args, &["--server", &url]).expect(0).stdout;
    let lines: Vec<&str> = streamed.lines().filter_map(|line| line.strip_prefix("[job] line-")).collect();
    assert!(lines.iter().enumerate().all(|(index, line)| *line == index.to_string()), "in order, none twice");
    assert_eq!(lines.len(), 60000);

    let logs = "/v1/projects/local/jobs/j/logs";
    let (_, list) = server.get(logs);
    assert_eq!(list["jobState"], "SUCCEEDED");
    let names: Vec<&str> = list["logs"].as_array().unwrap().iter().map(|log| log["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2);
    assert_eq!(names[0], "projects/local/jobs/j/logs/attempt-1.master-0.stderr");
    let (_, page) = server.get(&format!("{logs}?pageSize=1"));
    assert_eq!(page["logs"][0], list["logs"][0]);
    let (_, rest) = server.get(&format!("{logs}?pageToken={}", page["nextPageToken"].as_str().unwrap()));
    assert_eq!((&rest["logs"][0], &rest["nextPageToken"]), (&list["logs"][1], &Value::Null));
    let (_, later) = server.get(&format!("{logs}?modifiedSince=2999-01-01T00:00:00Z"));
    assert_eq!(later["logs"], Value::Null);
    let (_, chunk) = server.get(&format!("/v1/{}?offset=7", names[1]));
    assert_eq!(chunk["text"].as_str().unwrap().len(), 256 << 10);
    assert_eq!(chunk["nextOffset"], (7 + (256 << 10)).to_string());
    for wrong in ["..%2F..%2Fsecret", "attempt-1.master-0.log", "attempt-x.master-0.stdout"] {
        assert_eq!(server.get(&format!("{logs}/{wrong}")).0, 400, "{wrong}");
    }
    assert_eq!(server.get(&format!("{logs}/attempt-9.master-0.stdout")).0, 404);
    assert_eq!(server.get(&format!("{logs}?trial=x")).0, 400);
}

#[test]
fn lines_of_the_installer_are_logs_of_the_job_and_the_page_of_the_job_is_named() {
    let workspace = Workspace::new("pythonModule: probe\n");
    let server = Server::start(&workspace, &[]);
    let url = format!("http://{}", server.address);
    write_probe_wheel(&workspace.path().join("probe-1.0-py3-none-any.whl"));
    let submit = |job: &str, more: &[&str]| {
        let wheel = "probe-1.0-py3-none-any.whl";
        let args = ["jobs", "submit", "training", job, "--config", "hptuning_config.yaml", "--packages", wheel];
        client(&workspace, &[&args[..], more].concat(), &["--server", &url]).expect(0)
    };
    let installer = |output: &str| {
        let lines = output.lines().filter_map(|line| line.strip_prefix("[job packages] "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let streamed = submit("first", &["--stream-logs"]).stdout;
    let lines = installer(&streamed);
    assert!(lines.iter().any(|line| line.contains("probe")), "{streamed}");
    assert!(streamed.find("[job packages]") < streamed.find("[job] acc=0.25"), "{streamed}");
    // Later as well, and alone.
    for more in [&[][..], &["--task-name", "packages"]] {
        let args = [&["jobs", "stream-logs", "first"][..], more].concat();
        let again = client(&workspace, &args, &["--server", &url]).expect(0).stdout;
        assert_eq!(installer(&again), lines);
        assert_eq!(again.contains("acc=0.25"), more.is_empty(), "{again}");
    }
    let submitted = submit("second", &[]).stderr;
    let page = submitted.lines().find_map(|line| line.strip_prefix("to see it in a browser: ")).unwrap();
    assert_eq!(page, format!("{url}/console/projects/local/jobs/second"));
    assert_eq!(server.text("GET", page.strip_prefix(&url).unwrap()).0, 200);
}
