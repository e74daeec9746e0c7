//! Installs the Python packages of an attempt, which come from its server.
//!
//! ```text
//! <cache>/archives/<sha256>/<file name>     a package, complete and checked
//! <cache>/environments/                     as `tunesmith-packages` describes it
//! ```

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::client::{Client, Download};
use tunesmith_executor::{AgentArchive, AgentPackages, ENVIRONMENT_PYTHON, ExecutorJobSpec, Program};
use tunesmith_packages::{EnvironmentRequest, Environments, Package};

/// Pause before a server that is away is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// Returns the interpreter of the environment with `packages` below the folder `cache`. Makes it if necessary, and waits for a server
/// that is away.
///
/// # Errors
/// Why the packages cannot be installed.
pub(super) async fn install(client: &Client, cache: &Path, packages: &AgentPackages) -> Result<PathBuf, String> {
    let mut archives = Vec::with_capacity(packages.archives.len());
    for archive in &packages.archives {
        let path = fetch(client, &cache.join("archives"), archive).await?;
        let path = path.to_str().ok_or_else(|| format!("the path {} is not UTF-8", path.display()))?;
        archives.push(Package::Archive(path.parse().map_err(|error| error_text(&error))?));
    }
    let request = EnvironmentRequest {
        packages: archives,
        requirements: packages.requirements.clone(),
        user: None,
        python: packages.python.clone(),
    };
    tracing::info!(packages = request.packages.len(), "preparing the Python environment");
    let prepared = Environments::new(cache.join("environments")).prepare(&request).await;
    prepared.map(|environment| environment.python).map_err(|error| error_text(&error))
}

/// Lets the commands of `spec` run the interpreter `python`.
pub(super) fn use_environment(spec: &mut ExecutorJobSpec, python: &Path) {
    for replica in &mut spec.replicas {
        if let Program::Command { argv } = &mut replica.program
            && let Some(first) = argv.first_mut().filter(|first| *first == ENVIRONMENT_PYTHON)
        {
            *first = python.display().to_string();
        }
    }
}

/// Returns the file of `archive` below `folder`. Gets it from the server unless it is there.
async fn fetch(client: &Client, folder: &Path, archive: &AgentArchive) -> Result<PathBuf, String> {
    let AgentArchive { sha256, file_name } = archive;
    let is_name = |name: &str| !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    if !is_name(sha256) || !is_name(file_name) {
        return Err(format!("the package {sha256}/{file_name} has no valid name"));
    }
    let place = folder.join(sha256);
    let path = place.join(file_name);
    if path.is_file() {
        return Ok(path);
    }
    let failed = |error: io::Error| format!("the package {file_name} cannot be kept in {}: {error}", place.display());
    fs::create_dir_all(&place).map_err(failed)?;
    loop {
        let mut file = tempfile::NamedTempFile::new_in(&place).map_err(failed)?;
        let mut digest = Sha256::new();
        let received = client.package(sha256, file_name, |bytes| {
            digest.update(bytes);
            file.write_all(bytes)
        });
        match received.await {
            Download::Complete => {
                let found = hex::encode(digest.finalize());
                if found != *sha256 {
                    return Err(format!("the package {file_name} has the SHA-256 {found}, not {sha256}"));
                }
                file.as_file().sync_all().map_err(failed)?;
                file.persist(&path).map_err(|error| failed(error.error))?;
                return Ok(path);
            }
            Download::Refused(message) => {
                return Err(format!("the server does not give the package {file_name}: {message}"));
            }
            Download::NotKept(error) => return Err(failed(error)),
            Download::Unreached(message) => {
                tracing::warn!(message, package = file_name, "the package is asked for again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The message of `error` with those of its causes.
pub(super) fn error_text(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
