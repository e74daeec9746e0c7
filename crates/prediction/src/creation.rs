//! Creation of versions: copy of the files, installation of packages, a load of the model as the check.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::OnceCell;
use tunesmith_domain::{Code, Refusal};
use tunesmith_executor::WorkerSpec;
use tunesmith_files::RootedPath;
use tunesmith_jobs::allowed_folders::ModelFolder;
use tunesmith_packages::{EnvironmentRequest, PackageError, ProgramUser};

use crate::changes::check_scaling;
use crate::model_files::{
    self, INSTALLERS, MAX_FILES, MAX_MODEL_BYTES, MAX_PACKAGE_BYTES, MAX_PACKAGE_FILES, VersionFolder,
};
use crate::models::{Inner, Models};
use crate::operations::Running;
use crate::records::{
    Framework, MAX_VERSIONS, Model, Operation, OperationKind, Outcome, Version, VersionSpec, VersionState, check_name,
    failed,
};
use crate::runner::LoadReport;
use crate::shared_files;
use crate::worker::StartError;

/// Maximum length of an error message in bytes; of a longer one, the end is kept. A guess.
const MAX_MESSAGE: usize = 16 << 10;

/// Maximum number of packages of a version; as of a job.
const MAX_PACKAGES: usize = 100;

/// A failed creation: code and text.
pub(crate) struct Failure {
    code: Code,
    pub(crate) message: String,
}

impl Failure {
    /// Failure in the words of AI Platform. `text` has its error code, `detail` is a traceback or the output of pip.
    fn bad_model(text: &str, detail: &str) -> Self {
        let mut message = format!("Create Version failed. Bad model detected with error:  \"{text}\"");
        let detail = detail.trim();
        if !detail.is_empty() {
            let excess = detail.len().saturating_sub(MAX_MESSAGE);
            let start = (excess..detail.len()).find(|start| detail.is_char_boundary(*start)).unwrap_or(0);
            message.push_str("\n\n");
            message.push_str(&detail[start..]);
        }
        Self { code: Code::InvalidArgument, message }
    }

    fn not_loaded(what: impl std::fmt::Display, detail: &str) -> Self {
        Self::bad_model(&format!("Failed to load model: {what} (Error code: 0)"), detail)
    }

    fn of_server(what: &str, error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error, "{what}");
        Self { code: Code::Internal, message: format!("{what}; see the server's log") }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self { code: refusal.code, message: refusal.message }
    }
}

impl Models {
    /// Creates a version, which is `CREATING` until a worker has loaded it.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`], [`Code::NotFound`] for the model, [`Code::AlreadyExists`], [`Code::FailedPrecondition`] with too
    /// many versions; failures of the store.
    pub async fn create_version(
        &self,
        project: &str,
        model: &str,
        name: &str,
        spec: VersionSpec,
    ) -> Result<Operation, Refusal> {
        check_name("name", name)?;
        self.check(project, &spec)?;
        if spec.container.is_some() && !self.runs_in_pods() {
            self.0.engines.engine().await.map_err(|reason| {
                let text = format!("container: this server cannot run containers: {reason}");
                Refusal::new(Code::FailedPrecondition, text)
            })?;
        }
        // Fails before an operation exists.
        self.model(project, model).await?;
        let now = self.0.services.clock.now();
        let mut version = Version {
            name: name.to_owned(),
            spec,
            state: VersionState::Creating,
            error_message: String::new(),
            create_time: now,
            last_use_time: None,
            uid: hex::encode(rand::random::<[u8; 16]>()),
            operation: String::new(),
            report: None,
        };
        let mut operation =
            self.0.begin(OperationKind::CreateVersion, (project, model), Some(version.clone()), None).await?;
        version.operation.clone_from(&operation.id);
        // From here on, it can be cancelled.
        let running = self.0.note_running(project, &operation.id);
        let add = |model: &mut Model| {
            if model.version(name).is_some() {
                let text = format!("version {}/versions/{name} already exists", model.resource_name());
                return Err(Refusal::new(Code::AlreadyExists, text));
            }
            if model.versions.len() >= MAX_VERSIONS {
                let text = format!(
                    "model {} has {MAX_VERSIONS} versions, the maximum: delete one first",
                    model.resource_name()
                );
                return Err(Refusal::new(Code::FailedPrecondition, text));
            }
            model.versions.push(version.clone());
            Ok(())
        };
        if let Err(refusal) = self.0.change(project, model, add).await {
            let outcome = failed(refusal.code, refusal.message.clone());
            self.0.finish(operation, outcome).await?;
            return Err(refusal);
        }
        operation.version = Some(version);
        if let Some(running) = running {
            tokio::spawn(self.clone().create(operation.clone(), running));
        }
        Ok(operation)
    }

