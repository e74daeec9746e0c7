//! Changes of models and versions, except the creation of versions.

use std::collections::BTreeMap;

use tunesmith_domain::{Code, Document, Refusal};

use crate::models::{Inner, Models};
use crate::records::{Model, Operation, OperationKind, Outcome, Scaling, Version, VersionState, check_name};

/// A model to create.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewModel {
    pub name: String,
    pub description: String,
    pub regions: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub online_prediction_logging: bool,
    pub online_prediction_console_logging: bool,
    /// IAM policy; null for none.
    pub policy: Document,
}

/// Fields of a model to change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelChange {
    pub description: Option<String>,
    /// Name of the version within the model.
    pub default_version: Option<String>,
}

/// Fields of a version to change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VersionChange {
    pub description: Option<String>,
    /// `autoScaling.minNodes`.
    pub min_nodes: Option<usize>,
    /// `manualScaling.nodes`.
    pub nodes: Option<usize>,
}

impl Models {
    /// Creates a model without versions.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`], [`Code::AlreadyExists`]; failures of the store.
    pub async fn create_model(&self, project: &str, model: NewModel) -> Result<Model, Refusal> {
        check_name("name", &model.name)?;
        let model = Model {
            project: project.to_owned(),
            name: model.name,
            description: model.description,
            regions: model.regions,
            labels: model.labels,
            online_prediction_logging: model.online_prediction_logging,
            online_prediction_console_logging: model.online_prediction_console_logging,
            default_version: None,
            create_time: self.0.services.clock.now(),
            revision: 1,
            policy: model.policy,
            is_deleted: false,
            versions: Vec::new(),
        };
        self.0.add(model).await
    }

    /// Changes a model.
    ///
    /// # Errors
    /// [`Code::NotFound`] for the model or version, [`Code::FailedPrecondition`]; failures of the store.
    pub async fn change_model(&self, project: &str, name: &str, change: ModelChange) -> Result<Operation, Refusal> {
        let apply = |model: &mut Model| {
            if let Some(version) = &change.default_version {
                make_default(model, version)?;
            }
            if let Some(description) = &change.description {
                model.description.clone_from(description);
            }
            Ok(())
        };
        let model = self.0.change(project, name, apply).await?;
        let outcome = Outcome::Model(Box::new(model));
        self.0.begin(OperationKind::UpdateModel, (project, name), None, Some(outcome)).await
    }

    /// Makes a version the default of its model.
    ///
    /// # Errors
    /// As [`Self::change_model`].
    pub async fn set_default(&self, project: &str, name: &str, version: &str) -> Result<(Model, Version), Refusal> {
        let model = self.0.change(project, name, |model| make_default(model, version)).await?;
        let version = found(&model, version)?.clone();
        Ok((model, version))
    }

    /// Deletes a model without versions.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::FailedPrecondition`] if it has versions; failures of the store.
    pub async fn delete_model(&self, project: &str, name: &str) -> Result<Operation, Refusal> {
        let mark = |model: &mut Model| {
            if !model.versions.is_empty() {
                let text = format!("model {} has versions: delete them first", model.resource_name());
                return Err(Refusal::new(Code::FailedPrecondition, text));
            }
            model.is_deleted = true;
            Ok(())
        };
        self.0.change(project, name, mark).await?;
        self.0.forget(project, name).await?;
        self.0.begin(OperationKind::DeleteModel, (project, name), None, Some(Outcome::Empty)).await
    }

    /// Sets the IAM policy of a model that still has `revision`.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::Aborted`] if the model was changed; failures of the store.
    pub async fn set_policy(&self, project: &str, name: &str, policy: &Document, revision: u64) -> Result<(), Refusal> {
        let apply = |model: &mut Model| {
            if model.revision != revision {
                let text = format!("model {} was changed meanwhile: read its policy again", model.resource_name());
                return Err(Refusal::new(Code::Aborted, text));
            }
            model.policy.clone_from(policy);
            Ok(())
        };
        self.0.change(project, name, apply).await.map(drop)
    }

    /// Changes a version.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::FailedPrecondition`] in a state that allows no change, [`Code::InvalidArgument`]; failures of
    /// the store.
    pub async fn change_version(
        &self,
        project: &str,
        name: &str,
        version: &str,
        change: VersionChange,
    ) -> Result<Operation, Refusal> {
        let limit = self.0.nodes.limit;
        let apply = |model: &mut Model| {
            check_settled(found(model, version)?, model)?;
            let Some(version) = model.version_mut(version) else { return Ok(()) };
            if let Some(description) = &change.description {
                version.spec.description.clone_from(description);
            }
            let wrong = |field: &str, of: &str| {
                let text = format!("cannot be changed: the version has {of}, which cannot be replaced");
                Refusal::invalid(field, text)
            };
            match (&mut version.spec.scaling, change.min_nodes, change.nodes) {
                (Scaling::Manual { .. }, Some(_), _) => return Err(wrong("autoScaling.minNodes", "manualScaling")),
                (Scaling::Automatic { .. }, _, Some(_)) => return Err(wrong("manualScaling.nodes", "autoScaling")),
                (Scaling::Manual { nodes }, None, Some(new)) => *nodes = new,
                (Scaling::Automatic { min_nodes, .. }, Some(new), None) => *min_nodes = new,
                (_, None, None) => {}
            }
            check_scaling(version.spec.scaling, limit)
        };
        let model = self.0.change(project, name, apply).await?;
        let changed = found(&model, version)?.clone();
        self.rescale(&changed);
        let outcome = Outcome::Version(Box::new(changed.clone()));
        self.0.begin(OperationKind::UpdateVersion, (project, name), Some(changed), Some(outcome)).await
    }

