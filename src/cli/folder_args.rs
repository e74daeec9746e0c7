//! Arguments of the commands that work on a data folder.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use crate::composition::ContainerOptions;
use tunesmith_data_dir::{StoreKind, StoreSource, UnknownStoreKind};
use crate::server_settings::{ServerSettings, SettingsError};
use tunesmith_config::KnownExecutor;
#[cfg(feature = "postgres")]
use tunesmith_store::DatabaseAddress;

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
pub(super) fn words(name: &str, text: &str) -> anyhow::Result<Vec<String>> {
    shlex::split(text).ok_or_else(|| anyhow::anyhow!("{name}: {text:?} has a quote that is not closed"))
}

/// Treatment of the jobs of a copied data folder.
#[derive(Debug, Args)]
pub(super) struct CopyArgs {
    /// Run the unfinished jobs of a data folder that was copied, or restored from a backup. Without it they are not run, since
    /// the original may run them.
    #[arg(long)]
    pub(super) resume_copied: bool,
}

/// The machines and limits.
#[derive(Debug, Args)]
pub(super) struct ServerConfigArgs {
    /// Server configuration: executors, machine types and the like, shared resources, and limits.
    #[arg(long, value_name = "FILE")]
    server_config: Option<PathBuf>,
}

impl ServerConfigArgs {
    /// Returns the settings of the file, for a server with `executor`. Without one, they are the default.
    ///
    /// # Errors
    /// If the file has errors, or devices cannot be found.
    pub(super) fn settings(&self, executor: KnownExecutor<'_>) -> Result<ServerSettings, SettingsError> {
        ServerSettings::load(self.server_config.as_deref(), executor)
    }

    /// Returns the path of the file.
    #[cfg(feature = "console")]
    pub(super) fn path(&self) -> Option<&std::path::Path> {
        self.server_config.as_deref()
    }
}

/// Where the store is.
#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    /// Store of a new data folder: sqlite, one file; sled, which may lose its last changes with the power; or
    /// postgres://USER@HOST:PORT/DATABASE, which several servers share. Other users of the machine see a password in the
    /// address: give it in PGPASSWORD, PGPASSFILE or --store-password-file.
    #[arg(long, value_name = "STORE", env = "TUNESMITH_STORE", hide_env_values = true, default_value = "sqlite")]
    store: StoreText,
    /// File whose first line is the password of the database.
    #[arg(long, value_name = "FILE", env = "TUNESMITH_STORE_PASSWORD_FILE")]
    store_password_file: Option<PathBuf>,
}

/// The value of `--store`. Its errors would quote a password, so an address is read later.
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
    /// Returns the store that the arguments name.
    ///
    /// # Errors
    /// If the address of a database or the file of its password cannot be read.
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
