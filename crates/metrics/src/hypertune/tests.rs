use std::fs;

use tempfile::TempDir;

use super::super::tests::{collector, hypertune_line, points, write};
use super::*;

fn file_of(folder: &TempDir) -> std::path::PathBuf {
    folder.path().join("metrics").join("output.metrics")
}

#[test]
fn windows_of_a_rewritten_file_are_merged() {
    let folder = TempDir::new().unwrap();
    let mut collector = collector(folder.path(), &[]);
    let mut found = Vec::new();
    for newest in [50_i64, 120, 130, 220] {
        let text: String = ((newest - 99).max(1)..=newest)
            .map(|step| hypertune_line(1_700_000_000.0 + step as f64 / 8.0, step, "acc", &format!("0.{step}")))
            .collect();
        write(&file_of(&folder), text);
        found.extend(collector.poll());
    }
    assert_eq!(found.iter().map(|report| report.step).collect::<Vec<_>>(), (1..=220).collect::<Vec<_>>());
    assert!(collector.problems().is_empty());
}

#[test]
fn line_without_line_end_is_read_at_finish() {
    let folder = TempDir::new().unwrap();
    let mut collector = collector(folder.path(), &[]);
    let text = hypertune_line(1.0, 1, "acc", "0.1") + hypertune_line(2.0, 2, "acc", "0.2").trim_end();
    write(&file_of(&folder), &text);
    assert_eq!(points(&collector.poll()), [(1, 0.1)]);
    assert_eq!(points(&collector.finish()), [(2, 0.2)]);
}

#[test]
fn only_complete_lines_are_read_after_a_cut_at_any_byte() {
    let text: String = (1..4).map(|step| hypertune_line(f64::from(step), step.into(), "acc", "0.25")).collect();
    for cut in 0..text.len() {
        let folder = TempDir::new().unwrap();
        write(&file_of(&folder), &text[..cut]);
        let mut collector = collector(folder.path(), &[]);
        let expected: Vec<_> = (1..=text[..cut].matches('\n').count()).map(|step| (step as i64, 0.25)).collect();
        assert_eq!(points(&collector.poll()), expected);
        write(&file_of(&folder), &text);
        collector.poll();
        assert_eq!(collector.seen_tags().len(), 1);
        assert_eq!(collector.finish(), [], "the poll before returned the rest");
    }
}

#[test]
fn line_spliced_from_two_versions_is_rejected() {
    let old = hypertune_line(1.0, 1, "acc", "0.1") + &hypertune_line(2.0, 2, "acc", "0.2");
    let new = hypertune_line(2.0, 2, "acc", "0.2") + &hypertune_line(3.0, 3, "acc", "0.3");
    let splice = [&old[..old.len() - 10], &new[new.len() - 10..]].concat();
    assert_eq!(splice.len(), old.len());
    let file = MetricFile::new(std::path::PathBuf::from("output.metrics").into(), 1);
    let mut intake = Intake::new(vec!["acc".to_owned()], &[]);
    intake.begin_batch(usize::MAX);
    file.take_lines(&[splice.into_bytes(), new.clone().into_bytes()], false, &mut intake);
    assert_eq!(points(&intake.take_batch()), []);
    file.take_lines(&[old.into_bytes(), new.into_bytes()], false, &mut intake);
    assert_eq!(points(&intake.take_batch()), [(2, 0.2)]);
}

#[test]
fn values_steps_and_tags_are_read_in_every_notation() {
    let folder = TempDir::new().unwrap();
    let text = [
        r#"{"acc": "1e-05", "global_step": "1", "timestamp": 1.0}"#,
        r#"{"timestamp": 2, "global_step": 2, "acc": 0.5}"#,
        r#"{"acc": "inf", "global_step": "3", "timestamp": "3.5"}"#,
        r#"{"acc": "-inf", "timestamp": 4.5}"#,
        r#"{"acc": "0.75", "global_step": "-5", "timestamp": 5.5}"#,
        r#"{"loss": "0.75", "global_step": "6", "timestamp": 6.5, "trial": "1", "checkpoint_path": "7"}"#,
        r#"{"acc": "fine", "global_step": "7", "timestamp": 7.5, "note": "text"}"#,
        r#"{"acc": "0.1", "global_step": "1", "timestamp": 1.0}"#,
        "",
    ]
    .join("\n");
    write(&file_of(&folder), text);
    let mut collector = collector(folder.path(), &[]);
    let expected = [(1, 1e-5), (2, 0.5), (3, f64::INFINITY), (0, f64::NEG_INFINITY), (0, 0.75)];
    assert_eq!(points(&collector.poll()), expected);
    assert_eq!(collector.seen_tags().iter().collect::<Vec<_>>(), ["acc", "loss"]);
    write(&file_of(&folder), hypertune_line(9.0, 9, "acc", "nan"));
    assert!(points(&collector.poll())[0].1.is_nan());
}

#[test]
fn invalid_lines_and_huge_files_are_noted_once_and_their_reports_are_read() {
    let folder = TempDir::new().unwrap();
    let mut collector = collector(folder.path(), &[]);
    write(&file_of(&folder), "epoch,acc\n\u{0}\u{1}\n[1]\n");
    assert_eq!(collector.poll(), []);
    let report = hypertune_line(1.0, 1, "acc", "0.5");
    for extra in ["", "x"] {
        write(&file_of(&folder), "x".repeat(MAX_FILE_BYTES as usize) + extra + "\n" + &report);
        collector.poll();
    }
    let problems: Vec<String> = collector.problems().iter().map(ToString::to_string).collect();
    let path = file_of(&folder).display().to_string();
    assert_eq!(
        problems,
        [
            format!("{path} contains lines that are not hypertune reports, such as \"epoch,acc\""),
            format!(
                "{path} has {} bytes, of which only the last 4194304 are read",
                MAX_FILE_BYTES as usize + 1 + report.len()
            ),
        ]
    );
    assert_eq!(collector.seen_tags().len(), 1);
}

#[test]
fn file_replaced_by_renaming_is_read() {
    let folder = TempDir::new().unwrap();
    let mut collector = collector(folder.path(), &[]);
    write(&file_of(&folder), hypertune_line(1.0, 1, "acc", "0.5"));
    assert_eq!(collector.poll().len(), 1);
    let other = folder.path().join("new");
    write(&other, hypertune_line(2.0, 2, "acc", "0.5"));
    fs::rename(&other, file_of(&folder)).unwrap();
    assert_eq!(points(&collector.poll()), [(2, 0.5)]);
}
