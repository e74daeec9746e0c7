//! Arguments that determine what the programs of jobs may reach.

use anyhow::{Context, bail};
use clap::Args;

use crate::composition::Isolation;
use tunesmith_executor::local::{Identities, PASS_ENVIRONMENT, PassedEnvironment};

/// Default of `--log-quota`. A guess, far above the output of usual trainers.
const DEFAULT_LOG_QUOTA_MIB: u32 = 256;

/// What programs inherit, and how much they may write to their logs.
#[derive(Debug, Args)]
pub(super) struct EnvironmentArgs {
    /// Environment variable that programs inherit in addition to the documented list: NAME, PREFIX* or *. May be given
    /// several times.
    #[arg(long = "pass-environment", value_name = "NAME", env = PASS_ENVIRONMENT, value_delimiter = ',')]
    pass_environment: Vec<String>,
    /// Maximum disk space of the logs of one attempt, in MiB; 0 for any. A larger log keeps its head and its tail.
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_LOG_QUOTA_MIB)]
    log_quota: u32,
}

impl EnvironmentArgs {
    /// Returns the variables that the arguments give.
    ///
    /// # Errors
    /// If a name is invalid.
    pub(super) fn passed(&self) -> anyhow::Result<PassedEnvironment> {
        let names = self.pass_environment.iter().map(String::as_str);
        PassedEnvironment::parse(names).context("--pass-environment")
    }

    /// Returns the quota of the logs of one attempt in bytes.
    pub(super) fn log_quota_bytes(&self) -> Option<u64> {
        Some(u64::from(self.log_quota) << 20).filter(|bytes| *bytes > 0)
    }
}

/// The users as which a server runs programs.
#[derive(Debug, Args)]
pub(super) struct IdentityArgs {
    /// User of the programs, for a server that root runs: USER, or PROJECT=USER for one project. May be given several
    /// times. By default programs run as the user of the server.
    #[arg(long, value_name = "[PROJECT=]USER")]
    run_as: Vec<String>,
    /// Serve several principals although programs run as the user of the server, and can read and change all its files. Not needed
    /// where programs run on Ray or Kubernetes only.
    #[arg(long)]
    allow_unisolated_programs: bool,
    /// Fetch packages also from addresses that are not public, such as 127.0.0.1 or 10.0.0.1, and take requirements that
    /// name addresses or paths.
    #[arg(long)]
    allow_private_package_addresses: bool,
}

impl IdentityArgs {
    /// Returns the isolation that the arguments give. Refuses to serve `principals` without one if programs run on the executor
    /// `unisolated`, as the user of the server.
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
        Ok(Isolation {
            environment: environment.passed()?,
            identities,
            private_packages: self.allow_private_package_addresses,
            log_quota_bytes: environment.log_quota_bytes(),
            ..Isolation::default()
        })
    }
}
