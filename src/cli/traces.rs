//! Traces over OTLP (HTTP, protobuf): a span for each request, under the names that OpenTelemetry has for them.

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

/// Where traces go; without it none are made. Its value and those of the other `OTEL_` variables are the exporter's.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Sends what is left when it is dropped.
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

/// What makes traces of spans, if an endpoint is set.
///
/// # Errors
/// If the exporter cannot be made of what the environment says.
pub(super) fn layer<S>() -> anyhow::Result<Option<(OpenTelemetryLayer<S, SdkTracer>, Traces)>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if std::env::var_os(ENDPOINT).is_none() {
        return Ok(None);
    }
    // The exporter's client asks for one also where nothing is encrypted. Whoever was first has installed the same.
    drop(rustls::crypto::ring::default_provider().install_default());
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_http().build()?;
    let resource = Resource::builder().with_service_name("tunesmith").build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    let tracer = provider.tracer("tunesmith");
    Ok(Some((tracing_opentelemetry::layer().with_tracer(tracer), Traces { provider })))
}
