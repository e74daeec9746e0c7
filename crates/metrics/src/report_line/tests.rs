use std::collections::BTreeSet;

use super::*;

/// The page with the table of examples.
const PAGE: &str = include_str!("../../../../docs/reference/standard-output.md");

fn report(line: &str, tag: &str) -> Option<(f64, Option<i64>)> {
    let reading = parse(&plain_text(line.as_bytes()), tag, |_| {});
    reading.report.map(|report| (report.value, report.step))
}

fn unread(line: &str, tag: &str) -> Option<Unread> {
    parse(&plain_text(line.as_bytes()), tag, |_| {}).unread
}

fn names(line: &str, tag: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    parse(&plain_text(line.as_bytes()), tag, |name| _ = names.insert(name.to_owned()));
    names
}

/// The bytes of an example, with its escapes resolved.
fn bytes_of(example: &str) -> Vec<u8> {
    let escapes: [(&str, &[u8]); 7] = [
        ("\\e", b"\x1b"),
        ("\\a", b"\x07"),
        ("\\r", b"\r"),
        ("\\t", b"\t"),
        ("\\xff", b"\xff"),
        ("\\|", b"|"),
        ("\\\\", b"\\"),
    ];
    let mut bytes = Vec::new();
    let mut rest = example;
    while let Some(character) = rest.chars().next() {
        match escapes.iter().find(|(escape, _)| rest.starts_with(escape)) {
            Some((escape, meaning)) => {
                bytes.extend_from_slice(meaning);
                rest = &rest[escape.len()..];
            }
            None => {
                bytes.extend_from_slice(character.to_string().as_bytes());
                rest = &rest[character.len_utf8()..];
            }
        }
    }
    bytes
}

/// Rows of the tables of examples: line, value, step, remark.
fn rows() -> Vec<[&'static str; 4]> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let line = line.strip_prefix("| `").unwrap();
        let (example, rest) = line.split_once("` | ").unwrap();
        let mut cells = rest.split(" |").map(str::trim);
        [example, cells.next().unwrap(), cells.next().unwrap(), cells.next().unwrap()]
    })
    .collect()
}

#[test]
fn examples_of_the_documentation_are_read_as_stated() {
    let rows = rows();
    assert!(rows.len() > 60, "{} rows", rows.len());
    for [example, value, step, _] in rows {
        let bytes = bytes_of(example);
        // Each state of a progress bar is a line; the last one with a report counts.
        let lines = bytes.split(|byte| *byte == b'\r').filter(|line| !line.is_empty());
        let mut found = (None, None);
        for line in lines {
            let reading = parse(&plain_text(line), "acc", |_| {});
            found = (reading.report.or(found.0), reading.unread.or(found.1));
        }
        let (report, unread) = found;
        let expected_step = if step == "–" { None } else { Some(step.parse::<i64>().unwrap()) };
        match value {
            "–" => assert_eq!((report, unread), (None, None), "{example}"),
            "quoted" => assert!(report.is_none() && unread.is_some(), "{example}: {report:?}, {unread:?}"),
            "NaN" => assert!(report.is_some_and(|report| report.value.is_nan()), "{example}"),
            value => {
                let report = report.unwrap_or_else(|| panic!("{example} is not read: {unread:?}"));
                assert_eq!((report.value, report.step), (value.parse().unwrap(), expected_step), "{example}");
            }
        }
    }
}

#[test]
fn both_signs_and_every_position_of_the_step_are_accepted() {
    for (line, step) in [
        ("acc=0.5", None),
        ("acc: 0.5", None),
        ("acc = 0.5", None),
        ("  acc=0.5,step=3", Some(3)),
        ("step: 3, acc: 0.5", Some(3)),
        ("global_step=3 acc=0.5", Some(3)),
        ("global_step=3 step=1 acc=0.5", Some(3)),
        ("step=1 global_step=3 acc=0.5", Some(3)),
        ("step=3/10 acc=0.5", Some(3)),
        ("step=3.0 acc=0.5", Some(3)),
        ("my_step=3 acc=0.5", None),
        ("{'acc': 0.5, \"step\": 3}", Some(3)),
        ("{'acc': 0.5, \"step\": '3'}", Some(3)),
        ("train step: 3, trainer:step=4, acc=0.5", Some(4)),
        ("2026-01-01 12:30:45 INFO:trainer:step=3 loss=2 acc=0.4 acc=0.5.", Some(3)),
        ("100%|##| 10/10 [00:01<00:00, 9.5it/s, acc=0.5]", None),
    ] {
        assert_eq!(report(line, "acc"), Some((0.5, step)), "{line}");
    }
}

#[test]
fn steps_that_are_none_are_returned_as_text() {
    for step in ["-1", "2.5", "1e300", "1,000", "nan", "-0.5"] {
        for line in [format!("acc=0.5 step={step}"), format!("global_step: {step}, acc=0.5")] {
            let found = parse(&line, "acc", |_| {}).report.unwrap();
            assert_eq!(
                (found.step, found.bad_step.map(|text| text.trim_matches(',').to_owned())),
                (None, Some(step.to_owned())),
                "{line}"
            );
        }
    }
    let found = parse("acc=0.5 step=-1 global_step=3", "acc", |_| {}).report.unwrap();
    assert_eq!((found.step, found.bad_step), (Some(3), None));
}

