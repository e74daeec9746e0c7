//! Free space of the data folder, as metrics.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::statvfs;
use tokio::time::{MissedTickBehavior, interval};
use tunesmith_telemetry::telemetry;

/// Polling interval, below the usual one of Prometheus.
const INTERVAL: Duration = Duration::from_secs(10);

/// Updates the metrics of the file system of `folder`. Never completes.
pub(crate) async fn watch(folder: PathBuf) {
    let mut due = interval(INTERVAL);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut fails = false;
    loop {
        due.tick().await;
        // A network file system may respond slowly.
        let path = folder.clone();
        let measured = tokio::task::spawn_blocking(move || measure(&path)).await;
        match measured {
            Ok(Ok(())) => fails = false,
            Ok(Err(error)) if !fails => {
                fails = true;
                tracing::warn!(%error, "the free disk space cannot be measured");
            }
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

fn measure(folder: &Path) -> rustix::io::Result<()> {
    let found = statvfs(folder)?;
    let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(found.f_frsize)).unwrap_or(i64::MAX);
    telemetry().disk_free.set(bytes(found.f_bavail));
    telemetry().disk_size.set(bytes(found.f_blocks));
    Ok(())
}
