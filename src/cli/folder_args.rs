//! Arguments of the commands that work on a data folder.

use clap::{Args, ValueEnum};

use crate::composition::ContainerOptions;
use crate::data_dir::StoreKind;

/// The default data folder: a folder in the current one, visible to its user.
pub(super) const DEFAULT_DATA_DIR: &str = ".tunesmith";

/// How containers are started.
#[derive(Debug, Args)]
pub(super) struct ContainerArgs {
    /// Options of docker or podman before `run`, separated by spaces.
    #[arg(
        long = "container-options",
        value_name = "OPTIONS",
        env = "TUNESMITH_CONTAINER_OPTIONS",
        value_delimiter = ' '
    )]
    #[arg(allow_hyphen_values = true)]
    options: Vec<String>,
    /// Options of docker or podman after `run`, separated by spaces.
    #[arg(
        long = "container-run-options",
        value_name = "OPTIONS",
        env = "TUNESMITH_CONTAINER_RUN_OPTIONS",
        value_delimiter = ' '
    )]
    #[arg(allow_hyphen_values = true)]
    run_options: Vec<String>,
}

impl ContainerArgs {
    /// Returns the options that the arguments give.
    pub(super) fn options(&self) -> ContainerOptions {
        ContainerOptions { engine: self.options.clone(), run: self.run_options.clone() }
    }
}

/// Returns the options that the environment gives to commands without [`ContainerArgs`].
pub(super) fn container_options_of_environment() -> ContainerOptions {
    let words = |name: &str| {
        let text = std::env::var(name).unwrap_or_default();
        text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    ContainerOptions { engine: words("TUNESMITH_CONTAINER_OPTIONS"), run: words("TUNESMITH_CONTAINER_RUN_OPTIONS") }
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
