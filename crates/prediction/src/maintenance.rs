//! Background work of a server: interrupted changes, workers at the start, versions that other servers delete.

use std::collections::HashSet;
use std::time::Duration;

use tunesmith_domain::Refusal;

use crate::models::Models;
use crate::operations::RENEWAL;
use crate::records::{Model, Operation, OperationKind, VersionState, failed};

/// Interval of the server's rounds.
const INTERVAL: Duration = Duration::from_secs(10);

/// Rounds from one sweep of the cluster to the next.
const ROUNDS_PER_SWEEP: u32 = 30;

/// Age without renewal after which another server continues an operation. A guess: three renewals.
const ABANDONED_AFTER: Duration = RENEWAL.saturating_mul(3);

impl Models {
    /// Continues interrupted changes, starts the workers of versions, and keeps both going. Never ends.
    pub async fn run(&self) {
        let mut is_first = true;
        let mut rounds = 0_u32;
        loop {
            if rounds.is_multiple_of(ROUNDS_PER_SWEEP) {
                self.0.sweep_pods().await;
            }
            rounds = rounds.wrapping_add(1);
            if let Err(refusal) = self.round(is_first).await {
                tracing::warn!(error = refusal.message, "models cannot be looked after");
            } else {
                is_first = false;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn round(&self, is_first: bool) -> Result<(), Refusal> {
        let mut known = HashSet::new();
        for project in self.projects().await? {
            for model in self.models(&project).await? {
                known.extend(model.versions.iter().map(|version| version.uid.clone()));
                self.look_after(&project, &model, is_first).await?;
            }
            for (operation, age) in self.0.idle_operations(&project).await? {
                if (is_first && !self.0.services.is_shared) || age >= ABANDONED_AFTER {
                    self.resume(operation).await?;
                }
            }
            if is_first {
                self.0.remove_old_operations(&project).await?;
            }
        }
        let pools: Vec<String> = self.0.pools.lock().keys().cloned().collect();
        for uid in pools {
            if !known.contains(&uid) && self.0.services.is_shared {
                self.end_workers(&uid).await;
            }
        }
        Ok(())
    }

    async fn look_after(&self, project: &str, model: &Model, is_first: bool) -> Result<(), Refusal> {
        if is_first && !self.runs_in_pods() && model.versions.iter().any(|version| version.spec.container.is_some()) {
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
                // Another server may have ended in the middle. A deletion by this process is complete after both.
                VersionState::Deleting if is_first || self.0.services.is_shared => {
                    self.finish_deletion(project, &model.name, version).await?;
                }
                VersionState::Creating | VersionState::Ready | VersionState::Failed | VersionState::Deleting => {}
            }
        }
        self.note_uses(project, model).await
    }

    /// Stores when versions were last used.
    async fn note_uses(&self, project: &str, model: &Model) -> Result<(), Refusal> {
        let uses: Vec<(String, jiff::Timestamp)> = model
            .versions
            .iter()
            .filter_map(|version| {
                let last_use = self.status(version).last_use?;
                let is_newer = version.last_use_time.is_none_or(|stored| last_use > stored);
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
        self.0.change(project, &model.name, note).await.map(drop)
    }

    /// Continues an operation of a former process.
    async fn resume(&self, operation: Operation) -> Result<(), Refusal> {
        let (project, id) = (operation.project.clone(), operation.id.clone());
        let Some(running) = self.0.note_running(&project, &id) else { return Ok(()) };
        let Some(operation) = self.0.take_over(&project, &id).await? else { return Ok(()) };
        let version = match &operation.version {
            Some(version) if operation.kind == OperationKind::CreateVersion => version,
            _ => return Ok(()),
        };
        let model = self.model(&project, &operation.model).await.ok();
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
                self.0.finish(operation, failed(tunesmith_domain::Code::InvalidArgument, message)).await
            }
            Some(VersionState::Deleting) | None => {
                let message = "the server ended before the version was created";
                self.0.finish(operation, failed(tunesmith_domain::Code::Aborted, message)).await
            }
        }
    }
}
