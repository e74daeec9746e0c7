//! Arguments that select the executor of jobs.

use clap::{Args, Command, FromArgMatches, ValueEnum};

use crate::executors::{ExecutorKind, ExecutorOptions};
use tunesmith_config::{ExecutorConfig, KubernetesConfig, RayConfig, SlurmConfig};

#[derive(Debug, Clone, Default, Args)]
pub(super) struct ExecutorArgs {
    /// Executor that runs the programs. An existing data folder keeps its executor.
    #[arg(long, value_enum, env = "TUNESMITH_EXECUTOR")]
    executor: Option<ExecutorKind>,
    #[command(flatten)]
    slurm: SlurmConfig,
    #[command(flatten)]
    ray: RayConfig,
    #[command(flatten)]
    kubernetes: KubernetesConfig,
}

impl ExecutorArgs {
    /// Name of the selected executor.
    pub(super) fn name(&self) -> Option<&'static str> {
        self.executor.map(ExecutorKind::as_str)
    }

    /// Options from the arguments, falling back to the server configuration. Arguments do not override settings of
    /// named executors, of which there may be several.
    pub(super) fn options(&self, config: &ExecutorConfig) -> ExecutorOptions {
        let Self { executor, slurm, ray, kubernetes } = self.clone();
        let configured = config.name.as_deref().and_then(|name| ExecutorKind::from_str(name, false).ok());
        let default = config.name.clone().filter(|name| executor.is_none() && config.named.contains_key(name));
        let config = ExecutorConfig {
            slurm: slurm.over(&config.slurm),
            ray: ray.over(&config.ray),
            kubernetes: kubernetes.over(&config.kubernetes),
            ..config.clone()
        };
        ExecutorOptions { kind: executor.or(configured), default, config, ..ExecutorOptions::default() }
    }

    /// Whether programs run on this machine, judging by the arguments.
    pub(super) fn is_local(&self) -> bool {
        !matches!(self.executor, Some(ExecutorKind::Slurm | ExecutorKind::Ray | ExecutorKind::Kubernetes))
    }
}

/// Options from the environment, for commands without [`ExecutorArgs`] on a data folder that has an executor.
///
/// # Errors
/// If a value is invalid.
pub(super) fn executor_options_of_environment() -> anyhow::Result<ExecutorOptions> {
    let matches = ExecutorArgs::augment_args(Command::new("tunesmith")).try_get_matches_from(["tunesmith"])?;
    let args = ExecutorArgs { executor: None, ..ExecutorArgs::from_arg_matches(&matches)? };
    Ok(args.options(&ExecutorConfig::default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_config::Words;

    #[test]
    fn options_of_sbatch_are_words_as_in_a_shell() {
        let arguments = ["tunesmith", "--slurm-options", "--mem=50 --comment='a b'", "--slurm-options", "--exclusive"];
        let matches = ExecutorArgs::augment_args(Command::new("tunesmith")).get_matches_from(arguments);
        let args = ExecutorArgs::from_arg_matches(&matches).unwrap();
        let words: Vec<String> = args.slurm.options.into_iter().flat_map(|Words(words)| words).collect();
        assert_eq!(words, ["--mem=50", "--comment=a b", "--exclusive"]);
    }
}
