//! Settings of the sign-in at an OpenID Connect provider.

use std::collections::BTreeMap;

#[cfg(feature = "console")]
use crate::secret_file::{SecretFileError, read_secret};
use tunesmith_access::{BadGrant, Grant};
use tunesmith_config::OpenIdConnect;

/// Provider and roles of a server.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "console"), expect(dead_code, reason = "only the console signs people in"))]
pub(crate) struct SingleSignOn {
    config: OpenIdConnect,
    group_roles: BTreeMap<String, Vec<Grant>>,
    roles: Vec<Grant>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SingleSignOnError {
    #[error("openIdConnect.{field}")]
    Role {
        field: String,
        #[source]
        source: BadGrant,
    },
    #[cfg(feature = "console")]
    #[error("openIdConnect.clientSecretFile")]
    Secret(#[source] SecretFileError),
}

impl SingleSignOn {
    /// Settings of `config`.
    ///
    /// # Errors
    /// [`SingleSignOnError::Role`].
    pub(crate) fn of(config: OpenIdConnect) -> Result<Self, SingleSignOnError> {
        let groups = config.group_roles.iter();
        let group_roles =
            groups.map(|(group, roles)| Ok((group.clone(), parsed(&format!("groupRoles.{group}"), roles)?)));
        Ok(Self { group_roles: group_roles.collect::<Result<_, _>>()?, roles: parsed("roles", &config.roles)?, config })
    }

    /// Provider for a server at the address `server`.
    ///
    /// # Errors
    /// If the client's secret or the trusted certificates cannot be read.
    #[cfg(feature = "console")]
    pub(crate) fn provider(self, server: &str) -> anyhow::Result<tunesmith_console::SingleSignOn> {
        use anyhow::Context;
        use tunesmith_oidc::{DEFAULT_GROUPS_CLAIM, DEFAULT_PRINCIPAL_CLAIM, Provider, Settings};

        let Self { config, group_roles, roles } = self;
        let redirect = format!("{}{}", server.trim_end_matches('/'), tunesmith_console::LOGIN_CALLBACK);
        let http = tunesmith_client::http_client(&config.issuer).context("openIdConnect.issuer")?;
        let settings = Settings {
            client_secret: config
                .client_secret_file
                .as_deref()
                .map(read_secret)
                .transpose()
                .map_err(SingleSignOnError::Secret)?,
            issuer: config.issuer,
            client_id: config.client_id,
            scopes: config.scopes,
            principal_claim: config.principal_claim.unwrap_or_else(|| DEFAULT_PRINCIPAL_CLAIM.to_owned()),
            groups_claim: config.groups_claim.unwrap_or_else(|| DEFAULT_GROUPS_CLAIM.to_owned()),
            group_roles,
            roles,
            redirect: redirect.parse().with_context(|| format!("--public-url {server}"))?,
        };
        Ok(tunesmith_console::SingleSignOn { name: config.name, provider: Provider::new(settings, http) })
    }
}

fn parsed(field: &str, roles: &[String]) -> Result<Vec<Grant>, SingleSignOnError> {
    let grant = |(index, role): (usize, &String)| {
        role.parse().map_err(|source| SingleSignOnError::Role { field: format!("{field}[{index}]"), source })
    };
    roles.iter().enumerate().map(grant).collect()
}
