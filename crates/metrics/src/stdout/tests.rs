use std::fs::OpenOptions;
use std::io::Write;

use tempfile::TempDir;

use super::super::tests::{collector, points, write};
use super::*;

#[test]
fn line_without_a_step_has_the_highest_step_plus_one() {
    let folder = TempDir::new().unwrap();
    write(&folder.path().join("stdout.log"), "acc=1\nloss=3\nacc=2\nacc=3 step=10\nacc=4 step=5\nacc=6\n");
    let reports = collector(folder.path(), &[]).poll();
    assert_eq!(points(&reports), [(1, 1.0), (2, 2.0), (10, 3.0), (5, 4.0), (11, 6.0)]);
    let keys: Vec<_> = reports.into_iter().map(|report| report.key).collect();
    assert_eq!(keys, [0, 13, 19, 33, 46].map(|offset| ReportKey::StandardOutput { attempt: 1, offset }));
}

#[test]
fn progress_bars_and_invalid_utf8_are_read_and_an_unended_line_only_at_finish() {
    let folder = TempDir::new().unwrap();
    write(&folder.path().join("stdout.log"), b"\racc=1\racc=2\r\n\xff\xfe acc=3 \xff\n\nacc=4");
    let mut collector = collector(folder.path(), &[]);
    assert_eq!(points(&collector.poll()), [(1, 1.0), (2, 2.0), (3, 3.0)]);
    assert_eq!(collector.poll(), []);
    assert_eq!(points(&collector.finish()), [(4, 4.0)]);
    assert_eq!(collector.finish(), []);
}

#[test]
fn long_lines_are_skipped_wherever_polls_cut_them() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("stdout.log");
    let mut collector = collector(folder.path(), &[]);
    write(&path, "");
    let mut log = OpenOptions::new().append(true).open(&path).unwrap();
    let mut found = Vec::new();
    let long = "x".repeat(3 * CHUNK_BYTES) + " acc=1 ";
    let just_fits = "-".repeat(MAX_LINE_BYTES - 6) + " acc=3";
    let just_too_long = "-".repeat(MAX_LINE_BYTES - 5) + " acc=4";
    for part in ["acc=0\n", &long, &long, "acc=9\nacc=2\n", &just_fits, "\n", &just_too_long, "\n", "acc=5\n", &long] {
        log.write_all(part.as_bytes()).unwrap();
        found.extend(collector.poll());
    }
    found.extend(collector.finish());
    assert_eq!(points(&found), [(1, 0.0), (2, 2.0), (3, 3.0), (4, 5.0)]);
    assert_eq!(
        collector.problems().iter().map(ToString::to_string).collect::<Vec<_>>(),
        [format!("{} has a line of more than 65536 bytes at byte 6, which is not read", path.display())]
    );
}

#[test]
fn truncated_log_is_read_from_its_beginning() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("stdout.log");
    let mut collector = collector(folder.path(), &[]);
    write(&path, "acc=1\nacc=2\nacc=3\n");
    assert_eq!(collector.poll().len(), 3);
    write(&path, "start\nacc=7 step=9\n");
    std::fs::File::options().write(true).open(&path).unwrap().set_len(11).unwrap();
    assert_eq!(collector.poll(), []);
    write(&path, "start\nacc=7 step=9\n");
    assert_eq!(points(&collector.poll()), [(9, 7.0)]);
    assert_eq!(collector.problems().len(), 1);
}

#[test]
fn objects_printed_over_several_lines_are_no_reports() {
    let config = r#"{"cluster": {"master": ["127.0.0.1:2222"]}, "task": {"type": "master", "index": 0, "acc": 7}}"#;
    let config: serde_json::Value = serde_json::from_str(config).unwrap();
    let indented = serde_json::to_string_pretty(&config).unwrap();
    let of_python =
        "{'cluster': {'master': ['127.0.0.1:2222'],\n             'acc': 7},\n 'task': {'index': 0, 'acc': 7}}";
    let log = format!(
        "acc=1\n{indented}\nacc=2\nTF_CONFIG: {indented}\r\nacc=3\nconfig = {of_python}\nacc=4\nstep=9 acc=5 {indented} acc=6\n"
    );
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("stdout.log");
    write(&path, "");
    let mut collector = collector(folder.path(), &[]);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    let mut found = Vec::new();
    // A poll may end in the middle of an object.
    for part in log.as_bytes().chunks(17) {
        file.write_all(part).unwrap();
        found.extend(collector.poll());
    }
    assert_eq!(points(&found), [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (9, 5.0), (10, 6.0)]);
    assert_eq!(collector.seen_tags().iter().collect::<Vec<_>>(), ["acc"]);
    let problem = format!(
        "{} has \"acc\" at byte {} in an object that is printed over several lines, which is not read; a report is printed \
         on one line",
        path.display(),
        log.find("    \"acc\"").unwrap()
    );
    assert_eq!(collector.problems().iter().map(ToString::to_string).collect::<Vec<_>>(), [problem]);
}

