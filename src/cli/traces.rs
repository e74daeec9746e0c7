//! Traces over OTLP (HTTP, protobuf): one span per request, named by OpenTelemetry conventions.

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

/// Each enables traces. The exporter reads their values and the other `OTEL_` variables.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

/// Sends remaining traces when dropped.
pub(super) struct Traces {
    provider: SdkTracerProvider,
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(error = %error, "the last traces were not sent");
        }
    }
}

/// Layer that exports spans as traces, if an endpoint is set.
///
/// # Errors
/// If the environment does not describe a valid exporter.
pub(super) fn layer<S>() -> anyhow::Result<Option<(OpenTelemetryLayer<S, SdkTracer>, Traces)>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if ENDPOINTS.into_iter().all(|name| std::env::var_os(name).is_none()) {
        return Ok(None);
    }
    // The exporter's client needs a provider even without encryption. An error means that one is already installed.
    drop(rustls::crypto::ring::default_provider().install_default());
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_http().build()?;
    let resource = Resource::builder().with_service_name("tunesmith").build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    let tracer = provider.tracer("tunesmith");
    Ok(Some((tracing_opentelemetry::layer().with_tracer(tracer), Traces { provider })))
}