    /// Refuses workers on a server whose programs run elsewhere.
    pub(crate) fn check_runs_here(&self) -> Result<(), Refusal> {
        if self.0.services.refuses_versions {
            let text = "the programs of this server run on other machines, but the workers of models would run on the server, \
                        as its user; its operator runs them in pods with prediction.executor of the server configuration, or accepts this \
                        with --allow-unisolated-programs";
            return Err(Refusal::new(Code::FailedPrecondition, text));
        }
        Ok(())
    }

    /// Refuses what workers in pods cannot do.
    pub(crate) fn check_runs_in_pods(&self, spec: &VersionSpec) -> Result<(), Refusal> {
        let Some(platform) = &self.0.services.pods else { return Ok(()) };
        if spec.container.is_some() {
            let text = "custom containers are not run on Kubernetes, where the workers of this server are: give a framework or a \
                        predictionClass, and the image in runtimeVersions of the server configuration";
            return Err(Refusal::invalid("container", text));
        }
        let workers = WorkerSpec { image: spec.image.clone(), ..WorkerSpec::default() };
        platform.engine.check(&workers).map_err(|text| Refusal::new(Code::FailedPrecondition, text))
    }

    /// Checks what can be told without I/O.
    fn check(&self, project: &str, spec: &VersionSpec) -> Result<(), Refusal> {
        self.check_runs_here()?;
        self.check_runs_in_pods(spec)?;
        match &spec.container {
            Some(container) => container.check()?,
            None if spec.deployment_uri.is_empty() => {
                return Err(Refusal::invalid("deploymentUri", "is required: the folder with the files of the model"));
            }
            None => {}
        }
        if !spec.deployment_uri.is_empty() {
            let folders = &self.0.services.allowed_folders;
            let user = self.0.program_user(project);
            folders
                .model_folder(project, &spec.deployment_uri, user.as_ref())
                .map_err(|error| Refusal::invalid("deploymentUri", error.to_string()))?;
        }
        if spec.framework == Framework::Tensorflow {
            let text = "TENSORFLOW is not supported: serve the model from a custom prediction routine (predictionClass) that \
                        loads it";
            return Err(Refusal::invalid("framework", text));
        }
        if !spec.prediction_class.is_empty() {
            if spec.framework != Framework::FrameworkUnspecified {
                return Err(Refusal::invalid("framework", "has no meaning with predictionClass: leave it out"));
            }
            if !spec.prediction_class.trim_matches('.').contains('.') {
                let text = format!("{:?} is not a class: expected MODULE.CLASS", spec.prediction_class);
                return Err(Refusal::invalid("predictionClass", text));
            }
        }
        if spec.package_uris.len() > MAX_PACKAGES {
            let text = format!("has {} packages; allowed: up to {MAX_PACKAGES}", spec.package_uris.len());
            return Err(Refusal::invalid("packageUris", text));
        }
        check_scaling(spec.scaling, self.0.nodes.limit)
    }

