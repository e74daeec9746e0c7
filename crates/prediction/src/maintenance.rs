//! Background work of a server: interrupted changes, workers at the start, versions that other servers delete.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;
use tunesmith_domain::{Code, Refusal};

use crate::models::Models;
use crate::operations::RENEWALS;
use crate::records::{Model, Operation, OperationKind, VersionState, failed};

/// Longest interval of the server's rounds.
const INTERVAL: Duration = Duration::from_secs(10);

/// Interval of the sweeps of the cluster that runs workers.
const SWEEP_INTERVAL: Duration = Duration::from_secs(300);

/// Least difference of a version's last use that is stored. A guess: other servers read every change of a model.
const USE_PRECISION: jiff::SignedDuration = jiff::SignedDuration::from_mins(1);

/// Hexadecimal digits of the UID of a version, which distinguish its folder from that of a batch prediction.
const UID_DIGITS: usize = 32;

/// State that rounds pass on to the next one.
#[derive(Default)]
struct Rounds {
    /// Whether one was complete.
    has_started: bool,
    /// Start of the next read of operations.
    cursor: Option<u64>,
    /// Running operations by project and ID, with the time since which none has shown a sign of life.
    running: HashMap<(String, String), Instant>,
    /// Start of the last sweep of the cluster.
    swept: Option<Instant>,
}

impl Models {
    /// Continues interrupted changes, starts the workers of versions, and keeps both going. Never ends.
    pub async fn run(&self) {
        let mut rounds = Rounds::default();
        let interval = INTERVAL.min(self.0.services.lease / RENEWALS);
        loop {
            if rounds.swept.is_none_or(|swept| swept.elapsed() >= SWEEP_INTERVAL) {
                rounds.swept = Some(Instant::now());
                self.0.sweep_pods().await;
            }
            match self.round(&mut rounds).await {
                Ok(()) => rounds.has_started = true,
                Err(refusal) => tracing::warn!(error = refusal.message, "models cannot be looked after"),
            }
            tokio::time::sleep(interval).await;
        }
    }

    async fn round(&self, rounds: &mut Rounds) -> Result<(), Refusal> {
        // Before the models: folders and workers are created after their version.
        let folders = self.version_folders().await;
        let pools: Vec<String> = self.0.pools.lock().keys().cloned().collect();
        let models = self.0.index.all(Duration::ZERO).await?;
        for model in &models {
            if let Err(refusal) = self.look_after(model, rounds.has_started).await {
                let error = refusal.message;
                tracing::warn!(model = model.resource_name(), error, "a model cannot be looked after");
            }
        }
        let versions = models.iter().flat_map(|model| &model.versions);
        // Those that failed have no files and no workers.
        let used: HashSet<&str> = versions
            .filter(|version| version.state != VersionState::Failed)
            .map(|version| version.uid.as_str())
            .collect();
        for uid in pools.iter().filter(|uid| !used.contains(uid.as_str()) && self.0.services.is_shared) {
            self.end_workers(uid).await;
        }
        for (project, uid) in folders.iter().filter(|(_, uid)| !used.contains(uid.as_str())) {
            // A failure is in the log, and the next round tries again.
            let _ = self.remove_folder(project, uid).await;
        }
        if !rounds.has_started {
            for project in self.projects().await? {
                self.0.remove_old_operations(&project).await?;
            }
        }
        self.continue_operations(rounds).await
    }

    /// Projects and UIDs of the folders of versions on this server.
    async fn version_folders(&self) -> Vec<(String, String)> {
        let root = self.0.services.folder.clone();
        let found = tokio::task::spawn_blocking(move || version_folders(&root)).await;
        found.unwrap_or_else(|error| Err(io::Error::other(error))).unwrap_or_else(|error| {
            tracing::warn!(%error, "the folders of versions cannot be listed");
            Vec::new()
        })
    }

