//! gcloud flags accepted by `tunesmith run`, so that a `jobs submit training` command also runs locally.

use clap::Args;
use serde_json::json;

use super::client::{TRAINING_FLAGS, TrainingFlags, label};
use tunesmith_config::{Completion, HptuningConfig};

/// Flags of `jobs submit training` in addition to those of `run`.
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
    /// Arguments for the trainer, preceding those after `--`.
    #[arg(long, value_name = "ARG", value_delimiter = ',', allow_hyphen_values = true)]
    args: Vec<String>,
    /// Bucket for packages. No effect.
    #[arg(long, value_name = "BUCKET")]
    staging_bucket: Option<String>,
    /// Wait for the end of the job. No effect: `run` always waits.
    #[arg(long)]
    stream_logs: bool,
    /// Return before the end of the job. No effect: `run` always waits.
    #[arg(long = "async")]
    async_: bool,
    /// Never ask. No effect: `run` never asks.
    #[arg(long, short)]
    quiet: bool,
}

impl GcloudArgs {
    /// Training input fields set by the flags.
    ///
    /// # Errors
    /// If a value is invalid.
    pub(super) fn completion(&self) -> anyhow::Result<Completion> {
        let mut input = self.flags.input()?;
        if !self.packages.is_empty() {
            input.insert("packageUris".to_owned(), json!(self.packages));
        }
        Ok(Completion { input, flags: TRAINING_FLAGS, is_open: false })
    }

    /// A given flag about programs or machines, which jobs of Vertex AI describe otherwise.
    #[cfg(feature = "vizier")]
    pub(super) fn program_flag(&self) -> Option<&'static str> {
        let has_input = self.flags.input().is_ok_and(|input| !input.is_empty());
        let given = [
            ("--packages", !self.packages.is_empty()),
            ("--args", !self.args.is_empty()),
            ("a flag about machines or the runtime", has_input),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }

    /// Adds the flags' arguments and labels to `config`.
    pub(super) fn apply(&self, config: &mut HptuningConfig) {
        config.training_input.args.extend(self.args.iter().cloned());
        config.labels.extend(self.labels.iter().cloned());
    }

    /// Given flags that set no field and have no effect.
    pub(super) fn without_effect(&self) -> Vec<&'static str> {
        let given = [
            ("--staging-bucket", self.staging_bucket.is_some()),
            ("--stream-logs", self.stream_logs),
            ("--async", self.async_),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag).collect()
    }
}
