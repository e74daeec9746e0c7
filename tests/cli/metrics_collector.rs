//! The collector with trainers that use the real packages and write while it reads.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use tempfile::TempDir;
use tunesmith_domain::{Measurement, ReportKey};
use tunesmith_metrics::{Collector, CollectorConfig};
use tunesmith_testing::python;

/// Prelude of every trainer. `wait_for_poll()` returns after the test has polled.
const PRELUDE: &str = "
import os, sys
def wait_for_poll():
    print('poll', flush=True)
    sys.stdin.readline()
job_dir = os.environ['JOB_DIR']
";

fn collector(folder: &Path, tag: &str) -> Collector {
    let config = CollectorConfig {
        attempt: 1,
        tags: vec![tag.to_owned()],
        metric_file: folder.join("hypertune").join("output.metrics").into(),
        event_dir: Some(folder.join("job").into()),
        stdout: None,
    };
    Collector::new(config, &[])
}

fn start(folder: &Path, script: &str) -> Child {
    tunesmith_testing::program(python::interpreter(&python::REPORTERS))
        .args(["-c", &format!("{PRELUDE}{script}")])
        .env("CLOUD_ML_HP_METRIC_FILE", folder.join("hypertune").join("output.metrics"))
        .env("CLOUD_ML_TRIAL_ID", "1")
        .env("JOB_DIR", folder.join("job"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs `script`, polls at each of its calls of `wait_for_poll` and finishes after its end. Returns the result of each
/// reading.
fn run_with_polls(folder: &Path, script: &str, collector: &mut Collector) -> Vec<Vec<Measurement>> {
    let mut trainer = start(folder, script);
    let mut input = trainer.stdin.take().unwrap();
    let mut found = Vec::new();
    for line in BufReader::new(trainer.stdout.take().unwrap()).lines() {
        assert_eq!(line.unwrap(), "poll");
        found.push(collector.poll());
        writeln!(input).unwrap();
    }
    assert!(trainer.wait().unwrap().success());
    found.push(collector.finish());
    found
}

fn points(measurements: &[Measurement], tag: &str) -> Vec<(i64, f64)> {
    measurements.iter().map(|report| (report.step, report.value(tag).unwrap())).collect()
}

#[test]
fn hypertune_reports_are_complete_if_polled_often_enough() {
    let folder = TempDir::new().unwrap();
    let script = "
import hypertune
reporter = hypertune.HyperTune()
for step in range(1, 301):
    reporter.report_hyperparameter_tuning_metric('loss', 1.0, step)
    reporter.report_hyperparameter_tuning_metric('val/acc', step / 1000, step)
    if step % 50 == 0 and step < 300:
        wait_for_poll()
reporter.report_hyperparameter_tuning_metric('val/acc', float('nan'), 301)
reporter.report_hyperparameter_tuning_metric('val/acc', float('-inf'))
reporter.report_hyperparameter_tuning_metric('val/acc', 1e-5, 302, 'gs://bucket/{\"a\"}')
";
    let mut collector = collector(folder.path(), "val/acc");
    let found = run_with_polls(folder.path(), script, &mut collector).concat();
    let points = points(&found, "val/acc");
    // The last window of 100 lines ends with three reports, so it begins within step 252.
    let missed = 251..=251;
    let expected: Vec<(i64, f64)> =
        (1..=300).filter(|step| !missed.contains(step)).map(|step| (step, step as f64 / 1000.0)).collect();
    assert_eq!(points[..expected.len()], expected);
    let [(301, nan), (0, f64::NEG_INFINITY), (302, 1e-5)] = points[expected.len()..] else {
        panic!("{points:?}");
    };
    assert!(nan.is_nan());
    assert!(
        found.iter().all(|report| report.key == ReportKey::MetricFile { attempt: 1 } && report.wall_time_secs > 1.7e9)
    );
    assert_eq!(collector.seen_tags().iter().collect::<Vec<_>>(), ["loss", "val/acc"]);
    assert!(collector.problems().is_empty());
}

#[test]
fn hypertune_at_full_speed_yields_only_correct_reports_and_the_newest_hundred() {
    const REPORTS: i64 = 3_000;
    let folder = TempDir::new().unwrap();
    let script = format!(
        "
import hypertune
reporter = hypertune.HyperTune()
for step in range(1, {REPORTS} + 1):
    reporter.report_hyperparameter_tuning_metric('acc', step * 7919 % 10007, step, 'x' * (step % 97))
"
    );
    let mut collector = collector(folder.path(), "acc");
    let mut trainer = start(folder.path(), &script);
    let mut found = Vec::new();
    let mut useful_polls = 0;
    let status = loop {
        let batch = collector.poll();
        useful_polls += usize::from(!batch.is_empty());
        found.extend(batch);
        if let Some(status) = trainer.try_wait().unwrap() {
            break status;
        }
    };
    assert!(status.success());
    found.extend(collector.finish());
    assert!(useful_polls > 0, "nothing was read while the trainer ran");
    for (step, value) in points(&found, "acc") {
        assert_eq!(value, (step * 7919 % 10007) as f64, "step {step}");
    }
    let mut steps: Vec<i64> = found.iter().map(|report| report.step).collect();
    steps.sort_unstable();
    assert_eq!(steps[steps.len() - 100..], (REPORTS - 99..=REPORTS).collect::<Vec<_>>());
    steps.dedup();
    assert_eq!(steps.len(), found.len(), "duplicate report");
    assert!(collector.problems().is_empty(), "{:?}", collector.problems());
}

/// The trainer closes its writers before each poll, since tensorboardX's `flush` does not write its queue.
#[test]
fn tensorboardx_subfolders_new_files_and_final_records_are_read() {
    let folder = TempDir::new().unwrap();
    let script = "
import numpy
from tensorboardX import SummaryWriter
writer = SummaryWriter(job_dir, filename_suffix='.first')
writer.add_text('note', 'hello', 0)
writer.add_histogram('weights', numpy.arange(10.0), 0)
for step in range(0, 20):
    writer.add_scalar('x y', step / 8, step)
    writer.add_scalar('loss', 1.0, step)
writer.close()
wait_for_poll()
nested = SummaryWriter(os.path.join(job_dir, 'eval', 'deep'))
nested.add_scalar('x y', float('inf'), 20)
nested.close()
wait_for_poll()
writer = SummaryWriter(job_dir, filename_suffix='.second')
writer.add_scalars('group', {'a': 1.0, 'b': 2.0}, 1)
writer.add_hparams({'lr': 0.1}, {'hparam/acc': 0.5})
writer.add_scalar('x y', 0.1, 21)
";
    let mut collector = collector(folder.path(), "x y");
    let found = run_with_polls(folder.path(), script, &mut collector);
    let first: Vec<(i64, f64)> = (0..20).map(|step| (step, step as f64 / 8.0)).collect();
    assert_eq!(points(&found[0], "x y"), first);
    assert_eq!(points(&found[1], "x y"), [(20, f64::INFINITY)]);
    assert_eq!(points(&found[2], "x y"), [(21, f64::from(0.1_f32))]);
    for tag in ["group", "hparam/acc", "loss", "x_y"] {
        assert!(collector.seen_tags().iter().any(|seen| seen.starts_with(tag)), "{tag} in {:?}", collector.seen_tags());
    }
    assert!(collector.seen_tags().iter().all(|tag| !tag.starts_with("note") && !tag.starts_with("weights")));
    assert!(collector.problems().is_empty(), "{:?}", collector.problems());
}

#[test]
fn flushed_records_of_a_killed_tensorboardx_trainer_are_read() {
    const FLUSHED: i64 = 2_000;
    let folder = TempDir::new().unwrap();
    let script = format!(
        "
from tensorboardX import SummaryWriter
writer = SummaryWriter(job_dir, flush_secs=0)
for step in range(1, {FLUSHED} + 1):
    writer.add_scalar('acc', step, step)
sys.stdin.readline()
"
    );
    let mut collector = collector(folder.path(), "acc");
    let mut trainer = start(folder.path(), &script);
    let mut found = Vec::new();
    while (found.len() as i64) < FLUSHED && trainer.try_wait().unwrap().is_none() {
        found.extend(collector.poll());
    }
    trainer.kill().unwrap();
    trainer.wait().unwrap();
    found.extend(collector.finish());
    assert_eq!(points(&found, "acc"), (1..=FLUSHED).map(|step| (step, step as f64)).collect::<Vec<_>>());
    assert!(collector.problems().is_empty(), "{:?}", collector.problems());
}
