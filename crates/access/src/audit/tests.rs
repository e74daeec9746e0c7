use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{AuditLog, Record, Rotation};

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
    fs::rename(&path, &moved).unwrap();
    write("3");
    let lines = |path| -> Vec<Value> {
        let text = fs::read_to_string(path).unwrap();
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
    let size = fs::metadata(&path).unwrap().len();
    assert!(size < 100 * 2300, "{size} bytes");
    assert!(log.write_of_stranger(&record(1060, "later", 401)).unwrap());
    log.write(&record(1061, "known", 200)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 103);
    assert_eq!(lines[0]["resource"].as_str().unwrap().len(), 2048);
    assert_eq!((&lines[100]["method"], &lines[100]["count"]), (&json!("tunesmith.audit.suppressed"), &json!(9900)));
    for _ in 0..200 {
        log.write_of_stranger(&record(1062, "", 401)).unwrap();
    }
    drop(log);
    let text = fs::read_to_string(&path).unwrap();
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
        let _ = fs::remove_file(&path);
        match broken {
            "folder" => fs::create_dir(&path).unwrap(),
            device => symlink(device, &path).unwrap(),
        }
        assert!(log.prepare().is_err(), "{broken}");
        assert!(log.write(&record(1, broken, 200)).is_err());
        assert!(log.prepare().is_err());
        let _ = fs::remove_dir(&path);
    }
    fs::remove_file(&path).unwrap();
    log.prepare().unwrap();
    log.write(&record(2, "after", 200)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let resources: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["resource"].clone()).collect();
    assert_eq!(resources, ["folder", "/dev/full", "after"]);
}

/// Names of the files in `folder`, in order.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn log_is_rotated_by_size_and_read_across_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.jsonl");
    let rotation = Rotation { max_bytes: 400, ..Rotation::default() };
    let log = AuditLog::open(&path).unwrap();
    log.set_rotation(rotation);
    // Written by another process, which does not rotate.
    let other = AuditLog::open(&path).unwrap();
    for second in 0..20 {
        if second % 2 == 0 { &log } else { &other }.write(&record(second, "a", 200)).unwrap();
    }
    let names = names(folder.path());
    assert!(names.len() > 4, "{names:?}");
    for name in &names {
        let size = fs::metadata(folder.path().join(name)).unwrap().len();
        assert!(size < 600, "{name} has {size} bytes");
    }
    let found = log.newest(100, 1 << 20, |_| true).unwrap();
    let seconds: Vec<i64> = found.records.iter().map(|record| record.time.as_second()).collect();
    assert_eq!((seconds, found.unreadable, found.read_back_to), ((0..20).rev().collect(), 0, None));
    let found = log.newest(7, 1 << 20, |_| true).unwrap();
    assert_eq!((found.records.len(), found.read_back_to), (7, Some(Timestamp::from_second(13).unwrap())));
    let found = log.newest(100, 700, |_| true).unwrap();
    assert!(found.records.len() < 9 && found.read_back_to.is_some(), "{found:?}");
}

#[test]
fn log_is_rotated_by_age_and_its_files_are_removed_after_their_retention() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.jsonl");
    let (hour, day) = (SignedDuration::from_hours(1), SignedDuration::from_hours(24));
    let rotation = Rotation { max_age: day, retention: day * 2, ..Rotation::default() };
    let log = AuditLog::open(&path).unwrap();
    log.set_rotation(rotation);
    // Other files in the folder, among them those that a user has renamed.
    for name in ["admin.jsonl.1", "admin-old.jsonl", "data-20260101T000000.000000Z.jsonl"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let others = names(folder.path());
    let now = Timestamp::now();
    assert!(log.maintain(now).unwrap().is_empty(), "an empty log has no age");
    log.write(&record((now - day + hour).as_second(), "first", 200)).unwrap();
    log.write(&record(now.as_second(), "second", 200)).unwrap();
    log.maintain(now).unwrap();
    assert_eq!(names(folder.path()), others, "the first record is too young");
    log.maintain(now + hour).unwrap();
    assert_eq!(names(folder.path()).len(), others.len() + 1, "a new file was started");
    log.write(&record(now.as_second(), "third", 200)).unwrap();
    assert_eq!(log.newest(10, 1 << 20, |_| true).unwrap().records.len(), 3);
    assert!(log.maintain(now + hour * 2).unwrap().is_empty());
    let removed = log.maintain(now + day * 3).unwrap();
    assert_eq!(removed.len(), 1, "{removed:?}");
    let left = log.newest(10, 1 << 20, |_| true);
    // The third record is too old as well, so that the log begins a new file.
    let left: Vec<String> =
        left.map(|found| found.records.into_iter().map(|record| record.resource).collect()).unwrap();
    assert_eq!(left, ["third"]);
    assert!(others.iter().filter(|name| *name != "admin.jsonl").all(|name| names(folder.path()).contains(name)));
}