    /// Runs the creation of a version to its end.
    pub(crate) async fn create(self, mut operation: Operation, mut running: Running) {
        let Some(version) = operation.version.clone() else { return };
        let (project, model) = (operation.project.clone(), operation.model.clone());
        let cancelled = async {
            if running.cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let result = tokio::select! {
            // Nothing starts after a cancellation.
            biased;
            () = cancelled => {
                Err(Failure { code: Code::Cancelled, message: "the creation of the version was cancelled".to_owned() })
            }
            result = self.load(&project, &model, &version) => result,
        };
        operation.is_cancellation_requested = *running.cancelled.borrow();
        if result.is_err() {
            self.end_workers(&version.uid).await;
            if let Err(refusal) = self.remove_files(&project, &version.uid).await {
                tracing::warn!(error = refusal.message, "files of a version that failed remain");
            }
        }
        let settle = |model: &mut Model| {
            let Some(stored) = model.versions.iter_mut().find(|other| other.uid == version.uid) else { return Ok(()) };
            match &result {
                Ok(report) => {
                    stored.state = VersionState::Ready;
                    stored.report = Some(report.clone());
                    model.default_version.get_or_insert_with(|| version.name.clone());
                }
                Err(failure) => {
                    stored.state = VersionState::Failed;
                    stored.error_message.clone_from(&failure.message);
                }
            }
            Ok(())
        };
        let changed = self.0.change(&project, &model, settle).await;
        let stored = changed.map(|model| model.version(&version.name).cloned());
        let outcome = match (result, stored) {
            (Ok(_), Ok(Some(version))) => Outcome::Version(Box::new(version)),
            (Ok(_), Ok(None)) => failed(Code::NotFound, "the version was deleted meanwhile"),
            (Err(failure), _) => {
                tracing::info!(
                    model,
                    version = version.name,
                    "a version is not created: {}",
                    first_line(&failure.message)
                );
                failed(failure.code, failure.message)
            }
            (Ok(_), Err(refusal)) => failed(refusal.code, refusal.message),
        };
        let id = operation.id.clone();
        if let Err(refusal) = self.0.finish(operation, outcome).await {
            tracing::error!(operation = id, error = refusal.message, "an operation is continued at the next start");
        }
        drop(running);
    }

    /// Copies the files, installs the packages and starts a first worker.
    async fn load(&self, project: &str, model: &str, version: &Version) -> Result<LoadReport, Failure> {
        let folder = self.0.folder(project, &version.uid);
        let (started, identity) = (folder.clone(), self.0.identity(project).cloned());
        blocking(move || {
            started
                .start_over(identity.as_ref())
                .map_err(|error| Failure::of_server("the folder of the version cannot be created", &error))
        })
        .await?;
        if !version.spec.deployment_uri.is_empty() {
            self.0.copy_model(project, &version.spec, &folder).await?;
        }
        if !version.spec.package_uris.is_empty() || !version.spec.requirements.is_empty() {
            self.0.install(project, &version.spec, &folder).await?;
        }
        let (finished, identity) = (folder.clone(), self.0.identity(project).cloned());
        let is_of_container = version.spec.container.is_some();
        let finish = move || {
            let failed = |error| Failure::of_server("the files of the version cannot be stored", &error);
            finished.finish(identity.as_ref(), is_of_container).map_err(failed)
        };
        blocking(finish).await?;
        let pool = Arc::new(self.0.new_pool((project, model), version, &folder));
        self.0.pools.lock().insert(version.uid.clone(), Arc::new(OnceCell::new_with(Some(Arc::clone(&pool)))));
        let report = pool.check().await.map_err(|error| match error {
            StartError::NotLoaded { text, detail } => Failure::bad_model(&text, &detail),
            StartError::System(text) => Failure::not_loaded(text, ""),
        })?;
        if self.0.services.is_shared {
            shared_files::publish(self.0.services.documents.as_ref(), &version.uid, folder.path())
                .await
                .map_err(|error| Failure::from(Refusal::from(error)))?;
        }
        Ok(report)
    }
}

impl Inner {
    pub(crate) async fn copy_model(
        &self,
        project: &str,
        spec: &VersionSpec,
        folder: &VersionFolder,
    ) -> Result<(), Failure> {
        let user = self.program_user(project);
        let source = self.services.allowed_folders.model_folder(project, &spec.deployment_uri, user.as_ref());
        let invalid = |text: String| Failure::from(Refusal::invalid("deploymentUri", text));
        let to = folder.model();
        match source.map_err(|error| invalid(error.to_string()))? {
            ModelFolder::Here(place) => {
                blocking(move || {
                    // The data folder's rights are those of this process, so only reading is done as the user.
                    model_files::copy(&place, &to, &[], (MAX_FILES, MAX_MODEL_BYTES))
                        .map(drop)
                        .map_err(|error| invalid(error.to_string()))
                })
                .await
            }
            ModelFolder::Objects(url) => {
                let objects = self.services.buckets.folder(&url).map_err(|error| invalid(error.to_string()))?;
                match objects.download(&to, MAX_FILES, MAX_MODEL_BYTES).await {
                    Ok(0) => Err(invalid(format!("{url} has no files"))),
                    Ok(_) => Ok(()),
                    Err(error) => Err(invalid(error.to_string())),
                }
            }
        }
    }

