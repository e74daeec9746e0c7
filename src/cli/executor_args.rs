//! Arguments that choose what runs the programs of jobs.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::folder_args::words;
use super::kubernetes_args::{KubernetesArgs, kubernetes_options_of_environment};
use crate::executors::{ExecutorKind, ExecutorOptions, NamedOptions, RayOptions};
use tunesmith_config::{ExecutorConfig, RayConfig, SlurmConfig};
use tunesmith_executor::local::shared::SharedTimes;
use tunesmith_ray::RayToken;
use tunesmith_slurm::SlurmSettings;

/// The variable with the options of `sbatch`.
const SLURM_OPTIONS: &str = "TUNESMITH_SLURM_OPTIONS";

/// The executor and its settings.
#[derive(Debug, Default, Args)]
pub(super) struct ExecutorArgs {
    /// What runs the programs. An existing data folder keeps its executor.
    #[arg(long, value_enum, env = "TUNESMITH_EXECUTOR")]
    executor: Option<ExecutorKind>,
    /// Slurm: partition of the jobs.
    #[arg(long, value_name = "NAME", env = "TUNESMITH_SLURM_PARTITION")]
    slurm_partition: Option<String>,
    /// Slurm: account of the jobs.
    #[arg(long, value_name = "NAME", env = "TUNESMITH_SLURM_ACCOUNT")]
    slurm_account: Option<String>,
    /// Slurm: quality of service of the jobs.
    #[arg(long, value_name = "NAME", env = "TUNESMITH_SLURM_QOS")]
    slurm_qos: Option<String>,
    /// Slurm: further options of sbatch, as words of a shell: separated by spaces, with quotes. May be given several times.
    #[arg(long, value_name = "OPTIONS", env = SLURM_OPTIONS, allow_hyphen_values = true)]
    slurm_options: Vec<String>,
    /// Slurm: maximum number of submissions per second; default: 10.
    #[arg(long, value_name = "N")]
    slurm_submit_rate: Option<NonZeroU32>,
    /// Slurm: seconds between two calls of squeue, each of which lists all jobs; default: 5.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    slurm_poll_interval: Option<Duration>,
    /// Slurm: seconds that a file needs at most to arrive from a node; default: 35.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    slurm_file_delay: Option<Duration>,
    /// Slurm: seconds after which the supervisor on a lost node counts as dead, and ends its program if it cannot write to
    /// the data folder; default: 60.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    slurm_lease: Option<Duration>,
    /// Ray: address of the dashboard; default: http://127.0.0.1:8265.
    #[arg(long, value_name = "URL", env = "TUNESMITH_RAY_ADDRESS")]
    ray_address: Option<String>,
    /// Ray: path of tunesmith-agent, or of tunesmith, on the nodes; without it, the agent is uploaded to the cluster.
    #[arg(long, value_name = "PATH", env = "TUNESMITH_RAY_PROGRAM")]
    ray_program: Option<PathBuf>,
    /// Ray: address of this server, as the nodes reach it; default: the address that programs of this machine get.
    #[arg(long, value_name = "URL", env = "TUNESMITH_RAY_SERVER")]
    ray_server: Option<String>,
    #[command(flatten)]
    kubernetes: KubernetesArgs,
}

/// The variable with the token of a Ray cluster. It is not an argument, which other users of the machine would see.
const RAY_TOKEN: &str = "TUNESMITH_RAY_TOKEN";

/// Interval at which a supervisor looks for requests, as a part of its lease.
const CHECKS_PER_LEASE: u32 = 60;

