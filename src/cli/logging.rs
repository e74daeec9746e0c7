//! Logs on standard error; how much is said is set by `TUNESMITH_LOG`, as `tracing` filters have it.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line, progress included.
    Json,
}

/// Starts logging. In text form warnings are logged and progress is shown apart; in JSON form progress is logged too.
pub(super) fn init(format: LogFormat) {
    let default = match format {
        LogFormat::Text => "warn",
        LogFormat::Json => "info",
    };
    let filter = EnvFilter::try_from_env("TUNESMITH_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => logs.with_target(false).with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
}