#[test]
fn unbalanced_bracket_hides_no_reports() {
    for (text, expected) in [
        ("starting {\nacc=1\nacc=2\n", vec![1.0, 2.0]),
        ("[\nacc: 1\n\"acc\": 2\n", vec![1.0, 2.0]),
        ("{\n{\"acc\": 1}\n{\"acc\": 2}\n", vec![1.0, 2.0]),
        ("{\n  \"a\": 1,\nacc=1\n  \"b\": 2\n}\nacc=2\n", vec![1.0, 2.0]),
        ("{\n  \"a\": {\n    \"b\": 1\n  }\nacc=1\nacc=2\n", vec![1.0, 2.0]),
    ] {
        let folder = TempDir::new().unwrap();
        write(&folder.path().join("stdout.log"), text);
        let values: Vec<f64> = points(&collector(folder.path(), &[]).finish()).iter().map(|point| point.1).collect();
        assert_eq!(values, expected, "{text}");
    }
    let folder = TempDir::new().unwrap();
    let long = "x".repeat(MAX_LINE_BYTES + 1);
    write(&folder.path().join("stdout.log"), format!("{{\n{long}\n\"acc\": 1\n"));
    assert_eq!(points(&collector(folder.path(), &[]).poll()), [(1, 1.0)]);
}

#[test]
fn line_that_cannot_be_read_is_a_problem_of_a_metric_without_reports() {
    for (text, problem) in [
        (
            "start\nacc: none\nacc=0,93\n",
            "the line \"acc=0,93\" on standard output is not a report of \"acc\": print the number with a decimal point and \
             without separators of thousands",
        ),
        (
            "epoch 1 acc 0.43",
            "the line \"epoch 1 acc 0.43\" on standard output is not a report of \"acc\": print an equals sign or a colon \
             between the name and the value",
        ),
        (
            "acc: computing\nacc: none\n",
            "the line \"acc: computing\" on standard output is not a report of \"acc\": print one number after the sign, such \
             as 0.93",
        ),
        (
            "Train acc: 0.99\nTest acc: 0.8\nTest acc: 0.7\nBest acc: 0.8\n",
            "lines of standard output with \"Test acc\" or \"Train acc\" are not reports of \"acc\"; to tune by one of them, make \
             it the metric's tag",
        ),
    ] {
        let folder = TempDir::new().unwrap();
        write(&folder.path().join("stdout.log"), text);
        let mut collector = collector(folder.path(), &[]);
        assert_eq!((collector.poll(), collector.finish()), (vec![], vec![]));
        assert_eq!(collector.problems().iter().map(ToString::to_string).collect::<Vec<_>>(), [problem]);
        assert!(!collector.seen_tags().contains("acc"), "{text}");
        collector.finish();
        assert_eq!(collector.problems().len(), 1);

        // A metric with a report needs no cure.
        write(&folder.path().join("stdout.log"), "acc=0.5\nacc=0,93\nacc 0.43\n");
        let mut reported = super::super::tests::collector(folder.path(), &[]);
        assert_eq!(points(&reported.finish()), [(1, 0.5)]);
        assert!(reported.problems().is_empty());
        let known = [measured_over_http()];
        write(&folder.path().join("stdout.log"), "acc=0,93\n");
        let mut reported = super::super::tests::collector(folder.path(), &known);
        assert_eq!(reported.finish(), []);
        assert!(reported.problems().is_empty());
    }
}

fn measured_over_http() -> tunesmith_domain::Measurement {
    let metrics = vec![tunesmith_domain::MetricValue { metric: "acc".to_owned(), value: 0.5 }];
    let key = ReportKey::Http;
    tunesmith_domain::Measurement { step: 1, wall_time_secs: 0.0, elapsed_secs: None, key, metrics }
}

#[test]
fn step_that_is_none_is_replaced_with_a_notice() {
    let folder = TempDir::new().unwrap();
    write(&folder.path().join("stdout.log"), "acc=0.1 step=5\nacc=0.2 step=1.5\nacc=0.3 step=-1\n");
    let mut collector = collector(folder.path(), &[]);
    assert_eq!(points(&collector.poll()), [(5, 0.1), (6, 0.2), (7, 0.3)]);
    assert_eq!(
        collector.problems().iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "standard output has reports with step=1.5, which is not a whole number of at least 0; such reports are counted \
          instead"
        ]
    );
}

#[test]
fn excerpt_of_a_long_line_shows_the_name() {
    let folder = TempDir::new().unwrap();
    let line = format!("{}acc=0,93 {}\n", "- ".repeat(500), "+".repeat(1000));
    write(&folder.path().join("stdout.log"), line);
    let mut collector = collector(folder.path(), &[]);
    collector.finish();
    let [CollectError::UnreadLine { excerpt, .. }] = collector.problems() else { panic!() };
    assert!(excerpt.starts_with("…- - ") && excerpt.contains("acc=0,93 +++") && excerpt.ends_with("+…"), "{excerpt}");
    assert_eq!(excerpt.chars().count(), 122);
}