impl ExecutorArgs {
    /// The name of the executor that the arguments choose.
    pub(super) fn name(&self) -> Option<&'static str> {
        self.executor.map(ExecutorKind::as_str)
    }

    /// Returns the options that the arguments give, or else the server configuration.
    ///
    /// # Errors
    /// If a value is invalid.
    pub(super) fn options(&self, config: &ExecutorConfig) -> anyhow::Result<ExecutorOptions> {
        let configured = config.name.as_deref().and_then(|name| ExecutorKind::from_str(name, false).ok());
        // Flags do not replace settings of executors with names of their own, of which there may be several.
        let flags = Self::default();
        let mut named = BTreeMap::new();
        for (name, file) in &config.named {
            let options = NamedOptions {
                kind: ExecutorKind::from_str(&file.kind, false).map_err(anyhow::Error::msg)?,
                slurm: flags.slurm(&file.slurm)?,
                ray: flags.ray(&file.ray),
                kubernetes: flags.kubernetes.options(&file.kubernetes)?,
            };
            named.insert(name.clone(), options);
        }
        let default = config.name.clone().filter(|name| self.executor.is_none() && named.contains_key(name));
        Ok(ExecutorOptions {
            kind: self.executor.or(configured),
            slurm: self.slurm(&config.slurm)?,
            ray: self.ray(&config.ray),
            kubernetes: self.kubernetes.options(&config.kubernetes)?,
            named,
            default,
            placement_timeout: config.placement_timeout,
            max_running_trials: config.max_running_trials.clone(),
            ..ExecutorOptions::default()
        })
    }

    /// The settings of Slurm that the arguments give, or else `file`.
    fn slurm(&self, file: &SlurmConfig) -> anyhow::Result<SlurmSettings> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).context("--slurm-lease is too long");
        let default = SlurmSettings::default();
        let options = sbatch_options("--slurm-options", &self.slurm_options)?;
        let poll_interval = self.slurm_poll_interval.or(file.poll_interval).unwrap_or(default.poll_interval);
        let lease = self.slurm_lease.or(file.lease).unwrap_or(Duration::from_millis(default.times.lease_ms));
        Ok(SlurmSettings {
            config_file: file.config_file.clone().map(PathBuf::from),
            partition: self.slurm_partition.clone().or_else(|| file.partition.clone()),
            account: self.slurm_account.clone().or_else(|| file.account.clone()),
            qos: self.slurm_qos.clone().or_else(|| file.qos.clone()),
            options: if options.is_empty() { file.options.clone() } else { options },
            submit_rate: self
                .slurm_submit_rate
                .or_else(|| file.submit_rate.and_then(NonZeroU32::new))
                .unwrap_or(default.submit_rate),
            poll_interval,
            file_interval: poll_interval.min(default.file_interval),
            file_delay: self.slurm_file_delay.or(file.file_delay).unwrap_or(default.file_delay),
            times: SharedTimes { check_ms: millis(lease / CHECKS_PER_LEASE)?.max(1), lease_ms: millis(lease)? },
            ..SlurmSettings::default()
        })
    }

    /// The settings of Ray that the arguments give, or else `file`.
    fn ray(&self, file: &RayConfig) -> RayOptions {
        RayOptions {
            address: self.ray_address.clone().or_else(|| file.address.clone()),
            token: match &file.token_variable {
                Some(name) => RayToken::of_variable(name, |name| std::env::var_os(name)),
                None => RayToken::of_environment(RAY_TOKEN, |name| std::env::var_os(name)),
            },
            program: self.ray_program.clone().or_else(|| file.program.clone().map(PathBuf::from)),
            server: self.ray_server.clone().or_else(|| file.server.clone()),
        }
    }

    /// Whether the programs run on this machine, as far as the arguments tell.
    pub(super) fn is_local(&self) -> bool {
        !matches!(self.executor, Some(ExecutorKind::Slurm | ExecutorKind::Ray | ExecutorKind::Kubernetes))
    }
}

/// Returns the options that the environment gives to commands without [`ExecutorArgs`], on a data folder that has an
/// executor.
///
/// # Errors
/// If a quote is not closed.
pub(super) fn executor_options_of_environment() -> anyhow::Result<ExecutorOptions> {
    let slurm = SlurmSettings {
        partition: variable("TUNESMITH_SLURM_PARTITION"),
        account: variable("TUNESMITH_SLURM_ACCOUNT"),
        qos: variable("TUNESMITH_SLURM_QOS"),
        options: sbatch_options(SLURM_OPTIONS, &variable(SLURM_OPTIONS).into_iter().collect::<Vec<_>>())?,
        ..SlurmSettings::default()
    };
    let ray = RayOptions {
        address: variable("TUNESMITH_RAY_ADDRESS"),
        token: RayToken::of_environment(RAY_TOKEN, |name| std::env::var_os(name)),
        program: variable("TUNESMITH_RAY_PROGRAM").map(PathBuf::from),
        server: variable("TUNESMITH_RAY_SERVER"),
    };
    let kubernetes = kubernetes_options_of_environment()?;
    Ok(ExecutorOptions { slurm, ray, kubernetes, ..ExecutorOptions::default() })
}

pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn sbatch_options(place: &str, texts: &[String]) -> anyhow::Result<Vec<String>> {
    texts.iter().map(|text| words(place, text)).collect::<Result<Vec<_>, _>>().map(|words| words.concat())
}

/// Parses a positive number of seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<f64>().ok().filter(|number| *number > 0.0);
    let time = parsed.and_then(|number| Duration::try_from_secs_f64(number).ok());
    time.ok_or_else(|| "expected a positive number of seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_positive_numbers() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "x", "nan", "inf", "1e300"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
