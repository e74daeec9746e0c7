//! Reading what trainers report, beside plainly reading the same file.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tempfile::TempDir;
use tunesmith_domain::Measurement;
use tunesmith_metrics::{Collector, CollectorConfig};

const TAG: &str = "training/hptuning/metric";
const FIRST_REPORT_SECS: f64 = 1.7e9;

fn metrics(criterion: &mut Criterion) {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let metric_file = folder.path().join("output.metrics");
    let hypertune: String = (1..=100)
        .map(|step| {
            let timestamp = FIRST_REPORT_SECS + f64::from(step);
            format!(
                "{{\"checkpoint_path\": \"\", \"global_step\": \"{step}\", \"timestamp\": {timestamp:?}, \
                 \"{TAG}\": \"0.{step}\", \"trial\": \"1\"}}\n"
            )
        })
        .collect();
    compare(criterion, "hypertune, 100 reports", &metric_file, hypertune.as_bytes(), 100, || CollectorConfig {
        metric_file: metric_file.clone().into(),
        ..nothing()
    });

    let stdout = folder.path().join("stdout.log");
    let lines: String = (1..=1_000_000).map(|step| format!("step={step} loss=0.5 {TAG}=0.25\n")).collect();
    compare(criterion, "standard output, 1e6 lines", &stdout, lines.as_bytes(), 1_000_000, || CollectorConfig {
        stdout: Some(stdout.clone().into()),
        ..nothing()
    });

    let job_dir = folder.path().join("job");
    fs::create_dir(&job_dir).expect("the temporary folder can be written");
    let records: Vec<u8> = (0..100_000).flat_map(event_record).collect();
    let event_file = job_dir.join("events.out.tfevents.1");
    compare(criterion, "event file, 1e5 records", &event_file, &records, 100_000, || CollectorConfig {
        event_dir: Some(job_dir.clone().into()),
        ..nothing()
    });

    criterion.bench_function("poll without news", |bencher| {
        let mut collector = Collector::new(
            CollectorConfig {
                attempt: 1,
                tags: vec![TAG.to_owned()],
                metric_file: metric_file.clone().into(),
                event_dir: Some(job_dir.clone().into()),
                stdout: Some(stdout.clone().into()),
            },
            &[],
        );
        while !collector.poll().is_empty() {}
        bencher.iter(|| black_box(collector.poll()));
    });
}

/// Times a first reading of `path`, which is given `content`, and a plain one.
fn compare(
    criterion: &mut Criterion,
    name: &str,
    path: &Path,
    content: &[u8],
    reports: usize,
    config: impl Fn() -> CollectorConfig,
) {
    fs::write(path, content).expect("the temporary folder can be written");
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10).throughput(Throughput::Bytes(content.len() as u64));
    group.bench_function("collect", |bencher| {
        bencher.iter_batched(
            || Collector::new(config(), &[]),
            |mut collector| assert_eq!(read_all(&mut collector), reports),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("plain read", |bencher| bencher.iter(|| fs::read(path).map(black_box)));
    group.finish();
}

fn read_all(collector: &mut Collector) -> usize {
    let mut count = 0;
    loop {
        let batch: Vec<Measurement> = collector.poll();
        if batch.is_empty() {
            return count;
        }
        count += black_box(batch).len();
    }
}

/// A configuration without any source.
fn nothing() -> CollectorConfig {
    CollectorConfig {
        attempt: 1,
        tags: vec![TAG.to_owned()],
        metric_file: PathBuf::from("/absent").into(),
        event_dir: None,
        stdout: None,
    }
}

/// A record as tensorboardX writes it: the tag's simple value at `step`.
fn event_record(step: u32) -> Vec<u8> {
    let mut value = vec![0x0a, TAG.len() as u8];
    value.extend(TAG.as_bytes());
    value.push(0x15);
    value.extend(0.25_f32.to_le_bytes());
    let mut data = vec![0x09];
    data.extend((FIRST_REPORT_SECS + f64::from(step)).to_le_bytes());
    // Steps below 2^21 as an integer of three bytes.
    data.extend([0x10, step as u8 | 0x80, (step >> 7) as u8 | 0x80, (step >> 14) as u8 & 0x7f]);
    data.extend([0x2a, value.len() as u8 + 2, 0x0a, value.len() as u8]);
    data.extend(value);
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked_crc32c(&length).to_le_bytes(), &data, &masked_crc32c(&data).to_le_bytes()].concat()
}

fn masked_crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

criterion_group!(benches, metrics);
criterion_main!(benches);
