use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::tfrecord::masked_crc32c;
use super::*;
use tunesmith_domain::ReportKey;

/// Returns a collector of `acc` with all three sources in one folder.
pub(super) fn collector(folder: &Path, known: &[Measurement]) -> Collector {
    let config = CollectorConfig {
        attempt: 1,
        tags: vec!["acc".to_owned()],
        metric_file: folder.join("metrics").join("output.metrics").into(),
        event_dir: Some(folder.join("job").into()),
        stdout: Some(folder.join("stdout.log").into()),
    };
    Collector::new(config, known)
}

pub(super) fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Returns (step, value) of each measurement.
pub(super) fn points(measurements: &[Measurement]) -> Vec<(i64, f64)> {
    measurements.iter().map(|report| (report.step, report.value("acc").unwrap())).collect()
}

/// Returns a line in the format of `hypertune`.
pub(super) fn hypertune_line(timestamp: f64, step: i64, tag: &str, value: &str) -> String {
    format!(
        "{{\"checkpoint_path\": \"\", \"global_step\": \"{step}\", \"timestamp\": {timestamp:?}, \"trial\": \"1\", \
         \"{tag}\": \"{value}\"}}\n"
    )
}

/// Returns a record that contains `acc` as a simple value.
pub(super) fn event_record(wall_time_secs: f64, step: u8, value: f32) -> Vec<u8> {
    let mut data = vec![0x09];
    data.extend(wall_time_secs.to_le_bytes());
    data.extend([0x10, step, 0x2a, 12, 0x0a, 10, 0x0a, 3, b'a', b'c', b'c', 0x15]);
    data.extend(value.to_le_bytes());
    framed(&data)
}

pub(super) fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked_crc32c(&length).to_le_bytes(), data, &masked_crc32c(data).to_le_bytes()].concat()
}

#[test]
fn missing_files_are_not_a_problem() {
    let folder = TempDir::new().unwrap();
    let mut collector = collector(&folder.path().join("absent"), &[]);
    assert_eq!(collector.poll(), []);
    assert_eq!(collector.finish(), []);
    assert!(collector.problems().is_empty());
}

#[test]
fn all_sources_are_read_without_duplicates_also_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    write(&path.join("metrics/output.metrics"), hypertune_line(1.5, 1, "acc", "0.1"));
    write(&path.join("job/eval/events.out.tfevents.1"), event_record(2.5, 2, 0.25));
    write(&path.join("stdout.log"), "acc=0.3 step=3\n");

    let mut first = collector(path, &[]);
    let stored = first.poll();
    assert_eq!(points(&stored), [(1, 0.1), (2, 0.25), (3, 0.3)]);
    assert_eq!(
        stored.iter().map(|report| (report.key.clone(), report.wall_time_secs)).collect::<Vec<_>>(),
        [
            (ReportKey::MetricFile { attempt: 1 }, 1.5),
            (ReportKey::EventFile { folder: "eval".into() }, 2.5),
            (ReportKey::StandardOutput { attempt: 1, offset: 0 }, 0.0)
        ]
    );
    assert_eq!((first.poll(), first.finish()), (vec![], vec![]));

    let mut restarted = collector(path, &stored);
    assert_eq!((restarted.poll(), restarted.finish()), (vec![], vec![]));
    write(&path.join("stdout.log"), "acc=0.3 step=3\nacc=0.4\n");
    assert_eq!(points(&restarted.poll()), [(4, 0.4)]);
    assert_eq!(restarted.seen_tags().iter().collect::<Vec<_>>(), ["acc"]);
    assert!(restarted.problems().is_empty());
}

#[test]
fn many_reports_are_returned_in_bounded_batches() {
    let folder = TempDir::new().unwrap();
    let lines: String = (1..=200_000).map(|step| format!("step={step} acc=0.5\n")).collect();
    write(&folder.path().join("stdout.log"), &lines);
    let events: Vec<u8> = (0..100_000).flat_map(|index| event_record(f64::from(index), 1, 0.5)).collect();
    write(&folder.path().join("job/tfevents"), &events);
    let mut collector = collector(folder.path(), &[]);
    let mut total = 0;
    loop {
        let batch = collector.poll();
        assert!(batch.len() <= MAX_MEASUREMENTS_PER_POLL);
        if batch.is_empty() {
            break;
        }
        total += batch.len();
    }
    assert_eq!(total, 300_000);
}

#[test]
fn finish_without_poll_returns_all_reports() {
    let folder = TempDir::new().unwrap();
    let lines: String = (1..=100_000).map(|step| format!("step={step} acc=0.5\n")).collect();
    write(&folder.path().join("stdout.log"), lines + "acc=0.7");
    let reports = collector(folder.path(), &[]).finish();
    assert_eq!(reports.len(), 100_001);
    assert_eq!(points(&reports[100_000..]), [(100_001, 0.7)]);
}

#[test]
fn seen_tags_are_bounded() {
    let folder = TempDir::new().unwrap();
    let mut lines: String = (0..5_000).map(|index| format!("tag{index}=1\n")).collect();
    lines += &format!("{}=1\n", "x".repeat(MAX_SEEN_TAG_BYTES + 1));
    write(&folder.path().join("stdout.log"), lines);
    let mut collector = collector(folder.path(), &[]);
    assert_eq!(collector.poll(), []);
    assert_eq!(collector.seen_tags().len(), MAX_SEEN_TAGS);
}

