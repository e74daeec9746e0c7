//! Access to a bucket, with the settings of the cloud's own clients.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{DnsFuture, DnsResolver};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{Certificate, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig, StaticCredentialProvider};

use super::{ObjectAddress, ObjectError, ObjectFolder};
use tunesmith_client::{Standalone, standalone, system_has_certificates};

/// Time after which a failing request is not repeated, and maximal number of repetitions. Small, because a user may be waiting at
/// the terminal.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_RETRIES: usize = 3;

/// The variable by which the clients of Google find an emulator.
const EMULATOR: &str = "STORAGE_EMULATOR_HOST";

/// The kinds of object stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cloud {
    /// Google Cloud Storage, `gs://`.
    Google,
    /// Amazon S3, and what speaks its protocol, `s3://`.
    Amazon,
}

impl Cloud {
    /// The kind of the address `url`, and what follows its scheme; `None` if it is not that of an object store.
    pub fn of(url: &str) -> Option<(Self, &str)> {
        let google = url.strip_prefix("gs://").map(|rest| (Self::Google, rest));
        google.or_else(|| Some((Self::Amazon, url.strip_prefix("s3://")?)))
    }

    /// How to give credentials.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Google => "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account that may write there",
            Self::Amazon => "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys that may write there",
        }
    }
}

/// The object stores that this process can reach.
#[derive(Debug, Clone, Default)]
pub struct Buckets {
    variables: Arc<BTreeMap<OsString, OsString>>,
}

impl Buckets {
    /// Object stores with the settings in the environment variables `variables`.
    pub fn new(variables: BTreeMap<OsString, OsString>) -> Self {
        Self { variables: Arc::new(variables) }
    }

    /// Object stores with the settings in the environment variables of this process.
    pub fn of_environment() -> Self {
        Self::new(std::env::vars_os().collect())
    }

    /// The folder at `url`. Does no IO.
    ///
    /// # Errors
    /// [`ObjectError::Address`], [`ObjectError::Settings`].
    pub fn folder(&self, url: &str) -> Result<ObjectFolder, ObjectError> {
        ObjectFolder::open(url, &self.variables)
    }
}

/// The bucket of `address`, with the settings in the environment variables `variables`. Does no IO.
///
/// # Errors
/// If a setting is invalid.
pub fn bucket(
    address: &ObjectAddress,
    variables: &BTreeMap<OsString, OsString>,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    // It fails if one is installed.
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
                // As by default: emulators have addresses of HTTP.
                .with_client_options(client_options()?.with_allow_http(true));
            Arc::new(variables.fold(builder, google_setting).build()?)
        }
    })
}

/// The settings of HTTP clients, with the services of a standalone program if this is one.
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

/// The resolver of a standalone program.
#[derive(Debug)]
struct OwnResolver(&'static Standalone);

impl DnsResolver for OwnResolver {
    fn resolve(&self, host: &str) -> DnsFuture {
        let found = (self.0.resolve)(host.to_owned());
        Box::pin(async move { Ok(found.await?) })
    }
}

fn amazon_setting(builder: AmazonS3Builder, (name, value): (&str, &str)) -> AmazonS3Builder {
    // The name of the endpoint of one service.
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
            // An emulator takes any token. Without one, the metadata server of the cloud would be asked.
            .with_credentials(Arc::new(StaticCredentialProvider::new(GcpCredential { bearer: "emulator".to_owned() })))
            .with_config(GoogleConfigKey::Client(ClientConfigKey::AllowHttp), "true");
    }
    match name.starts_with("GOOGLE_").then(|| name.to_ascii_lowercase().parse()) {
        Some(Ok(key)) => builder.with_config(key, value),
        Some(Err(_)) | None => builder,
    }
}
