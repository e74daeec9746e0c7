use super::*;

fn report() -> AgentReport {
    let metrics = vec![MetricValue { metric: "loss".to_owned(), value: f64::NEG_INFINITY }];
    AgentReport {
        task: Some("worker-1".to_owned()),
        node: Some("node-7.example".to_owned()),
        address: Some("10.0.0.7:2222".parse().unwrap()),
        logs: vec![LogPiece {
            position: LogPosition { task: "worker-1".to_owned(), stream: LogStream::Stderr, offset: 7 },
            removed: 5,
            bytes: vec![0, 255, 10],
        }],
        first_measurement: 3,
        measurements: [
            ReportKey::EventFile { folder: "eval".into() },
            ReportKey::MetricFile { attempt: 4 },
            ReportKey::StandardOutput { attempt: 4, offset: 1 << 40 },
            ReportKey::Http,
        ]
        .map(|key| Measurement {
            step: 2,
            wall_time_secs: 1.5,
            elapsed_secs: Some(0.25),
            key,
            metrics: metrics.clone(),
        })
        .into(),
        seen_tags: ["loss".to_owned()].into(),
        problems: vec!["a problem".to_owned()],
        preempted: Some("SIGTERM".to_owned()),
        end: None,
    }
}

#[test]
fn reports_are_read_back_from_their_messages() {
    let status = |end, stopped| AgentEnd::Ended(ExitStatus { end, stopped });
    for end in [
        None,
        Some(status(ProgramEnd::Exited(-1), None)),
        Some(status(ProgramEnd::Signaled(9), Some(StopReason::TimeLimit))),
        Some(status(ProgramEnd::OutOfMemory, None)),
        Some(status(ProgramEnd::NotStarted(String::new()), Some(StopReason::Requested))),
        Some(AgentEnd::Preempted { reason: "SIGTERM".to_owned() }),
        Some(AgentEnd::Lost { reason: "gone".to_owned() }),
    ] {
        let report = AgentReport { end, ..report() };
        let text = serde_json::to_string(&SyncRequest::from(&report)).unwrap();
        let read: SyncRequest = serde_json::from_str(&text).unwrap();
        assert_eq!(read.into_report(4).unwrap(), report);
    }
}

#[test]
fn invalid_reports_are_refused_by_field() {
    let refused = |text: &str| serde_json::from_str::<SyncRequest>(text).unwrap().into_report(4).unwrap_err().field;
    assert_eq!(refused(r#"{"firstMeasurement": "-1"}"#), "firstMeasurement");
    assert_eq!(refused(r#"{"address": "node:2222"}"#), "address");
    assert_eq!(refused(r#"{"logs": [{"task": "../x", "stream": "stdout"}]}"#), "logs[0].task");
    assert_eq!(refused(r#"{"logs": [{"task": "ps-0", "stream": "stdout", "data": "?"}]}"#), "logs[0].data");
    assert_eq!(refused(r#"{"end": {"exitCode": 1, "signal": 9}}"#), "end");
    assert_eq!(refused(r#"{"end": {"exitCode": 1, "stopped": "NO"}}"#), "end.stopped");
    for (source, field) in [
        (r#""LOG""#, "source"),
        (r#""EVENT_FILE""#, "folder"),
        (r#""STANDARD_OUTPUT""#, "offset"),
        (r#""STANDARD_OUTPUT", "offset": "-1""#, "offset"),
    ] {
        let text = format!(r#"{{"measurements": [{{"step": "1", "source": {source}, "metrics": []}}]}}"#);
        assert_eq!(refused(&text), format!("measurements[0].{field}"));
    }
}
