use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::super::tests::{collector, event_record, framed, points, write};
use super::*;
use crate::{Collector, CollectorConfig, EventFolder};

/// A file written by tensorboardX: its version, and `training/hptuning/metric` = 0.5 at step 1.
const EXAMPLE: &str = "1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e743a32eced8f9d\
    2e00000000000000c5cb57fa09bfb5b0293dc0da4110012a210a1f0a18\
    747261696e696e672f687074756e696e672f6d6574726963150000003f6a0db100";

fn example() -> Vec<u8> {
    (0..EXAMPLE.len()).step_by(2).map(|index| u8::from_str_radix(&EXAMPLE[index..index + 2], 16).unwrap()).collect()
}

#[test]
fn example_is_read_after_a_cut_at_any_byte() {
    let bytes = example();
    for cut in 0..bytes.len() {
        let folder = TempDir::new().unwrap();
        let mut intake = Intake::new(vec!["training/hptuning/metric".to_owned()], &[]);
        let mut files = EventFiles::new(RootedPath::new(folder.path(), "").into(), intake.tags());
        intake.begin_batch(usize::MAX);
        write(&folder.path().join("events.out.tfevents.1"), &bytes[..cut]);
        files.read(&mut intake);
        assert_eq!(intake.take_batch(), [], "cut at {cut}");
        write(&folder.path().join("events.out.tfevents.1"), &bytes);
        files.read(&mut intake);
        let batch = intake.take_batch();
        assert_eq!((batch[0].step, batch[0].metrics[0].value), (1, 0.5));
        assert!(intake.problems().is_empty());
    }
}

#[test]
fn new_files_are_found_at_any_depth_and_read_in_the_order_of_their_paths() {
    let folder = TempDir::new().unwrap();
    let job = folder.path().join("job");
    let mut collector = collector(folder.path(), &[]);
    assert_eq!(collector.poll(), []);
    write(&job.join("b.tfevents.1"), event_record(1.0, 2, 0.5));
    write(&job.join("a/deep/er/events.out.tfevents.9.v2"), event_record(1.0, 1, 0.5));
    write(&job.join("a/model.ckpt"), event_record(1.0, 7, 0.5));
    assert_eq!(points(&collector.poll()), [(1, 0.5), (2, 0.5)]);
    for step in 3..9 {
        write(&job.join(format!("a/deep/{step}/tfevents")), event_record(1.0, step, 0.5));
        assert_eq!(points(&collector.poll()), [(step.into(), 0.5)]);
    }
    fs::remove_dir_all(&job).unwrap();
    assert_eq!((collector.poll(), collector.finish()), (vec![], vec![]));
    write(&job.join("c.tfevents"), event_record(1.0, 9, 0.5));
    assert_eq!(points(&collector.poll()), [(9, 0.5)]);
    assert!(collector.problems().is_empty());
}

#[test]
fn symbolic_links_are_followed_for_the_trusted_folder_alone() {
    let folder = TempDir::new().unwrap();
    let real = folder.path().join("real");
    write(&real.join("tfevents"), event_record(1.0, 1, 0.5));
    write(&folder.path().join("elsewhere/tfevents"), event_record(1.0, 2, 0.5));
    symlink(&real, real.join("loop")).unwrap();
    symlink(folder.path().join("elsewhere"), real.join("out")).unwrap();
    symlink(&real, folder.path().join("job")).unwrap();
    // The program may have made the link of the trial's folder.
    assert_eq!(points(&collector(folder.path(), &[]).poll()), []);
    symlink(folder.path(), folder.path().join("alias")).unwrap();
    let config = |event_dir: RootedPath| CollectorConfig {
        attempt: 1,
        tags: vec!["acc".to_owned()],
        metric_file: event_dir.join("absent"),
        event_dir: Some(event_dir.into()),
        stdout: None,
    };
    let alias = RootedPath::new(folder.path().join("alias"), "real");
    assert_eq!(points(&Collector::new(config(alias), &[]).poll()), [(1, 0.5)]);
}

#[test]
fn corrupt_record_stops_only_its_file_until_finish() {
    let folder = TempDir::new().unwrap();
    let damaged_path = folder.path().join("job/a.tfevents");
    let whole = [event_record(1.0, 1, 0.5), event_record(2.0, 2, 0.5), event_record(3.0, 3, 0.5)].concat();
    let mut damaged = whole.clone();
    let record_bytes = whole.len() / 3;
    damaged[record_bytes + 20] ^= 1;
    write(&damaged_path, &damaged);
    write(&folder.path().join("job/b.tfevents"), event_record(4.0, 4, 0.5));
    let mut collector = collector(folder.path(), &[]);
    assert_eq!(points(&collector.poll()), [(1, 0.5), (4, 0.5)]);
    assert_eq!(collector.poll(), []);
    assert_eq!(
        collector.problems().iter().map(ToString::to_string).collect::<Vec<_>>(),
        [format!(
            "{} is corrupt at byte {record_bytes}: the checksum of its data is wrong; the rest of the file is not read",
            damaged_path.display()
        )]
    );
    write(&damaged_path, &whole);
    assert_eq!(points(&collector.finish()), [(2, 0.5), (3, 0.5)]);
}

