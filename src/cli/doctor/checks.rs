//! Machine checks: processors, disk, locks, clock, ports, store.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::Finding;
use crate::cli::progress::duration_text;
use crate::composition;
use tunesmith_algorithms::rounded::Rounded;
use tunesmith_data_dir::{DataDir, DataDirError};
use tunesmith_store::{Contents, read_all};

/// Free space thresholds for a warning and for an error. Guesses.
const LITTLE_SPACE: u64 = 1 << 30;
const NO_SPACE: u64 = 20 << 20;
/// Harmless difference between the clock and file timestamps.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);
/// Lower bound for a plausible clock: 2025-01-01.
const EARLIEST: Duration = Duration::from_secs(1_735_689_600);

pub(super) fn processors() -> Finding {
    let count = composition::processors();
    let noun = if count.get() == 1 { "processor" } else { "processors" };
    Finding::ok("machine", format!("{count} {noun}: the usual limit for maxParallelTrials"))
}

/// Checks free space on the data folder's file system.
pub(super) fn space(data_dir: &Path) -> Finding {
    const CHECK: &str = "disk";
    let folder = existing(data_dir);
    let found = match rustix::fs::statvfs(&folder) {
        Ok(found) => found,
        Err(error) => {
            return Finding::error(CHECK, format!("{}: {error}", folder.display()), "choose another --data-dir");
        }
    };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let text = format!(
        "{} GiB free for {}",
        Rounded((free as f64 / f64::from(1 << 30) * 10.0).round() / 10.0),
        data_dir.display()
    );
    let advice =
        "free some space, or choose another --data-dir: environments of Python packages are often larger than 1 GiB";
    match free {
        0..NO_SPACE => Finding::error(CHECK, text, advice),
        NO_SPACE..LITTLE_SPACE => Finding::warning(CHECK, text, advice),
        _ => Finding::ok(CHECK, text),
    }
}

/// Checks that files in the data folder can be written and locked.
pub(super) fn locks(data_dir: &Path) -> Finding {
    const CHECK: &str = "files";
    let folder = existing(data_dir);
    let check = || {
        let mut file = tempfile::tempfile_in(&folder)?;
        file.write_all(b"tunesmith")?;
        file.sync_all()?;
        file.lock()
    };
    match check() {
        Ok(()) => Finding::ok(CHECK, format!("{} can be written and locked", folder.display())),
        Err(error) => Finding::error(
            CHECK,
            format!("{} cannot be written and locked: {error}", folder.display()),
            "choose a --data-dir that you may write, on a local disk or a network file system with locks",
        ),
    }
}

/// Checks the clock against a fixed date and file timestamps.
pub(super) fn clock(data_dir: &Path) -> Finding {
    const CHECK: &str = "clock";
    const ADVICE: &str = "synchronise the clock, for instance with systemd-timesyncd or chrony: leases, time limits and \
                          time stamps depend on it";
    let now = SystemTime::now();
    let shown = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S UTC");
    if now < SystemTime::UNIX_EPOCH + EARLIEST {
        return Finding::error(CHECK, format!("it is {shown} by the clock of this machine"), ADVICE);
    }
    let written = tempfile::tempfile_in(existing(data_dir)).and_then(|mut file| {
        file.write_all(b"tunesmith")?;
        file.metadata()?.modified()
    });
    // The file check reports an unwritable folder.
    let Ok(written) = written else { return Finding::ok(CHECK, shown.to_string()) };
    let difference = written.duration_since(now).unwrap_or_else(|error| error.duration());
    if difference > CLOCK_TOLERANCE {
        let difference = duration_text(difference.as_secs_f64());
        return Finding::warning(
            CHECK,
            format!("{shown}, but time stamps of new files differ by {difference}"),
            ADVICE,
        );
    }
    Finding::ok(CHECK, shown.to_string())
}

/// Checks that a loopback port can be bound for trial reports.
pub(super) fn report_port() -> Finding {
    const CHECK: &str = "reports";
    match TcpListener::bind((Ipv4Addr::LOCALHOST, 0)) {
        Ok(_) => Finding::ok(CHECK, "ports of 127.0.0.1 are free for reports of trials"),
        Err(error) => Finding::error(
            CHECK,
            format!("no port of 127.0.0.1 can be bound: {error}"),
            "check that the loopback interface is up (ip link show lo), and the limits of this container",
        ),
    }
}

pub(super) fn listen_port(address: SocketAddr) -> Finding {
    const CHECK: &str = "server";
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok(CHECK, format!("{address} is free for tunesmith serve")),
        Err(error) => Finding::warning(
            CHECK,
            format!("{address} cannot be bound: {error}"),
            "for a server, give another address with --listen; 127.0.0.1:0 takes a free port",
        ),
    }
}

/// Checks that every record of the data folder's store is readable.
pub(super) async fn store(data_dir: &Path) -> Finding {
    const CHECK: &str = "store";
    let folder = match DataDir::open_read_only(data_dir, "tunesmith doctor") {
        Ok(folder) => folder,
        Err(DataDirError::NoStore { .. }) => {
            return Finding::ok(CHECK, format!("{} has none yet; the first job makes one", data_dir.display()));
        }
        Err(error @ (DataDirError::InUse { .. } | DataDirError::SledInUse { .. })) => {
            return Finding::warning(CHECK, error.to_string(), "end that process, or address it with --server");
        }
        Err(error) => return unreadable(data_dir, &anyhow::Error::from(error)),
    };
    let read = async { anyhow::Ok(read_all(&*folder.store().await?).await?) };
    match read.await {
        Ok(Contents { jobs, studies, trials, .. }) => Finding::ok(
            CHECK,
            format!(
                "{} in {} can be read completely: {jobs} jobs, {studies} studies, {trials} trials",
                folder.kind(),
                data_dir.display()
            ),
        ),
        Err(error) => unreadable(data_dir, &error),
    }
}

fn unreadable(data_dir: &Path, error: &anyhow::Error) -> Finding {
    Finding::error(
        "store",
        format!("{} cannot be read: {error:#}", data_dir.display()),
        "restore the folder from a backup, or choose another --data-dir",
    )
}

/// Innermost existing folder of `path`.
fn existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.ancestors().find(|folder| folder.is_dir()).map_or_else(|| PathBuf::from("/"), Path::to_owned)
}
