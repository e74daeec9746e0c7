//! Limits of workers that are processes, and the thread that enforces those the kernel does not.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Default limits of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLimits {
    /// Memory of the worker with its children, in bytes.
    pub memory_bytes: u64,
    /// Its working folder, and each file that it writes, in bytes.
    pub disk_bytes: u64,
    /// Threads of numeric libraries.
    pub threads: usize,
}

impl WorkerLimits {
    /// Half of this machine's memory, 10 GiB of files, one thread. Guesses.
    pub fn of_this_machine() -> Self {
        let info = rustix::system::sysinfo();
        // The fields have the width of a word.
        #[expect(clippy::useless_conversion, reason = "they are narrower on machines of 32 bits")]
        let memory = u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit));
        Self { memory_bytes: memory / 2, disk_bytes: 10 << 30, threads: 1 }
    }
}

/// Interval between two measurements. A worker may exceed a limit for that long.
const INTERVAL: Duration = Duration::from_secs(1);

/// Entries of a working folder above which it counts as too large. A guess.
const MAX_ENTRIES: usize = 100_000;

#[derive(Debug, Clone)]
struct Watched {
    folder: PathBuf,
    limits: WorkerLimits,
    /// Exceeded limit, once the worker was killed for it.
    excess: Option<String>,
}

type Watch = (Mutex<HashMap<Pid, Watched>>, Condvar);

static WATCH: LazyLock<&'static Watch> = LazyLock::new(|| {
    let watch: &'static Watch = Box::leak(Box::new((Mutex::default(), Condvar::new())));
    if let Err(error) = std::thread::Builder::new().name("worker-watch".to_owned()).spawn(|| enforce(watch)) {
        tracing::error!(%error, "the memory and files of workers are not watched");
    }
    watch
});

/// Watches the session of the process `leader`, until [`forget`].
pub(crate) fn watch(leader: Pid, folder: &Path, limits: WorkerLimits) {
    let (workers, changed) = *WATCH;
    workers.lock().insert(leader, Watched { folder: folder.to_owned(), limits, excess: None });
    changed.notify_one();
}

/// Ends the watch of a process, which has not been waited for yet. Returns what it was killed for.
pub(crate) fn forget(leader: Pid) -> Option<String> {
    WATCH.0.lock().remove(&leader)?.excess
}

fn enforce((workers, changed): &Watch) {
    loop {
        let watched: Vec<(Pid, Watched)> = {
            let mut workers = workers.lock();
            if workers.is_empty() {
                changed.wait(&mut workers);
            }
            workers.iter().map(|(pid, worker)| (*pid, worker.clone())).collect()
        };
        let sessions = sessions(&watched);
        for (leader, worker) in &watched {
            let members = sessions.get(leader).map(Vec::as_slice).unwrap_or_default();
            let Some(excess) = excess(worker, members) else { continue };
            let mut workers = workers.lock();
            // The ID belongs to the process as long as it is watched.
            if let Some(worker) = workers.get_mut(leader) {
                worker.excess = Some(excess);
                let _ = kill_process_group(*leader, Signal::KILL);
                for (member, _) in members {
                    let _ = kill_process(*member, Signal::KILL);
                }
            }
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Members of the sessions of workers, each with its resident memory in bytes.
fn sessions(watched: &[(Pid, Watched)]) -> HashMap<Pid, Vec<(Pid, u64)>> {
    let mut sessions: HashMap<Pid, Vec<(Pid, u64)>> = watched.iter().map(|(leader, _)| (*leader, Vec::new())).collect();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(id) = id else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name of the program, in parentheses, may contain anything.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
        let session = number(3).and_then(|session| i32::try_from(session).ok()).and_then(Pid::from_raw);
        if let Some(members) = session.and_then(|session| sessions.get_mut(&session)) {
            members.push((id, kib(&entry.path().join("status"), "VmRSS:").unwrap_or(0) << 10));
        }
    }
    sessions
}

fn excess(worker: &Watched, members: &[(Pid, u64)]) -> Option<String> {
    let limits = &worker.limits;
    let mut memory: u64 = members.iter().map(|(_, resident)| resident).sum();
    if memory > limits.memory_bytes && members.len() > 1 {
        // Processes after a fork share pages.
        memory = members.iter().map(|(id, resident)| proportional(*id).unwrap_or(*resident)).sum();
    }
    if memory > limits.memory_bytes {
        let (used, allowed) = (memory >> 20, limits.memory_bytes >> 20);
        return Some(format!("it used {used} MiB of memory in {} processes; {allowed} MiB are allowed", members.len()));
    }
    let (mut bytes, mut entries) = (0, 0);
    add_size(&worker.folder, &mut bytes, &mut entries);
    if bytes > limits.disk_bytes || entries > MAX_ENTRIES {
        let (used, allowed) = (bytes >> 20, limits.disk_bytes >> 20);
        return Some(format!(
            "its working folder had {used} MiB in {entries} files; {allowed} MiB in {MAX_ENTRIES} are allowed"
        ));
    }
    None
}

/// Memory of a process in bytes, with its part of shared pages.
fn proportional(id: Pid) -> Option<u64> {
    kib(Path::new(&format!("/proc/{}/smaps_rollup", id.as_raw_nonzero())), "Pss:").map(|kib| kib << 10)
}

/// Value of a line in a file of the kernel.
fn kib(file: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse().ok()
}

/// Adds the disk space below `folder`, without following links.
fn add_size(folder: &Path, bytes: &mut u64, entries: &mut usize) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            *entries += 1;
            if *entries > MAX_ENTRIES {
                return;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            *bytes += metadata.blocks() * 512;
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
}
