//! Arguments that limit the resources accessible to programs.

use anyhow::{Context, bail};
use clap::Args;

use crate::composition::Isolation;
use tunesmith_executor::local::{Identities, PASS_ENVIRONMENT, PassedEnvironment};

/// Default of `--log-quota`; a guess, far above the usual output of trainers.
const DEFAULT_LOG_QUOTA_MIB: u32 = 256;

/// Inherited environment and log quota of programs.
#[derive(Debug, Args)]
pub(super) struct EnvironmentArgs {
    /// Environment variable that programs inherit in addition to the documented list: NAME, PREFIX* or *. May be
    /// repeated.
    #[arg(long = "pass-environment", value_name = "NAME", env = PASS_ENVIRONMENT, value_delimiter = ',')]
    pass_environment: Vec<String>,
    /// Maximum disk space of the logs of one attempt, in MiB; 0 for no limit. A larger log keeps its head and its tail.
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_LOG_QUOTA_MIB)]
    log_quota: u32,
}

impl EnvironmentArgs {
    /// Variables selected by the arguments.
    ///
    /// # Errors
    /// If a name is invalid.
    pub(super) fn passed(&self) -> anyhow::Result<PassedEnvironment> {
        let names = self.pass_environment.iter().map(String::as_str);
        PassedEnvironment::parse(names).context("--pass-environment")
    }

    /// Log quota per attempt in bytes.
    pub(super) fn log_quota_bytes(&self) -> Option<u64> {
        Some(u64::from(self.log_quota) << 20).filter(|bytes| *bytes > 0)
    }
}

/// Users that programs run as.
#[derive(Debug, Args)]
pub(super) struct IdentityArgs {
    /// User of the programs, for a server run by root: USER, or PROJECT=USER for one project. May be repeated. By
    /// default, programs run as the user of the server.
    #[arg(long, value_name = "[PROJECT=]USER")]
    run_as: Vec<String>,
    /// Serve several principals although programs run as the user of the server, and can read and change all its files.
    /// Not needed if programs run only on Ray or Kubernetes, except for models.
    #[arg(long)]
    allow_unisolated_programs: bool,
    /// Also fetch packages from non-public addresses, such as 127.0.0.1 or 10.0.0.1, and accept requirements with
    /// addresses or paths.
    #[arg(long)]
    allow_private_package_addresses: bool,
}

impl IdentityArgs {
    /// Isolation given by the arguments. Refuses to serve several `principals` without isolation if programs run on the
    /// executor `unisolated`, as the user of the server.
    ///
    /// # Errors
    /// If a user is invalid, or several principals are not isolated.
    pub(super) fn isolation(
        &self,
        environment: &EnvironmentArgs,
        principals: usize,
        unisolated: Option<&str>,
    ) -> anyhow::Result<Isolation> {
        let identities = match Identities::parse(&self.run_as) {
            Ok(identities) => identities,
            Err(error) => bail!("--run-as: {error}"),
        };
        if let Some(executor) = unisolated
            && principals > 1
            && !identities.are_given()
            && !self.allow_unisolated_programs
        {
            bail!(
                "{principals} principals have tokens, and programs on the executor {executor} run as the user of the server: a \
                 program of one principal can read and change the data of all others, and the tokens; give --run-as USER, or \
                 accept this with --allow-unisolated-programs (docs/guide/isolation.md)"
            );
        }
        // Users who need not trust each other elsewhere would share the user of the server.
        let refuses_models = unisolated.is_none() && !identities.are_given() && !self.allow_unisolated_programs;
        Ok(Isolation {
            refuses_models,
            environment: environment.passed()?,
            identities,
            private_packages: self.allow_private_package_addresses,
            log_quota_bytes: environment.log_quota_bytes(),
            ..Isolation::default()
        })
    }
}
