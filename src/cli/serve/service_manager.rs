//! Messages to systemd, for units with `Type=notify`. Without such a unit, nothing is sent.

use sd_notify::NotifyState;

/// States that the server has started.
pub(super) fn started(url: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(&format!("listening on {url}"))]);
}

/// States that a reload begins.
pub(super) fn reloading() {
    let Ok(now) = NotifyState::monotonic_usec_now() else { return };
    send(&[NotifyState::Reloading, now]);
}

/// States that a reload has ended.
pub(super) fn reloaded() {
    send(&[NotifyState::Ready]);
}

/// States that the server ends, and how.
pub(super) fn stopping(status: &str) {
    send(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd cannot be notified");
    }
}
