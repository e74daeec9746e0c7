//! Arguments of commands that operate on a data folder.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use crate::composition::ContainerOptions;
use crate::server_settings::{ServerSettings, SettingsError};
use tunesmith_config::{ConfigErrors, KnownExecutor, ServerConfig};
use tunesmith_data_dir::{StoreKind, StoreSource, UnknownStoreKind};
#[cfg(feature = "postgres")]
use tunesmith_store::DatabaseAddress;

/// Default data folder, relative to the current folder.
pub(super) const DEFAULT_DATA_DIR: &str = ".tunesmith";

/// Variables with options of the container engine.
const ENGINE_OPTIONS: &str = "TUNESMITH_CONTAINER_OPTIONS";
const RUN_OPTIONS: &str = "TUNESMITH_CONTAINER_RUN_OPTIONS";

/// Container options.
#[derive(Debug, Args)]
pub(super) struct ContainerArgs {
    /// Options of docker or podman before `run`, separated by spaces and quoted as in a shell.
    #[arg(long = "container-options", value_name = "OPTIONS", env = ENGINE_OPTIONS)]
    #[arg(allow_hyphen_values = true)]
    options: Vec<String>,
    /// Options of docker or podman after `run`, separated by spaces and quoted as in a shell.
    #[arg(long = "container-run-options", value_name = "OPTIONS", env = RUN_OPTIONS)]
    #[arg(allow_hyphen_values = true)]
    run_options: Vec<String>,
}

impl ContainerArgs {
    /// Options given by the arguments.
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

/// Options from the environment, for commands without [`ContainerArgs`].
///
/// # Errors
/// If a quote is not closed.
pub(super) fn container_options_of_environment() -> anyhow::Result<ContainerOptions> {
    let of_variable = |name: &str| words(name, &std::env::var(name).unwrap_or_default());
    Ok(ContainerOptions { engine: of_variable(ENGINE_OPTIONS)?, run: of_variable(RUN_OPTIONS)? })
}

/// Splits `text` into words like a shell. Blank text has none.
pub(super) fn words(name: &str, text: &str) -> anyhow::Result<Vec<String>> {
    shlex::split(text).ok_or_else(|| anyhow::anyhow!("{name}: {text:?} has a quote that is not closed"))
}

/// Treatment of jobs in a copied data folder.
#[derive(Debug, Args)]
pub(super) struct CopyArgs {
    /// Run unfinished jobs of a data folder that was copied, or restored from a backup. By default they do not run,
    /// since the original may be running them.
    #[arg(long)]
    pub(super) resume_copied: bool,
}

/// Machines and limits.
#[derive(Debug, Args)]
pub(super) struct ServerConfigArgs {
    /// Server configuration: executors, machine types, shared resources, and limits.
    #[arg(long, value_name = "FILE")]
    server_config: Option<PathBuf>,
}

impl ServerConfigArgs {
    /// Settings from the file, for a server with `executor`; defaults without a file.
    ///
    /// # Errors
    /// If the file has errors, or devices cannot be found.
    pub(super) fn settings(&self, executor: KnownExecutor<'_>) -> Result<ServerSettings, SettingsError> {
        ServerSettings::load(self.server_config.as_deref(), executor)
    }

    /// Configuration in the file, for a server with `executor`; `None` without a file.
    ///
    /// # Errors
    /// If the file has errors.
    pub(super) fn config(&self, executor: KnownExecutor<'_>) -> Result<Option<ServerConfig>, ConfigErrors> {
        self.server_config.as_deref().map(|path| tunesmith_config::load_server(path, executor)).transpose()
    }

    #[cfg(feature = "console")]
    pub(super) fn path(&self) -> Option<&std::path::Path> {
        self.server_config.as_deref()
    }
}

/// Location of the store.
#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    /// Store of a new data folder: sqlite, a single file; sled, which may lose its latest changes in a power failure;
    /// or postgres://USER@HOST:PORT/DATABASE, which several servers share. A password in the address is visible to
    /// other users of the machine: use PGPASSWORD, PGPASSFILE or --store-password-file.
    #[arg(long, value_name = "STORE", env = "TUNESMITH_STORE", hide_env_values = true, default_value = "sqlite")]
    store: StoreText,
    /// File whose first line is the database password.
    #[arg(long, value_name = "FILE", env = "TUNESMITH_STORE_PASSWORD_FILE")]
    store_password_file: Option<PathBuf>,
}

/// Value of `--store`. Parsing an address is deferred, because error messages of the argument parser would quote a
/// password.
#[derive(Debug, Clone)]
enum StoreText {
    Kind(StoreKind),
    #[cfg(feature = "postgres")]
    Address(String),
}

impl FromStr for StoreText {
    type Err = UnknownStoreKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        #[cfg(feature = "postgres")]
        if DatabaseAddress::is_address(text) {
            return Ok(Self::Address(text.to_owned()));
        }
        text.parse().map(Self::Kind)
    }
}

impl StoreArgs {
    /// Store named by the arguments.
    ///
    /// # Errors
    /// If the database address or the password file is unreadable.
    pub(super) fn source(&self) -> anyhow::Result<StoreSource> {
        let source = match &self.store {
            StoreText::Kind(kind) => StoreSource::Folder(*kind),
            #[cfg(feature = "postgres")]
            StoreText::Address(text) => {
                let address: DatabaseAddress = text.parse()?;
                let address = match &self.store_password_file {
                    Some(path) => address.with_password_file(path)?,
                    None => address,
                };
                return Ok(StoreSource::Database(Box::new(address)));
            }
        };
        anyhow::ensure!(
            self.store_password_file.is_none(),
            "--store-password-file has an effect only with the address of a database in --store"
        );
        Ok(source)
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
