//! The flags of gcloud that `tunesmith run` accepts, so that a command of `jobs submit training` also runs on this machine.

use anyhow::bail;
use clap::Args;

use super::client::{TrainingFlags, label};
use tunesmith_api::ai_platform::{Severity, Violation, check, without_effect_in_a_local_run};
use tunesmith_config::HptuningConfig;

/// Flags of `jobs submit training` beside those that `run` has itself.
#[derive(Debug, Args)]
pub(super) struct GcloudArgs {
    #[command(flatten)]
    flags: TrainingFlags,
    /// Labels of the job.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    labels: Vec<(String, String)>,
    /// Wheels and source archives of the trainer.
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',')]
    packages: Vec<String>,
    /// Arguments of the trainer, in front of those after `--`.
    #[arg(long, value_name = "ARG", value_delimiter = ',', allow_hyphen_values = true)]
    args: Vec<String>,
    /// Bucket for packages. No effect.
    #[arg(long, value_name = "BUCKET")]
    staging_bucket: Option<String>,
    /// Wait for the end of the job. No effect: `run` always does.
    #[arg(long)]
    stream_logs: bool,
    /// Return before the end of the job. No effect: `run` waits.
    #[arg(long = "async")]
    async_: bool,
    /// Never ask. No effect: `run` does not.
    #[arg(long, short)]
    quiet: bool,
}

impl GcloudArgs {
    /// Sets what the flags give in `config`. Returns the flags without a field and without effect.
    ///
    /// # Errors
    /// If a value is invalid.
    pub(super) fn apply(&self, config: &mut HptuningConfig) -> anyhow::Result<Vec<&'static str>> {
        let mut input = serde_json::to_value(&config.training_input)?;
        self.flags.apply(&mut input)?;
        let input = serde_json::from_value(input)?;
        let errors: Vec<String> = check(&input)
            .into_iter()
            .filter(|violation| violation.severity == Severity::Error)
            .map(|Violation { field, message, allowed, .. }| format!("{field}: {message}; allowed: {allowed}"))
            .collect();
        if !errors.is_empty() {
            bail!("{}", errors.join("\nerror: "));
        }
        config.training_input = input;
        if !self.packages.is_empty() {
            config.training_input.package_uris.clone_from(&self.packages);
        }
        config.training_input.args.extend(self.args.iter().cloned());
        config.labels.extend(self.labels.iter().cloned());
        config.without_effect = without_effect_in_a_local_run(&config.training_input);
        let given = [
            ("--staging-bucket", self.staging_bucket.is_some()),
            ("--stream-logs", self.stream_logs),
            ("--async", self.async_),
        ];
        Ok(given.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag).collect())
    }
}