    /// Continues operations whose server has ended.
    async fn continue_operations(&self, rounds: &mut Rounds) -> Result<(), Refusal> {
        let (now, lease) = (Instant::now(), self.0.services.lease);
        let changed = self.0.changed_operations(rounds.cursor).await?;
        if rounds.cursor.is_none() && (self.0.services.is_shared || !rounds.has_started) {
            for project in self.projects().await? {
                for (operation, age) in self.0.running_operations(&project).await? {
                    // The operations of an only server are those of a former process.
                    let age = if self.0.services.is_shared { age } else { lease };
                    rounds.running.insert((project.clone(), operation.id), now.checked_sub(age).unwrap_or(now));
                }
            }
        }
        if let Some((cursor, changed)) = changed {
            rounds.cursor = Some(cursor);
            for Operation { project, id, outcome, .. } in changed {
                match outcome {
                    None => rounds.running.insert((project, id), now),
                    Some(_) => rounds.running.remove(&(project, id)),
                };
            }
        }
        let abandoned = rounds.running.iter().filter(|(_, since)| now.duration_since(**since) >= lease);
        for key in abandoned.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            match self.resume(&key.0, &key.1).await {
                Err(refusal) if refusal.code != Code::NotFound => {
                    tracing::warn!(operation = key.1, error = refusal.message, "an operation cannot be continued");
                }
                // Another server that continues it renews it.
                _ => drop(rounds.running.remove(&key)),
            }
        }
        Ok(())
    }

    async fn look_after(&self, model: &Model, has_started: bool) -> Result<(), Refusal> {
        if model.is_deleted {
            // The deletion was interrupted.
            return self.0.forget(&model.project, &model.name).await;
        }
        if !has_started && !self.runs_in_pods() && model.versions.iter().any(|version| version.spec.container.is_some())
        {
            // Finding the engine removes the containers of a former process.
            if let Err(reason) = self.0.engines.engine().await {
                tracing::warn!(model = model.resource_name(), "its containers cannot run: {reason}");
            }
        }
        for version in &model.versions {
            match version.state {
                VersionState::Ready if version.spec.scaling.min_nodes() > 0 => {
                    // Opening a pool starts its workers.
                    if let Err(refusal) = self.pool(model, version).await {
                        tracing::error!(
                            model = model.resource_name(),
                            version = version.name,
                            error = refusal.message,
                            "the workers of a version cannot be started"
                        );
                    }
                    self.rescale(version);
                }
                VersionState::Ready if self.0.services.is_shared => self.rescale(version),
                // The deletion was interrupted, or runs: each of its steps can be repeated.
                VersionState::Deleting => self.finish_deletion(&model.project, &model.name, version).await?,
                VersionState::Creating | VersionState::Ready | VersionState::Failed => {}
            }
        }
        self.note_uses(model).await
    }

    /// Stores when versions were last used.
    async fn note_uses(&self, model: &Model) -> Result<(), Refusal> {
        let uses: Vec<(String, jiff::Timestamp)> = model
            .versions
            .iter()
            .filter_map(|version| {
                let last_use = self.status(version).last_use?;
                let is_newer =
                    version.last_use_time.is_none_or(|stored| last_use.duration_since(stored) >= USE_PRECISION);
                is_newer.then(|| (version.uid.clone(), last_use))
            })
            .collect();
        if uses.is_empty() {
            return Ok(());
        }
        let note = |model: &mut Model| {
            for version in &mut model.versions {
                let used = uses.iter().find(|(uid, _)| *uid == version.uid);
                version.last_use_time = version.last_use_time.max(used.map(|(_, time)| *time));
            }
            Ok(())
        };
        self.0.change(&model.project, &model.name, note).await.map(drop)
    }

    /// Continues an operation of a former process, or ends it if its cancellation was requested.
    async fn resume(&self, project: &str, id: &str) -> Result<(), Refusal> {
        let Some(running) = self.0.note_running(project, id) else { return Ok(()) };
        let Some(operation) = self.0.take_over(project, id).await? else { return Ok(()) };
        running.cancel.send_replace(operation.is_cancellation_requested);
        let version = match &operation.version {
            Some(version) if operation.kind == OperationKind::CreateVersion => version,
            _ => return Ok(()),
        };
        let model = self.model(project, &operation.model).await.ok();
        let is_waiting = model.as_ref().and_then(|model| model.versions.iter().find(|other| other.uid == version.uid));
        match is_waiting.map(|version| version.state) {
            Some(VersionState::Creating) => {
                tracing::info!(operation = id, "continuing the creation of a version");
                tokio::spawn(self.clone().create(operation, running));
                Ok(())
            }
            Some(VersionState::Ready) => {
                let version = is_waiting.cloned().map(Box::new);
                let outcome = version.map(crate::records::Outcome::Version);
                self.0.finish(operation, outcome.unwrap_or(crate::records::Outcome::Empty)).await
            }
            Some(VersionState::Failed) => {
                let message = is_waiting.map(|version| version.error_message.clone()).unwrap_or_default();
                let code = if operation.is_cancellation_requested { Code::Cancelled } else { Code::InvalidArgument };
                self.0.finish(operation, failed(code, message)).await
            }
            Some(VersionState::Deleting) | None => {
                let message = "the server ended before the version was created";
                self.0.finish(operation, failed(Code::Aborted, message)).await
            }
        }
    }
}

/// Projects and UIDs of the folders of versions below `root`.
fn version_folders(root: &Path) -> io::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for project in entries(root)? {
        for uid in entries(&root.join(&project))? {
            if uid.len() == UID_DIGITS && uid.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                found.push((project.clone(), uid));
            }
        }
    }
    Ok(found)
}

/// Names in `folder`, which may not exist.
fn entries(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose()).collect()
}