#[test]
fn numbers_of_python_and_c_are_parsed() {
    for (text, value) in [
        ("1e-4", 1e-4),
        ("1E+05", 1e5),
        ("-0.25", -0.25),
        ("+3", 3.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("inf", f64::INFINITY),
        ("-inf", f64::NEG_INFINITY),
        ("Infinity", f64::INFINITY),
        ("1e999", f64::INFINITY),
    ] {
        for sign in ["=", ": ", " = "] {
            assert_eq!(report(&format!("acc{sign}{text}"), "acc"), Some((value, None)), "{text}");
        }
    }
    for text in ["nan", "NaN", "-nan", "NAN"] {
        assert!(report(&format!("acc: {text}"), "acc").unwrap().0.is_nan(), "{text}");
    }
    for (text, why) in [
        ("", Unread::NotNumber),
        ("good", Unread::NotNumber),
        ("0x10", Unread::NotNumber),
        ("1,5", Unread::Grouped),
        ("1'000", Unread::Grouped),
        ("1\u{a0}000,5", Unread::Grouped),
        ("12 345", Unread::Grouped),
        ("12:30", Unread::NotNumber),
        ("- 1", Unread::NotNumber),
        ("none", Unread::NotNumber),
        ("1.2.3", Unread::NotNumber),
        ("[0.5, 0.6]", Unread::NotNumber),
        ("max(0.5, 0.6)", Unread::NotNumber),
        ("[0.5", Unread::NotNumber),
        ("0.5(0.1)", Unread::NotNumber),
    ] {
        let line = format!("acc={text}");
        assert_eq!((report(&line, "acc"), unread(&line, "acc")), (None, Some(why)), "{text}");
    }
}

#[test]
fn tag_is_a_complete_name_of_any_characters() {
    for tag in ["training/hptuning/metric", "val.acc", "top 1 accuracy", "a:b", "a=b", "größe", "step", "Train acc"] {
        for prefix in ["", "3 ", "loss=1 ", "INFO ", "INFO:root:", "12:30 - ", "(a) ", "{'"] {
            assert_eq!(report(&format!("{prefix}{tag}=0.5"), tag), Some((0.5, None)), "{prefix}{tag}");
        }
        for prefix in ["x", "x ", "x:", "not ", "val/", "val_", "a-", "--", "Avg. "] {
            assert_eq!(report(&format!("{prefix}{tag}=0.5"), tag), None, "{prefix}{tag}");
        }
        assert_eq!(report(&format!("{tag}x=0.5"), tag), None, "{tag}");
    }
}

#[test]
fn other_names_with_numbers_are_noted() {
    let line = "12:30:45 epoch=1 val/loss: 0.3 url=http://host:80/ lr=1e-3 name=bob step=4 INFO:acc=1";
    assert_eq!(names(line, "other"), ["acc", "epoch", "lr", "val/loss"].map(str::to_owned).into());
    for (line, name) in [
        ("Train acc: 0.99", "Train acc"),
        ("INFO:root:Best val acc=1", "Best val acc"),
        ("[x] Epoch 3 Test acc=1", "Test acc"),
        ("val:acc=1", "val:acc"),
        ("top 5 acc=1", "top 5 acc"),
        ("valid_0's acc: 1", "valid_0's acc"),
        ("a=acc=1", "a=acc"),
    ] {
        assert_eq!(names(line, "acc"), [name.to_owned()].into(), "{line}");
        assert_eq!(report(line, "acc"), None, "{line}");
        assert_eq!(report(line, name).map(|found| found.0 > 0.9), Some(true), "{line}");
    }
}

#[test]
fn printed_cluster_is_no_report() {
    let cluster = r#"{"cluster": {"master": ["127.0.0.1:2222"]}, "task": {"type": "master", "index": 0, "trial": 3}}"#;
    let escaped = format!("{:?}", format!("TF_CONFIG={cluster}"));
    for line in [cluster.to_owned(), format!("TF_CONFIG: {cluster}"), escaped, cluster.replace('"', "'")] {
        assert_eq!(report(&line, "index"), None, "{line}");
        assert_eq!(names(&line, "acc"), BTreeSet::new(), "{line}");
    }
    let nested = r#"{"task": "train", "epoch": 1, "metrics": {"acc": 0.5}}"#;
    assert_eq!(report(nested, "acc"), Some((0.5, None)));
}

#[test]
fn positions_in_log_lines_and_printed_arguments_are_no_metrics() {
    for line in [
        "2026-11-22 20:58:14.123: I tensorflow/core/platform/cpu_feature_guard.cc:193] This binary is optimized",
        "I1122 20:58:14.123456 139 task.py:57] starting",
        "listening on localhost:8080",
        "python3 -m trainer.task --learning-rate=0.01 --units=32",
    ] {
        assert_eq!(names(line, "acc"), BTreeSet::new(), "{line}");
    }
    assert_eq!(report("task.py:57] acc: 3", "acc"), Some((3.0, None)));
    assert_eq!(report("acc:3", "acc"), Some((3.0, None)));
}

#[test]
fn escape_sequences_are_removed_wherever_they_stand() {
    for line in [
        "\u{1b}[32macc: 0.5\u{1b}[0m",
        "\u{1b}[1;38;5;208macc\u{1b}[0m: \u{1b}[32m0.5\u{1b}[0m",
        "old text\u{1b}[2K\u{1b}[1Gacc: 0.5\u{1b}[K",
        "\u{1b}]0;title acc=7\u{7}acc: 0.5",
        "\u{1b}]8;;http://host/\u{1b}\\acc: 0.5\u{1b}]8;;\u{1b}\\",
        "\u{1b}(B\u{1b}7acc: 0.5\u{1b}",
        "\u{9b}31macc: 0.5\u{1b}[",
        "acc: 0.5\u{1b}]0;unended",
        "acc: 0.5 \u{1b}P",
    ] {
        assert_eq!(report(line, "acc"), Some((0.5, None)), "{line:?}");
        assert_eq!(names(line, "acc"), ["acc".to_owned()].into(), "{line:?}");
    }
}
