//! Logging to standard error. `TUNESMITH_LOG` sets the filter, in the syntax of `tracing`.

mod journal;

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use anyhow::Context;
use clap::ValueEnum;
use jiff::Timestamp;
use serde_json::json;
use tracing::Level;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// Log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// Plain text.
    Text,
    /// One JSON object per line, progress included.
    Json,
}

/// Environment variables that request traces, which only programs built with the feature `otlp` send.
#[cfg(not(feature = "otlp"))]
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

/// Variable with the filter.
const FILTER: &str = "TUNESMITH_LOG";

/// Silences warnings of the Kubernetes client, which name no address; the executor logs each outage once, with the
/// address. Also those of the Model Context Protocol, which repeat the mistakes of clients. Overridden by a filter that
/// names the target.
const WITHOUT_CONTEXT: &str = "kube_client::client=off,rmcp=error";

/// Form of lines for people on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineForm {
    Plain,
    /// As the events of [`LogFormat::Json`].
    Json,
    /// With a priority, for systemd's journal.
    Journal,
}

static LINE_FORM: OnceLock<LineForm> = OnceLock::new();

/// Writes a line to standard error, ignoring errors. It is shown with any filter.
pub(super) fn notice(line: &str) {
    // `error:` and `warning:` are the levels of lines for people.
    let (level, message) = match line.split_once(": ") {
        Some(("error", message)) => (Level::ERROR, message),
        Some(("warning", message)) => (Level::WARN, message),
        _ => (Level::INFO, line),
    };
    let _ = match LINE_FORM.get() {
        None | Some(LineForm::Plain) => writeln!(io::stderr(), "{line}"),
        Some(LineForm::Json) => {
            let timestamp = format!("{:.6}", Timestamp::now());
            let event = json!({"timestamp": timestamp, "level": level.as_str(), "message": message});
            writeln!(io::stderr(), "{event}")
        }
        Some(LineForm::Journal) => {
            let prefix = journal::prefix(level);
            let lines: String = line.lines().map(|line| format!("{prefix}{line}\n")).collect();
            io::stderr().write_all(lines.as_bytes())
        }
    };
}

/// Stops logging when dropped.
pub(super) struct Logging {
    #[cfg(feature = "otlp")]
    _traces: Option<super::traces::Traces>,
}

/// Starts logging. The text format logs warnings, since progress is displayed separately; the JSON format also logs
/// progress.
///
/// # Errors
/// If `TUNESMITH_LOG` is not a valid filter, or if traces are enabled and the exporter cannot be created.
pub(super) fn init(format: LogFormat) -> anyhow::Result<Logging> {
    let default = match format {
        LogFormat::Text => "warn",
        LogFormat::Json => "info",
    };
    let stated = std::env::var(FILTER).ok().filter(|stated| !stated.is_empty());
    let filter = filter(stated.as_deref().unwrap_or(default))?;
    let form = match format {
        LogFormat::Json => LineForm::Json,
        LogFormat::Text if journal::is_connected() => LineForm::Journal,
        LogFormat::Text => LineForm::Plain,
    };
    let _ = LINE_FORM.set(form);
    let logs = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let logs = match form {
        LineForm::Plain => logs.with_target(false).with_ansi(io::stderr().is_terminal()).boxed(),
        LineForm::Json => logs.json().flatten_event(true).boxed(),
        LineForm::Journal => {
            let logs = logs.with_writer(journal::Journal).with_target(false).with_ansi(false);
            logs.with_level(false).without_time().boxed()
        }
    };
    let registry = tracing_subscriber::registry().with(logs.with_filter(filter));
    #[cfg(feature = "otlp")]
    {
        let (layer, traces) = super::traces::layer().context("traces over OTLP")?.unzip();
        // With spans of libraries, the exporter would trace itself.
        let ours = tracing_subscriber::filter::Targets::new().with_target("tunesmith", tracing::Level::INFO);
        registry.with(layer.with_filter(ours)).init();
        Ok(Logging { _traces: traces })
    }
    #[cfg(not(feature = "otlp"))]
    {
        registry.init();
        if let Some(variable) = ENDPOINTS.into_iter().find(|name| std::env::var_os(name).is_some()) {
            tracing::warn!(
                "{variable} is set, but this program was built without traces: build it with `--features otlp`"
            );
        }
        Ok(Logging {})
    }
}

fn filter(stated: &str) -> anyhow::Result<EnvFilter> {
    let filter = EnvFilter::try_new(format!("{WITHOUT_CONTEXT},{stated}"));
    filter.with_context(|| format!("{FILTER}={stated:?}: expected LEVEL or TARGET=LEVEL, separated by commas"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libraries_log_without_context_is_off_unless_it_is_named() {
        let shown = |stated: &str| filter(stated).unwrap().to_string();
        assert!(shown("info").contains("kube_client::client=off"), "{}", shown("info"));
        let named = shown("info,kube_client::client=debug");
        assert!(named.contains("kube_client::client=debug") && !named.contains("=off"), "{named}");
        let error = format!("{:#}", filter("info,a=loud").unwrap_err());
        assert!(error.starts_with("TUNESMITH_LOG=\"info,a=loud\": expected LEVEL"), "{error}");
    }
}