    /// Installs the packages into an environment, and copies what it then has.
    async fn install(&self, project: &str, spec: &VersionSpec, folder: &VersionFolder) -> Result<(), Failure> {
        let user = self.program_user(project);
        let mut uris = Vec::with_capacity(spec.package_uris.len());
        for uri in &spec.package_uris {
            let resolved = self.services.packages.resolve(project, uri).await;
            uris.push(resolved.map_err(|error| Failure::from(Refusal::invalid("packageUris", error.to_string())))?);
        }
        let folders = &self.services.allowed_folders;
        let packages = folders.model_packages(&self.services.packages, project, &uris, user.as_ref());
        let failed = |error: PackageError| package_failure(spec, error);
        if self.services.pods.is_some() {
            // The pods install them.
            let (packages, archives) = (packages.map_err(failed)?, folder.archives());
            let staged = self.services.environments.stage(&packages, &spec.requirements, &archives, &|_| {}).await;
            return staged.map(drop).map_err(failed);
        }
        let request = EnvironmentRequest {
            packages: packages.map_err(failed)?,
            requirements: spec.requirements.clone(),
            user: user.clone(),
            python: spec.python.clone(),
        };
        let prepared = self.services.environments.prepare(&request).await.map_err(failed)?;
        let (packages, scripts) = (folder.packages(), folder.scripts());
        blocking(move || {
            let environment = prepared.python.parent().and_then(Path::parent).unwrap_or(Path::new(""));
            copy_environment(environment, &packages, &scripts, user.as_ref()).map_err(|error| {
                Failure::not_loaded(format_args!("the installed packages cannot be copied: {error}"), "")
            })
        })
        .await
    }
}

/// Copies the packages of the virtual environment at `from`. Installers run code of packages, so links are not followed.
fn copy_environment(
    from: &Path,
    packages: &Path,
    scripts: &Path,
    user: Option<&ProgramUser>,
) -> Result<(), model_files::CopyError> {
    let user = user.map(|user| Arc::new(user.files()));
    let root = RootedPath::new(from, "").with_rights_of(user);
    let limits = (MAX_PACKAGE_FILES, MAX_PACKAGE_BYTES);
    let lib = root.join("lib");
    let unreadable = |source| model_files::CopyError::Unreadable { path: lib.path(), source };
    for entry in lib.entries().map_err(unreadable)? {
        if entry.is_folder {
            model_files::copy(&lib.join(&entry.name).join("site-packages"), packages, &INSTALLERS, limits)?;
        }
    }
    // Packages of AI Platform ship modules as scripts.
    let bin = root.join("bin");
    let unreadable = |source| model_files::CopyError::Unreadable { path: bin.path(), source };
    for entry in bin.entries().map_err(unreadable)? {
        let is_module = Path::new(&entry.name).extension().is_some_and(|extension| extension == "py");
        if !entry.is_file || !is_module {
            continue;
        }
        let script = bin.join(&entry.name);
        let content = script
            .read(MAX_SCRIPT)
            .map_err(|source| model_files::CopyError::Unreadable { path: script.path(), source })?;
        let path = scripts.join(&entry.name);
        let written = std::fs::create_dir_all(scripts).and_then(|()| std::fs::write(&path, content));
        written.map_err(|source| model_files::CopyError::NotWritten { path, source })?;
    }
    Ok(())
}

/// Maximum size of a module that is shipped as a script.
const MAX_SCRIPT: u64 = 16 << 20;

/// A failed installation, with the output of the installer.
fn package_failure(spec: &VersionSpec, error: PackageError) -> Failure {
    let names: Vec<&str> = spec.package_uris.iter().map(|uri| uri.rsplit('/').next().unwrap_or(uri)).collect();
    let packages = names.join(", ");
    match &error {
        PackageError::InstallFailed { installer, end, output, .. } => {
            let text = format!("User-provided package {packages} failed to install: {installer} ended with {end}");
            let mut detail = output.clone();
            if output.contains("flat-layout") {
                detail.push_str(
                    "\n\nsetuptools 61 and later refuse packages of several modules at the top level. State the modules in setup(), as \
                     py_modules=[...], or let the server install with an older one: PIP_CONSTRAINT=/FILE in its environment, \
                     with the line setuptools<61 in that file",
                );
            }
            Failure::not_loaded(text, &detail)
        }
        error => Failure::not_loaded(format_args!("User-provided package {packages} failed to install: {error}"), ""),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Failure> + Send + 'static) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::of_server("the creation of the version has ended", &error)))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
