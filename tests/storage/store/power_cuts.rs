//! Simulated power cuts: at any moment of a recorded run the disk holds what was synced, and any part of the rest.
//!
//! strace records the writes and syncs of a writing process. `TUNESMITH_POWER_CUTS` sets the number of moments at which the
//! files are restored, 30 by default. sled is not tested: it does not sync the device.

use std::collections::HashMap;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tunesmith_domain::{TrialId, TrialState};
use tunesmith_store::OpenMode;

use super::{Kind, child, copy, study_id};

/// The unit that a disk writes as a whole.
const SECTOR_BYTES: usize = 512;

/// One recorded system call.
#[derive(Debug)]
enum Event {
    Write { file: String, offset: usize, bytes: Vec<u8> },
    Truncate { file: String, length: usize },
    Sync { file: String },
    Acknowledged(TrialId),
}

#[tokio::test]
async fn sqlite_keeps_acknowledged_changes_after_power_cuts() {
    let cuts = std::env::var("TUNESMITH_POWER_CUTS").map_or(30, |cuts| cuts.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (base, work) = (folder.path().join("base"), folder.path().join("work"));
    std::fs::create_dir(&base).unwrap();
    drop(Kind::Sqlite.open(&base.join("store"), OpenMode::Create).unwrap());
    copy(&base, &work);
    let events = record(&work);
    let acknowledged = events.iter().filter(|event| matches!(event, Event::Acknowledged(_))).count();
    assert!(acknowledged >= 50, "only {acknowledged} acknowledged trials were recorded");

    let mut random = StdRng::seed_from_u64(1);
    let mut checked = 0;
    for cut in 0..cuts {
        let end = if cut == 0 { events.len() } else { random.random_range(1..events.len()) };
        let image = folder.path().join(format!("cut-{cut}"));
        copy(&base, &image);
        restore(&events[..end], &image, &mut random);
        let store = Kind::Sqlite
            .open(&image.join("store"), OpenMode::Existing)
            .unwrap_or_else(|error| panic!("cut {cut} after {end} of {} calls: {error:?}", events.len()));
        for event in &events[..end] {
            let Event::Acknowledged(id) = event else { continue };
            let trial = store.trial(&study_id(), *id).await.unwrap();
            assert_eq!(trial.state, TrialState::Succeeded, "trial {id}, cut {cut} after {end} calls");
            checked += 1;
        }
        drop(store);
        std::fs::remove_dir_all(image).unwrap();
    }
    println!(
        "figures: sqlite: {cuts} power cuts in {} calls, {checked} acknowledged trials found, 0 lost",
        events.len()
    );
}

/// The calls of a process that writes to the store in `folder`.
fn record(folder: &Path) -> Vec<Event> {
    let trace = folder.with_file_name("trace");
    let calls = "trace=pwrite64,ftruncate,fdatasync,fsync,write";
    let launcher = [
        "strace",
        "-f",
        "-qq",
        "-y",
        "-xx",
        "-s",
        "65536",
        "-e",
        "signal=none",
        "-e",
        calls,
        "-o",
        trace.to_str().unwrap(),
    ];
    let output = child::writer(&launcher, Kind::Sqlite, &folder.join("store"), 4, 15).output();
    let output = output.unwrap_or_else(|error| panic!("strace, which records the calls, cannot be run: {error}"));
    assert!(output.status.success(), "{output:?}");
    let mut syncs = HashMap::new();
    let text = std::fs::read_to_string(trace).unwrap();
    text.lines().filter_map(|line| parse(line, folder, &mut syncs)).flatten().collect()
}

/// The events of a line such as `30298 pwrite64(3</path in hexadecimal>, "content in hexadecimal", 5, 7) = 5`. `syncs` has
/// the files whose syncs have started, by thread: a sync has an effect when it returns.
fn parse(line: &str, folder: &Path, syncs: &mut HashMap<String, String>) -> Option<Vec<Event>> {
    let (thread, call) = line.split_once(' ')?;
    let call = call.trim_start();
    if call.starts_with("<... fsync") || call.starts_with("<... fdatasync") {
        return syncs.remove(thread).map(|file| vec![Event::Sync { file }]);
    }
    let (name, arguments) = call.split_once('(')?;
    let (_, rest) = arguments.split_once('<')?;
    let (path, rest) = rest.split_once('>')?;
    if name == "write" {
        let text = String::from_utf8_lossy(&bytes(rest.split('"').nth(1)?)).into_owned();
        let ids = text.lines().filter_map(|line| line.strip_prefix(child::ACKNOWLEDGED)?.parse().ok());
        return Some(ids.map(|id| Event::Acknowledged(TrialId(id))).collect());
    }
    let path = String::from_utf8(bytes(path)).unwrap();
    let file = Path::new(&path).strip_prefix(folder).ok()?.to_str().unwrap().to_owned();
    if file.is_empty() {
        // The folder: a file that was synced has its name.
        return None;
    }
    let number = |text: &str| text.trim_start_matches(", ").split([',', ')', ' ']).next().unwrap().parse().unwrap();
    let event = match name {
        "pwrite64" => {
            let mut parts = rest.split('"');
            let bytes = bytes(parts.nth(1)?);
            let (_, offset) = parts.next()?.trim_start_matches(", ").split_once(", ")?;
            Event::Write { file, offset: number(offset), bytes }
        }
        "ftruncate" => Event::Truncate { file, length: number(rest) },
        "fsync" | "fdatasync" if rest.contains("unfinished") => {
            syncs.insert(thread.to_owned(), file);
            return None;
        }
        "fsync" | "fdatasync" => Event::Sync { file },
        _ => return None,
    };
    Some(vec![event])
}

/// The bytes of text such as `\x2f\x74`.
fn bytes(text: &str) -> Vec<u8> {
    text.split("\\x").skip(1).map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect()
}

/// Brings the files in `image` into a state that a power cut after `events` may leave: synced calls are kept, of the others
/// any sectors.
fn restore(events: &[Event], image: &Path, random: &mut StdRng) {
    let mut files: HashMap<&str, Vec<u8>> = HashMap::new();
    let mut pending: HashMap<&str, Vec<&Event>> = HashMap::new();
    for event in events {
        match event {
            Event::Write { file, .. } | Event::Truncate { file, .. } => pending.entry(file).or_default().push(event),
            Event::Sync { file } => {
                let content = content_of(&mut files, image, file);
                for event in pending.remove(file.as_str()).unwrap_or_default() {
                    apply(event, content, &mut || true);
                }
            }
            Event::Acknowledged(_) => {}
        }
    }
    // No part of the rest, all of it, or any.
    let share: u32 = random.random_range(0..3);
    let mut files_in_order: Vec<_> = pending.into_iter().collect();
    files_in_order.sort_by_key(|(file, _)| *file);
    for (file, events) in files_in_order {
        let content = content_of(&mut files, image, file);
        for event in events {
            apply(event, content, &mut || match share {
                0 => false,
                1 => true,
                _ => random.random_range(0..2) == 0,
            });
        }
    }
    for (file, content) in files {
        std::fs::write(image.join(file), content).unwrap();
    }
}

fn content_of<'a, 'b>(files: &'a mut HashMap<&'b str, Vec<u8>>, image: &Path, file: &'b str) -> &'a mut Vec<u8> {
    files.entry(file).or_insert_with(|| std::fs::read(image.join(file)).unwrap_or_default())
}

/// Applies `event` to `content`, sector by sector, where `is_kept` returns true.
fn apply(event: &Event, content: &mut Vec<u8>, is_kept: &mut dyn FnMut() -> bool) {
    match event {
        Event::Write { offset, bytes, .. } => {
            let mut done = 0;
            while done < bytes.len() {
                let at = offset + done;
                let length = (SECTOR_BYTES - at % SECTOR_BYTES).min(bytes.len() - done);
                if is_kept() {
                    if content.len() < at + length {
                        content.resize(at + length, 0);
                    }
                    content[at..at + length].copy_from_slice(&bytes[done..done + length]);
                }
                done += length;
            }
        }
        Event::Truncate { length, .. } if is_kept() => content.resize(*length, 0),
        Event::Truncate { .. } | Event::Sync { .. } | Event::Acknowledged(_) => {}
    }
}