    /// Deletes a version with its files and ends its workers.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::FailedPrecondition`] for the default of several versions, and in a state that allows no
    /// change; failures of the store.
    pub async fn delete_version(&self, project: &str, name: &str, version: &str) -> Result<Operation, Refusal> {
        let mark = |model: &mut Model| {
            check_settled(found(model, version)?, model)?;
            if model.default_version.as_deref() == Some(version) && model.versions.len() > 1 {
                let text = format!(
                    "version {}/versions/{version} is the default of its model: make another version the default first",
                    model.resource_name()
                );
                return Err(Refusal::new(Code::FailedPrecondition, text));
            }
            if let Some(version) = model.version_mut(version) {
                version.state = VersionState::Deleting;
            }
            Ok(())
        };
        let model = self.0.change(project, name, mark).await?;
        let deleted = found(&model, version)?.clone();
        self.finish_deletion(project, name, &deleted).await?;
        self.0.begin(OperationKind::DeleteVersion, (project, name), Some(deleted), Some(Outcome::Empty)).await
    }

    /// Removes a version that is marked as being deleted, unless this process is removing it already.
    pub(crate) async fn finish_deletion(&self, project: &str, name: &str, version: &Version) -> Result<(), Refusal> {
        let Some(_deletion) = Deletion::begin(&self.0, &version.uid) else { return Ok(()) };
        self.end_workers(&version.uid).await;
        self.remove_files(project, &version.uid).await?;
        let remove = |model: &mut Model| {
            model.versions.retain(|other| other.uid != version.uid);
            if model.default_version.as_deref() == Some(&version.name) {
                model.default_version = None;
            }
            Ok(())
        };
        match self.0.change(project, name, remove).await {
            // Another server has finished the deletion, and the model was deleted since.
            Err(Refusal { code: Code::NotFound, .. }) => Ok(()),
            changed => changed.map(drop),
        }
    }
}

/// A version that this process is removing, until dropped.
struct Deletion<'a> {
    inner: &'a Inner,
    uid: &'a str,
}

impl<'a> Deletion<'a> {
    /// `None` if the version is being removed.
    fn begin(inner: &'a Inner, uid: &'a str) -> Option<Self> {
        inner.deletions.lock().insert(uid.to_owned()).then_some(Self { inner, uid })
    }
}

impl Drop for Deletion<'_> {
    fn drop(&mut self) {
        self.inner.deletions.lock().remove(self.uid);
    }
}

/// The version `name` of `model`.
pub(crate) fn found<'a>(model: &'a Model, name: &str) -> Result<&'a Version, Refusal> {
    let missing =
        || Refusal::new(Code::NotFound, format!("version {}/versions/{name} does not exist", model.resource_name()));
    model.version(name).ok_or_else(missing)
}

fn make_default(model: &mut Model, name: &str) -> Result<(), Refusal> {
    let version = found(model, name)?;
    if version.state != VersionState::Ready {
        let text = format!(
            "version {}/versions/{name} is {}: only a READY version can be the default",
            model.resource_name(),
            version.state.as_str()
        );
        return Err(Refusal::new(Code::FailedPrecondition, text));
    }
    model.default_version = Some(name.to_owned());
    Ok(())
}

/// Refuses changes of a version that is being changed.
fn check_settled(version: &Version, model: &Model) -> Result<(), Refusal> {
    match version.state {
        VersionState::Ready | VersionState::Failed => Ok(()),
        VersionState::Creating | VersionState::Deleting => {
            let text = format!(
                "version {}/versions/{} is {}: it can be changed once it is READY or FAILED",
                model.resource_name(),
                version.name,
                version.state.as_str()
            );
            Err(Refusal::new(Code::FailedPrecondition, text))
        }
    }
}

/// Checks numbers of nodes on a server with `limit` workers.
pub(crate) fn check_scaling(scaling: Scaling, limit: usize) -> Result<(), Refusal> {
    let check = |field: &str, nodes: usize, least: usize| {
        if (least..=limit).contains(&nodes) {
            return Ok(());
        }
        Err(Refusal::invalid(
            field,
            format!("{nodes} is not allowed; allowed: {least} to {limit}, the workers of this server"),
        ))
    };
    match scaling {
        Scaling::Manual { nodes } => check("manualScaling.nodes", nodes, 1),
        Scaling::Automatic { min_nodes, max_nodes } => {
            check("autoScaling.minNodes", min_nodes, 0)?;
            max_nodes.map_or(Ok(()), |nodes| check("autoScaling.maxNodes", nodes, min_nodes.max(1)))
        }
    }
}
