use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{DnsFuture, DnsResolver};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{Certificate, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig, StaticCredentialProvider};

use super::{Cloud, ObjectAddress};
use tunesmith_client::{Standalone, standalone, system_has_certificates};

/// Retry deadline and maximum number of retries. Small, because a user may be waiting at the terminal.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_RETRIES: usize = 3;

/// Variable by which Google's clients find an emulator.
const EMULATOR: &str = "STORAGE_EMULATOR_HOST";

pub(super) fn bucket(
    address: &ObjectAddress,
    variables: &BTreeMap<OsString, OsString>,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    // Fails if a provider is already installed.
    drop(rustls::crypto::ring::default_provider().install_default());
    let retry = RetryConfig { retry_timeout: RETRY_TIMEOUT, max_retries: MAX_RETRIES, ..RetryConfig::default() };
    let variables = variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let name = address.bucket();
    Ok(match address.cloud() {
        Cloud::Amazon => {
            let builder =
                AmazonS3Builder::new().with_bucket_name(name).with_retry(retry).with_client_options(client_options()?);
            Arc::new(variables.fold(builder, amazon_setting).build()?)
        }
        Cloud::Google => {
            let builder = GoogleCloudStorageBuilder::new()
                .with_bucket_name(name)
                .with_retry(retry)
                // The default: emulators use HTTP.
                .with_client_options(client_options()?.with_allow_http(true));
            Arc::new(variables.fold(builder, google_setting).build()?)
        }
    })
}

/// HTTP client options, including the replacements of a standalone program.
fn client_options() -> object_store::Result<ClientOptions> {
    let mut options = ClientOptions::new();
    if let Some(standalone) = standalone() {
        options = options.with_dns_resolver(Arc::new(OwnResolver(standalone)));
        if !system_has_certificates() {
            for root in standalone.roots {
                options = options.with_root_certificate(Certificate::from_der(root)?);
            }
        }
    }
    Ok(options)
}

#[derive(Debug)]
struct OwnResolver(&'static Standalone);

impl DnsResolver for OwnResolver {
    fn resolve(&self, host: &str) -> DnsFuture {
        let found = (self.0.resolve)(host.to_owned());
        Box::pin(async move { Ok(found.await?) })
    }
}

fn amazon_setting(builder: AmazonS3Builder, (name, value): (&str, &str)) -> AmazonS3Builder {
    // Endpoint variable of a single service.
    let name = if name == "AWS_ENDPOINT_URL_S3" { "AWS_ENDPOINT_URL" } else { name };
    match name.starts_with("AWS_").then(|| name.to_ascii_lowercase().parse()) {
        Some(Ok(AmazonS3ConfigKey::Endpoint)) if value.starts_with("http://") => {
            builder.with_allow_http(true).with_endpoint(value)
        }
        Some(Ok(key)) => builder.with_config(key, value),
        Some(Err(_)) | None => builder,
    }
}

fn google_setting(builder: GoogleCloudStorageBuilder, (name, value): (&str, &str)) -> GoogleCloudStorageBuilder {
    if name == EMULATOR {
        let address = if value.contains("://") { value.to_owned() } else { format!("http://{value}") };
        return builder
            .with_config(GoogleConfigKey::BaseUrl, address)
            // An emulator accepts any token. Without one, the client would query the cloud's metadata server.
            .with_credentials(Arc::new(StaticCredentialProvider::new(GcpCredential { bearer: "emulator".to_owned() })))
            .with_config(GoogleConfigKey::Client(ClientConfigKey::AllowHttp), "true");
    }
    match name.starts_with("GOOGLE_").then(|| name.to_ascii_lowercase().parse()) {
        Some(Ok(key)) => builder.with_config(key, value),
        Some(Err(_)) | None => builder,
    }
}
