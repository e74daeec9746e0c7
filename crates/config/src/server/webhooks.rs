//! Webhooks of a server.

use std::collections::BTreeSet;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use super::rules::Rules;

/// A receiver of events over HTTP. Exactly one of `url` and `urlFile` is required.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("required" = ["name"]))]
pub struct WebhookConfig {
    /// Unique name in logs and metrics: letters, digits, hyphens and underscores.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// Address of the receiver: `https://HOST[:PORT][/PATH]`.
    pub url: Option<String>,
    /// File with the address, for an address that is a secret itself, as those of Slack are.
    pub url_file: Option<String>,
    /// File with the secret of the signatures: `whsec_` and the Base64 form of 24 to 64 bytes. Required with the format
    /// `standard`, unless `secretVariable` is set.
    pub secret_file: Option<String>,
    /// Environment variable of the server with that secret.
    pub secret_variable: Option<String>,
    /// Kinds of events, such as `job.failed`, or `job.*`. All by default.
    pub events: Vec<String>,
    /// Filter of the events by `type`, `project`, `job`, `study`, `state` and `labels.KEY`, such as
    /// `project = vision AND labels.team:*`. All by default.
    pub filter: Option<String>,
    /// Form of the body: `standard` (events in JSON, as in Standard Webhooks), the default, or `slack` (one line of text in
    /// JSON, for incoming webhooks of Slack and Mattermost).
    pub format: Option<String>,
    /// Whether the receiver may have an address that is not public, and an address with `http://`.
    pub allow_private_addresses: bool,
}

impl Rules<'_> {
    /// Checks what the receivers' own crate cannot: fields that exclude each other, and paths.
    pub(super) fn check_webhooks(&mut self, webhooks: &[WebhookConfig]) {
        let mut names = BTreeSet::new();
        for (index, webhook) in webhooks.iter().enumerate() {
            let field = |name: &str| format!("webhooks[{index}].{name}");
            if !names.insert(&webhook.name) {
                self.report(
                    &field("name"),
                    format!("{:?} is the name of another webhook", webhook.name),
                    "a unique name",
                );
            }
            if webhook.url.is_some() == webhook.url_file.is_some() {
                let text = if webhook.url.is_some() { "has url and urlFile" } else { "has no address" };
                self.report(&format!("webhooks[{index}]"), text, "either url or urlFile");
            }
            if webhook.secret_file.is_some() && webhook.secret_variable.is_some() {
                let text = "has secretFile and secretVariable";
                self.report(&format!("webhooks[{index}]"), text, "one of them");
            }
            for (name, path) in [("urlFile", &webhook.url_file), ("secretFile", &webhook.secret_file)] {
                if let Some(path) = path.as_deref().filter(|path| !Path::new(path).is_absolute()) {
                    self.report(&field(name), format!("{path:?} is not absolute"), "an absolute path");
                }
            }
        }
    }
}
