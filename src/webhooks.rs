//! Webhooks, composed.

use std::sync::Arc;

use rand::Rng;

use crate::secret_file::{SecretFileError, read_secret};
use tunesmith_config::WebhookConfig;
use tunesmith_data_dir::DataDir;
use tunesmith_store::{Documents, Store};
use tunesmith_studies::clock::Clock;
use tunesmith_webhooks::{DocumentStore, Webhook, WebhookError, WebhookFields, Webhooks, Wiring};

/// Invalid webhook of a server configuration. Contains no secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebhookSettingsError {
    #[error("webhooks[{index}].{source}")]
    Field { index: usize, source: WebhookError },
    #[error("webhooks[{index}].{field}")]
    File {
        index: usize,
        field: &'static str,
        #[source]
        source: SecretFileError,
    },
    #[error("webhooks[{index}].secretVariable: the environment variable {variable} is not set")]
    Variable { index: usize, variable: String },
}

/// Webhooks of a server configuration, with their secrets.
///
/// # Errors
/// [`WebhookSettingsError`].
pub(crate) fn configured(configs: &[WebhookConfig]) -> Result<Vec<Arc<Webhook>>, WebhookSettingsError> {
    configs.iter().enumerate().map(|(index, config)| webhook(index, config).map(Arc::new)).collect()
}

fn webhook(index: usize, config: &WebhookConfig) -> Result<Webhook, WebhookSettingsError> {
    let file = |field: &'static str, path: &Option<String>| {
        let secret = path.as_ref().map(|path| read_secret(path.as_ref())).transpose();
        secret.map_err(|source| WebhookSettingsError::File { index, field, source })
    };
    let url = match &config.url {
        Some(url) => url.clone(),
        None => file("urlFile", &config.url_file)?.unwrap_or_default().trim().to_owned(),
    };
    let secret = match &config.secret_variable {
        Some(variable) => match std::env::var(variable) {
            Ok(secret) if !secret.is_empty() => Some(secret),
            _ => return Err(WebhookSettingsError::Variable { index, variable: variable.clone() }),
        },
        None => file("secretFile", &config.secret_file)?,
    };
    let fields = WebhookFields {
        name: config.name.clone(),
        url,
        secret,
        events: config.events.clone(),
        filter: config.filter.clone(),
        format: config.format.clone(),
        allow_private_addresses: config.allow_private_addresses,
    };
    Webhook::new(fields).map_err(|source| WebhookSettingsError::Field { index, source })
}

/// Webhooks of this process on `data_dir`; `None` if there are none. `store` is not observed.
///
/// # Errors
/// If no certificates are trusted.
pub(crate) fn compose(
    webhooks: &[Arc<Webhook>],
    data_dir: &DataDir,
    store: &Arc<dyn Store>,
    documents: Option<&Arc<dyn Documents>>,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Option<Arc<Webhooks>>> {
    if webhooks.is_empty() {
        return Ok(None);
    }
    let documents = match documents {
        Some(documents) => DocumentStore::Shared(Arc::clone(documents)),
        None => DocumentStore::Folder(data_dir.webhooks()),
    };
    let clock = Arc::clone(clock);
    let wiring = Wiring {
        store: Arc::clone(store),
        documents,
        server: format!("{:016x}", rand::rng().next_u64()),
        now: Arc::new(move || clock.now()),
    };
    Ok(Some(Arc::new(Webhooks::new(webhooks, wiring)?)))
}
