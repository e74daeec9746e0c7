use std::os::unix::fs::symlink;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{AuditLog, Record};

#[test]
fn records_are_appended_to_a_new_file_after_a_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit/admin.jsonl");
    let log = AuditLog::open(&path).unwrap();
    let write = |request_id| {
        log.write(&Record {
            time: Timestamp::UNIX_EPOCH,
            principal: "user:ada@example.com",
            caller_ip: None,
            method: "ml.projects.jobs.cancel",
            resource: "projects/p/jobs/j",
            permission: Some("ml.jobs.cancel"),
            status: 200,
            request_id,
            count: None,
        })
        .unwrap();
    };
    write("1");
    write("2");
    let moved = path.with_extension("1");
    std::fs::rename(&path, &moved).unwrap();
    write("3");
    let lines = |path| -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(lines(&moved).len(), 2);
    let expected = json!({
        "time": "1970-01-01T00:00:00Z", "principal": "user:ada@example.com", "method": "ml.projects.jobs.cancel",
        "resource": "projects/p/jobs/j", "permission": "ml.jobs.cancel", "status": 200, "requestId": "3",
    });
    assert_eq!(lines(&path), [expected]);
}

fn record(time: i64, resource: &str, status: u16) -> Record<'_> {
    Record {
        time: Timestamp::from_second(time).unwrap(),
        principal: "unknown",
        caller_ip: None,
        method: "unknown",
        resource,
        permission: None,
        status,
        request_id: "",
        count: None,
    }
}

#[test]
fn strangers_cannot_make_the_log_grow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.jsonl");
    let log = AuditLog::open(&path).unwrap();
    let long = "x".repeat(60_000);
    let written = (0..10_000).filter(|_| log.write_of_stranger(&record(1000, &long, 401)).unwrap()).count();
    assert_eq!(written, 100);
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size < 100 * 2300, "{size} bytes");
    assert!(log.write_of_stranger(&record(1060, "later", 401)).unwrap());
    log.write(&record(1061, "known", 200)).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 103);
    assert_eq!(lines[0]["resource"].as_str().unwrap().len(), 2048);
    assert_eq!((&lines[100]["method"], &lines[100]["count"]), (&json!("tunesmith.audit.suppressed"), &json!(9900)));
    for _ in 0..200 {
        log.write_of_stranger(&record(1062, "", 401)).unwrap();
    }
    drop(log);
    let text = std::fs::read_to_string(&path).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["count"], 101, "the end of the process loses no count");
}

#[test]
fn failed_records_are_written_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.jsonl");
    let log = AuditLog::open(&path).unwrap();
    log.prepare().unwrap();
    for broken in ["folder", "/dev/full"] {
        let _ = std::fs::remove_file(&path);
        match broken {
            "folder" => std::fs::create_dir(&path).unwrap(),
            device => symlink(device, &path).unwrap(),
        }
        assert!(log.prepare().is_err(), "{broken}");
        assert!(log.write(&record(1, broken, 200)).is_err());
        assert!(log.prepare().is_err());
        let _ = std::fs::remove_dir(&path);
    }
    std::fs::remove_file(&path).unwrap();
    log.prepare().unwrap();
    log.write(&record(2, "after", 200)).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let resources: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["resource"].clone()).collect();
    assert_eq!(resources, ["folder", "/dev/full", "after"]);
}