#[test]
fn record_that_is_not_an_event_is_noted_and_later_records_are_read() {
    let folder = TempDir::new().unwrap();
    let bytes = [framed(b"\x0b"), framed(b"\x08"), event_record(1.0, 1, 0.5)].concat();
    write(&folder.path().join("job/tfevents"), bytes);
    let mut collector = collector(folder.path(), &[]);
    assert_eq!(points(&collector.poll()), [(1, 0.5)]);
    assert_eq!(collector.problems().len(), 1);
}

#[test]
fn tags_are_cleaned_as_tensorboardx_does() {
    for (tag, cleaned) in [("x y", "x_y"), ("/a/b.c-d_e", "a/b.c-d_e"), ("größe:%", "größe__"), ("acc", "acc")] {
        assert_eq!(clean_tag(tag), cleaned);
    }
}

/// A collector of `acc` in the event files below `folder`, with only the folder `only`.
fn of_events(folder: EventFolder, known: &[tunesmith_domain::Measurement]) -> Collector {
    let metric_file = folder.place.join("absent");
    Collector::new(
        CollectorConfig {
            attempt: 1,
            tags: vec!["acc".to_owned()],
            metric_file,
            event_dir: Some(folder),
            stdout: None,
        },
        known,
    )
}

fn folders(measurements: &[tunesmith_domain::Measurement]) -> Vec<(&str, i64)> {
    measurements.iter().map(|one| (&**one.folder().unwrap(), one.step)).collect()
}

#[test]
fn reports_name_their_folders_and_equal_ones_of_two_folders_are_both_read() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("1");
    // Two files of one folder, as after a restart, and one with the same time and step in another.
    write(&root.join("events.out.tfevents.1"), event_record(1.0, 1, 0.5));
    write(&root.join("events.out.tfevents.2"), event_record(2.0, 2, 0.5));
    write(&root.join("logs/validation/events.out.tfevents.1"), event_record(1.0, 1, 0.25));
    let found = of_events(root.clone().into(), &[]).finish();
    assert_eq!(folders(&found), [(".", 1), (".", 2), ("logs/validation", 1)]);
    assert_eq!(of_events(root.into(), &found[1..]).finish(), found[..1]);
}

#[test]
fn only_the_named_folder_counts_and_others_explain_a_missing_metric() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("1");
    write(&root.join("train/events.out.tfevents.1"), event_record(1.0, 1, 0.5));
    write(&root.join("logs/validation/events.out.tfevents.1"), event_record(1.0, 2, 0.25));
    let only = |only: &str| EventFolder { only: Some(only.to_owned()), ..root.clone().into() };
    assert_eq!(folders(&of_events(only("validation"), &[]).finish()), [("logs/validation", 2)]);
    let mut misspelt = of_events(only("validaton"), &[]);
    assert_eq!((misspelt.poll(), misspelt.finish()), (vec![], vec![]));
    assert_eq!(
        misspelt.problems().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["event files have \"acc\" in \"logs/validation\" or \"train\", and tunesmith.metricFolder is \"validaton\""]
    );
    assert!(misspelt.seen_tags().is_empty());
}

#[test]
fn folders_of_copies_are_in_their_names() {
    let folder = TempDir::new().unwrap();
    write(&folder.path().join("train%2Fevents.out.tfevents.1"), event_record(1.0, 1, 0.5));
    write(&folder.path().join("long%+/er%2Fev%+/ents.out.tfevents.1"), event_record(1.0, 1, 0.5));
    let copies = EventFolder { has_escaped_names: true, ..folder.path().to_owned().into() };
    assert_eq!(folders(&of_events(copies, &[]).finish()), [("longer", 1), ("train", 1)]);
}

#[test]
fn event_files_beside_the_folders_of_trials_are_mentioned() {
    let folder = TempDir::new().unwrap();
    let trial = || EventFolder { job: Some(RootedPath::new(folder.path(), "")), ..folder.path().join("1").into() };
    let problems = || {
        let mut collector = of_events(trial(), &[]);
        collector.finish();
        collector.problems().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    write(&folder.path().join("2/events.out.tfevents.1"), event_record(1.0, 1, 0.5));
    assert_eq!(problems(), [""; 0]);
    let outside = folder.path().join("logs/events.out.tfevents.1");
    write(&outside, event_record(1.0, 1, 0.5));
    assert_eq!(
        problems(),
        [format!(
            "{} has no event files, but {} is outside of the trials' folders: write below the folder that --job-dir names",
            folder.path().join("1").display(),
            outside.display()
        )]
    );
    write(&folder.path().join("1/events.out.tfevents.1"), event_record(1.0, 1, 0.5));
    assert_eq!(problems(), [""; 0]);
}