#[test]
fn folders_and_pipes_in_place_of_files_are_noted_once_and_do_not_block() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    fs::create_dir_all(path.join("metrics/output.metrics")).unwrap();
    fs::create_dir_all(path.join("job")).unwrap();
    for pipe in ["stdout.log", "job/tfevents"] {
        let made = std::process::Command::new("mkfifo").arg(path.join(pipe)).status().unwrap();
        assert!(made.success());
    }
    let mut collector = collector(path, &[]);
    for _ in 0..3 {
        assert_eq!(collector.poll(), []);
    }
    assert_eq!(collector.finish(), []);
    let problems: Vec<String> = collector.problems().iter().map(ToString::to_string).collect();
    let expected = ["metrics/output.metrics", "stdout.log"]
        .map(|name| format!("{} is not a regular file", path.join(name).display()));
    assert_eq!(problems, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_anywhere_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        valid_head in any::<bool>(),
    ) {
        let folder = TempDir::new().unwrap();
        let path = folder.path();
        let head = if valid_head { event_record(1.0, 1, 0.5) } else { vec![] };
        write(&path.join("job/tfevents"), [&head[..], &bytes].concat());
        write(&path.join("job/framed.tfevents"), framed(&bytes));
        write(&path.join("metrics/output.metrics"), &bytes);
        write(&path.join("stdout.log"), [b"acc=", &bytes[..]].concat());
        let mut collector = collector(path, &[]);
        collector.poll();
        collector.finish();
    }

    #[test]
    fn incremental_reading_returns_the_same_as_reading_at_once(
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        lines in proptest::collection::vec("(acc|loss)[=:] ?[0-9.]{1,4}( step=[0-9]{1,3})?(\n|\r|\r\n)", 0..12),
        values in proptest::collection::vec((0..5_u8, -1.0..1.0_f32), 0..12),
    ) {
        let text = lines.concat().into_bytes();
        let events: Vec<u8> = values
            .iter()
            .enumerate()
            .flat_map(|(index, (step, value))| event_record(index as f64, *step, *value))
            .collect();
        let at_once = TempDir::new().unwrap();
        write(&at_once.path().join("stdout.log"), &text);
        write(&at_once.path().join("job/tfevents"), &events);
        let expected = collector(at_once.path(), &[]).finish();

        let growing = TempDir::new().unwrap();
        let mut live = collector(growing.path(), &[]);
        let mut cuts: Vec<(usize, usize)> =
            cuts.iter().map(|cut| (cut.index(text.len() + 1), cut.index(events.len() + 1))).collect();
        cuts.sort_unstable();
        let mut found = Vec::new();
        for (text_end, events_end) in cuts {
            write(&growing.path().join("stdout.log"), &text[..text_end]);
            write(&growing.path().join("job/tfevents"), &events[..events_end]);
            found.extend(live.poll());
        }
        write(&growing.path().join("stdout.log"), &text);
        write(&growing.path().join("job/tfevents"), &events);
        found.extend(live.finish());
        let order = |a: &Measurement, b: &Measurement| a.key.cmp(&b.key).then(a.curve_order(b));
        found.sort_by(order);
        let mut expected = expected;
        expected.sort_by(order);
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn several_metrics_are_read_from_each_source() {
    let folder = TempDir::new().unwrap();
    let config = || CollectorConfig {
        attempt: 1,
        tags: ["acc", "size", "step"].map(str::to_owned).to_vec(),
        metric_file: folder.path().join("metrics").join("output.metrics").into(),
        event_dir: Some(folder.path().join("job").into()),
        stdout: Some(folder.path().join("stdout.log").into()),
    };
    let lines = [
        hypertune_line(1.0, 3, "acc", "0.5"),
        hypertune_line(1.0, 3, "size", "7"),
        hypertune_line(2.0, 4, "size", "8"),
    ];
    write(&folder.path().join("metrics/output.metrics"), lines.concat());
    write(&folder.path().join("job/tfevents"), event_record(5.0, 6, 0.75));
    write(&folder.path().join("stdout.log"), "acc=1\nsize=2\nacc=3 size=4\nsize=5\nglobal_step=9 acc=6 step=8\n");
    let values = |measurement: &Measurement| {
        let metrics = measurement.metrics.iter().map(|metric| format!("{}={}", metric.metric, metric.value));
        format!("{} {}", measurement.step, metrics.collect::<Vec<_>>().join(" "))
    };
    let found = Collector::new(config(), &[]).finish();
    assert_eq!(
        found.iter().map(values).collect::<Vec<_>>(),
        [
            "3 acc=0.5",
            "3 size=7",
            "4 size=8",
            "6 acc=0.75",
            "1 acc=1",
            "1 size=2",
            "2 acc=3 size=4",
            "3 size=5",
            "9 acc=6 step=8"
        ]
    );
    // What is stored is not read again.
    assert_eq!(Collector::new(config(), &found).finish(), []);
    assert_eq!(Collector::new(config(), &found[1..]).finish(), found[..1]);
}

#[test]
fn events_of_one_time_and_step_count_for_each_metric() {
    let folder = TempDir::new().unwrap();
    let config = CollectorConfig {
        attempt: 1,
        tags: ["acc", "acd"].map(str::to_owned).to_vec(),
        metric_file: folder.path().join("absent").into(),
        event_dir: Some(folder.path().join("job").into()),
        stdout: None,
    };
    let first = event_record(5.0, 6, 0.75);
    let mut data = first[12..first.len() - 4].to_vec();
    let position = data.windows(3).position(|bytes| bytes == b"acc").unwrap();
    data[position + 2] = b'd';
    write(&folder.path().join("job/tfevents"), [first, framed(&data)].concat());
    let names: Vec<String> =
        Collector::new(config, &[]).finish().into_iter().flat_map(|one| one.metrics).map(|one| one.metric).collect();
    assert_eq!(names, ["acc", "acd"]);
}
