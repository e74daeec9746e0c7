//! Arguments of the commands that work on a data folder.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::composition::ContainerOptions;
use crate::data_dir::StoreKind;
use crate::server_settings::{ServerSettings, SettingsError};

/// The default data folder: a folder in the current one, visible to its user.
pub(super) const DEFAULT_DATA_DIR: &str = ".tunesmith";

/// The variables with the options of the container engine.
const ENGINE_OPTIONS: &str = "TUNESMITH_CONTAINER_OPTIONS";
const RUN_OPTIONS: &str = "TUNESMITH_CONTAINER_RUN_OPTIONS";

/// How containers are started.
#[derive(Debug, Args)]
pub(super) struct ContainerArgs {
    /// Options of docker or podman before `run`, as words of a shell: separated by spaces, with quotes.
    #[arg(long = "container-options", value_name = "OPTIONS", env = ENGINE_OPTIONS)]
    #[arg(allow_hyphen_values = true)]
    options: Vec<String>,
    /// Options of docker or podman after `run`, as words of a shell: separated by spaces, with quotes.
    #[arg(long = "container-run-options", value_name = "OPTIONS", env = RUN_OPTIONS)]
    #[arg(allow_hyphen_values = true)]
    run_options: Vec<String>,
}

impl ContainerArgs {
    /// Returns the options that the arguments give.
    ///
    /// # Errors
    /// If a quote is not closed.
    pub(super) fn options(&self) -> anyhow::Result<ContainerOptions> {
        let words = |name: &str, texts: &[String]| -> anyhow::Result<Vec<String>> {
            texts.iter().map(|text| words(name, text)).collect::<Result<Vec<_>, _>>().map(|words| words.concat())
        };
        Ok(ContainerOptions {
            engine: words("--container-options", &self.options)?,
            run: words("--container-run-options", &self.run_options)?,
        })
    }
}

/// Returns the options that the environment gives to commands without [`ContainerArgs`].
///
/// # Errors
/// If a quote is not closed.
pub(super) fn container_options_of_environment() -> anyhow::Result<ContainerOptions> {
    let of_variable = |name: &str| words(name, &std::env::var(name).unwrap_or_default());
    Ok(ContainerOptions { engine: of_variable(ENGINE_OPTIONS)?, run: of_variable(RUN_OPTIONS)? })
}

/// Splits `text` into words as a shell does. A blank text has none.
fn words(name: &str, text: &str) -> anyhow::Result<Vec<String>> {
    shlex::split(text).ok_or_else(|| anyhow::anyhow!("{name}: {text:?} has a quote that is not closed"))
}

/// The machines and limits.
#[derive(Debug, Args)]
pub(super) struct ServerConfigArgs {
    /// Server configuration: what machine types, scale tiers, accelerators, regions and runtime versions mean here, the
    /// resources and devices that programs share, and limits.
    #[arg(long, value_name = "FILE")]
    server_config: Option<PathBuf>,
}

impl ServerConfigArgs {
    /// Returns the settings of the file. Without one, they are the default.
    ///
    /// # Errors
    /// If the file has errors, or devices cannot be found.
    pub(super) fn settings(&self) -> Result<ServerSettings, SettingsError> {
        ServerSettings::load(self.server_config.as_deref())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum StoreChoice {
    /// One file; survives a loss of power. The default.
    Sqlite,
    /// Pure Rust; survives the end of the process, but not a loss of power.
    Sled,
}

impl StoreChoice {
    pub(super) fn kind(self) -> StoreKind {
        match self {
            Self::Sqlite => StoreKind::Sqlite,
            Self::Sled => StoreKind::Sled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_words_of_a_shell() {
        let args = |options: &[&str], run_options: &[&str]| {
            let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
            ContainerArgs { options: owned(options), run_options: owned(run_options) }.options()
        };
        let options = args(&[""], &["--ulimit nofile=1:1  --env 'A=b c'", "--label=\"x y\""]).unwrap();
        assert_eq!(options.engine, Vec::<String>::new());
        assert_eq!(options.run, ["--ulimit", "nofile=1:1", "--env", "A=b c", "--label=x y"]);
        let error = args(&[], &["--env 'A"]).unwrap_err();
        assert_eq!(error.to_string(), "--container-run-options: \"--env 'A\" has a quote that is not closed");
    }
}
