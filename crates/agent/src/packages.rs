//! Installation of an attempt's Python packages, downloaded from its server.
//!
//! ```text
//! <cache>/archives/<sha256>/<file name>     a package, complete and verified
//! <cache>/environments/                     as `tunesmith-packages` describes it
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::client::{Client, Download};
use tunesmith_executor::{AgentArchive, AgentPackages, ENVIRONMENT_PYTHON, ExecutorJobSpec, Program};
use tunesmith_files::RootedPath;
use tunesmith_packages::{EnvironmentRequest, Environments, Package, Step};

/// Pause before retrying an unreachable server.
const PAUSE: Duration = Duration::from_secs(1);

/// Polling interval for the installer's output.
const COPY_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum number of bytes per copy; a guess, far above pip's output in the interval.
const MAX_COPIED_BYTES: u64 = 1 << 20;

/// Returns the interpreter of the environment with `packages` below the folder `cache`. Creates the environment if
/// necessary, waiting for an unreachable server. The installer's output is appended to `log` as it grows.
///
/// # Errors
/// The reason the packages cannot be installed.
pub(super) async fn install(
    client: &Client,
    cache: &Path,
    packages: &AgentPackages,
    log: Option<&Path>,
) -> Result<PathBuf, String> {
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
    let environments = Environments::new(cache.join("environments"));
    let (steps, mut reported) = mpsc::unbounded_channel();
    let observer = move |step: Step| {
        if let Step::Installing { log, .. } | Step::Waiting { log } = step {
            // The receiver lives as long as the installation.
            let _ = steps.send(log);
        }
    };
    let preparing = environments.prepare_observed(&request, &observer);
    tokio::pin!(preparing);
    let mut copy: Option<LogCopy> = None;
    let mut interval = tokio::time::interval(COPY_INTERVAL);
    loop {
        let prepared = tokio::select! {
            prepared = &mut preparing => Some(prepared),
            _ = interval.tick() => None,
        };
        // The last one belongs to the installer that created the environment, or is doing so.
        while let Ok(output) = reported.try_recv() {
            copy = log.map(|log| LogCopy { from: output, to: log.to_owned(), copied: 0 });
        }
        if let Some(known) = copy.take() {
            copy = known.update().await;
        }
        if let Some(prepared) = prepared {
            return prepared.map(|environment| environment.python).map_err(|error| error_text(&error));
        }
    }
}

/// Copy of an installer's output in the attempt's folder, from which it is sent to the server.
struct LogCopy {
    from: PathBuf,
    to: PathBuf,
    /// Bytes of `from` already copied.
    copied: u64,
}

impl LogCopy {
    /// Appends new output of `from`, and returns the copy. Failures are only logged, since the output is informational.
    async fn update(mut self) -> Option<Self> {
        let updating = tokio::task::spawn_blocking(move || {
            if let Err(error) = self.append() {
                // The output of another process may not exist yet.
                tracing::debug!(log.path = %self.from.display(), %error, "the output of the installer cannot be copied");
            }
            self
        });
        updating.await.ok()
    }

    fn append(&mut self) -> io::Result<()> {
        let mut from: File = RootedPath::from(self.from.clone()).open()?;
        if from.metadata()?.len() <= self.copied {
            return Ok(());
        }
        from.seek(SeekFrom::Start(self.copied))?;
        if let Some(folder) = self.to.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut to = OpenOptions::new().append(true).create(true).open(&self.to)?;
        self.copied += io::copy(&mut from.take(MAX_COPIED_BYTES), &mut to)?;
        Ok(())
    }
}

/// Makes the commands of `spec` run the interpreter `python`.
pub(super) fn use_environment(spec: &mut ExecutorJobSpec, python: &Path) {
    for replica in &mut spec.replicas {
        if let Program::Command { argv } = &mut replica.program
            && let Some(first) = argv.first_mut().filter(|first| *first == ENVIRONMENT_PYTHON)
        {
            *first = python.display().to_string();
        }
    }
}

/// Returns the file of `archive` below `folder`, downloading it if missing.
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

/// Message of `error`, including its causes.
pub(super) fn error_text(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
