//! Signals handled by a server.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Handles SIGXFSZ, which would kill the process, while the returned value exists: writes beyond a file size limit fail
/// instead.
pub(super) fn failing_writes_beyond_limits() -> io::Result<Signal> {
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))
}

pub(super) struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl EndSignals {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
