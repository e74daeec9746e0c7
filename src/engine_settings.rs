//! Conversion of configured engine settings, from the server configuration, the environment and flags.

#[cfg(feature = "kubernetes")]
pub(crate) mod kubernetes;
#[cfg(feature = "ray")]
pub(crate) mod ray;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use tunesmith_config::{SlurmConfig, Words};
use tunesmith_executor::local::shared::SharedTimes;
use tunesmith_slurm::SlurmSettings;

/// Request polls of a supervisor per lease.
const CHECKS_PER_LEASE: u32 = 60;

/// Slurm settings in `config`, except those of its data folder.
///
/// # Errors
/// If the lease is too long.
pub(crate) fn slurm(config: SlurmConfig) -> anyhow::Result<SlurmSettings> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).context("slurm.lease is too long");
    let default = SlurmSettings::default();
    let poll_interval = config.poll_interval.unwrap_or(default.poll_interval);
    let lease = config.lease.unwrap_or(Duration::from_millis(default.times.lease_ms));
    Ok(SlurmSettings {
        config_file: config.config_file.map(PathBuf::from),
        partition: config.partition,
        account: config.account,
        qos: config.qos,
        options: config.options.into_iter().flat_map(|Words(words)| words).collect(),
        submit_rate: config.submit_rate.and_then(|rate| rate.try_into().ok()).unwrap_or(default.submit_rate),
        poll_interval,
        file_interval: poll_interval.min(default.file_interval),
        file_delay: config.file_delay.unwrap_or(default.file_delay),
        times: SharedTimes { check_ms: millis(lease / CHECKS_PER_LEASE)?.max(1), lease_ms: millis(lease)? },
        ..SlurmSettings::default()
    })
}

/// URL of a server; `None` unless it has a host and uses HTTP or HTTPS.
#[cfg(any(feature = "kubernetes", feature = "ray"))]
fn server_url(text: &str) -> Option<reqwest::Url> {
    text.parse().ok().filter(|url: &reqwest::Url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_sbatch_are_words_of_flags_and_of_the_file() {
        let flag: Words = "--exclusive --comment='a b'".parse().unwrap();
        let options = vec![flag, Words::from("--nice".to_owned())];
        let settings = slurm(SlurmConfig { options, ..SlurmConfig::default() }).unwrap();
        assert_eq!(settings.options, ["--exclusive", "--comment=a b", "--nice"]);
        assert_eq!("'".parse::<Words>().unwrap_err(), "\"'\" has a quote that is not closed");
    }
}
