//! `tunesmith jobs submit custom` and `hp-tuning`: the commands `gcloud ai custom-jobs create` and `gcloud ai hp-tuning-jobs
//! create`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Map, Value, json};

use super::folder::Purpose;
use super::format::show;
use super::job_update::label;
use super::notices::print_notices;
use super::packages::{upload_file, upload_folder};
use super::submit::FollowArgs;
use super::submit_flags::constant;
use super::target::{Service, TargetArgs};
use crate::cli::BAD_INPUT;
use crate::cli::output::notice;
use crate::vertex_file::{Additions, VertexFile};
use tunesmith_domain::JobId;
use tunesmith_vizier::names::vertex::{CUSTOM_JOBS, TUNING_JOBS};

/// Flags of both commands.
#[derive(Debug, Args)]
pub(in crate::cli) struct VertexArgs {
    /// Name of the job for people. By default that of the configuration, or the name of its file.
    #[arg(long, value_name = "NAME")]
    display_name: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
    /// Location of the job, which may have a place in the server configuration.
    #[arg(long, value_name = "REGION", default_value = "local")]
    region: String,
    /// Labels of the job.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    labels: Vec<(String, String)>,
    /// Account to run as. No effect.
    #[arg(long, value_name = "ACCOUNT")]
    service_account: Option<String>,
    /// Network to peer with. No effect.
    #[arg(long, value_name = "NETWORK")]
    network: Option<String>,
    /// Enable an interactive shell in the containers. No effect.
    #[arg(long)]
    enable_web_access: bool,
    /// Enable access to the dashboard of the job. No effect.
    #[arg(long)]
    enable_dashboard_access: bool,
    #[command(flatten)]
    follow: FollowArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CustomArgs {
    #[command(flatten)]
    common: VertexArgs,
    /// CustomJobSpec in YAML or JSON. Other arguments override it.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    #[arg(required_unless_present = "worker_pool_spec")]
    config: Option<PathBuf>,
    /// Worker pool: machine-type, replica-count (1 by default), accelerator-type, accelerator-count, and container-image-uri
    /// or python-module, with executor-image-uri and local-package-path. May be repeated, once for each pool; an unused pool
    /// is empty.
    #[arg(long, value_name = "KEY=VALUE,...")]
    worker_pool_spec: Vec<String>,
    /// Packages of python-module: local files, which are uploaded, or URIs.
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',')]
    python_package_uris: Vec<String>,
    /// Command of all containers, in place of their entry point. Without an image, the command of a process.
    #[arg(long, value_name = "WORD", value_delimiter = ',')]
    command: Vec<String>,
    /// Arguments of all programs.
    #[arg(long, value_name = "ARG", value_delimiter = ',', allow_hyphen_values = true)]
    args: Vec<String>,
    /// Persistent resource to run on. No effect.
    #[arg(long, value_name = "NAME")]
    persistent_resource_id: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TuningArgs {
    #[command(flatten)]
    common: VertexArgs,
    /// HyperparameterTuningJob in YAML or JSON. Other arguments override it.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,
    /// Total number of trials; overrides maxTrialCount.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    max_trial_count: Option<i32>,
    /// Number of concurrent trials; overrides parallelTrialCount.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=10_000))]
    parallel_trial_count: Option<i32>,
    /// Algorithm of the search: algorithm-unspecified (the default), grid-search or random-search.
    #[arg(long, value_name = "ALGORITHM")]
    algorithm: Option<String>,
}

pub(super) async fn custom(args: &CustomArgs) -> anyhow::Result<ExitCode> {
    let mut job = json!({});
    if let Some(path) = &args.config {
        match read(path, CUSTOM_JOBS, Additions::default(), args.worker_pool_spec.is_empty())? {
            Ok(read) => job = read,
            Err(code) => return Ok(code),
        }
    }
    let service = args.common.service().await?;
    let spec = object(&mut job, "jobSpec");
    let mut packages = Vec::new();
    for package in &args.python_package_uris {
        packages.push(upload_file(&service, package).await?);
    }
    if !args.worker_pool_spec.is_empty() {
        let mut pools = Vec::new();
        for text in &args.worker_pool_spec {
            let pool = pool(text).with_context(|| format!("--worker-pool-spec={text}"))?;
            if let Some((folder, module)) = pool.package_folder() {
                packages.push(upload_folder(&service, &folder.join(module)).await?);
            }
            pools.push(pool);
        }
        let has_command = !args.command.is_empty();
        let pools = pools.into_iter().map(|pool| pool.message(&packages, has_command)).collect();
        spec["workerPoolSpecs"] = Value::Array(pools);
    }
    for pool in spec["workerPoolSpecs"].as_array_mut().into_iter().flatten() {
        let programs = [("containerSpec", true), ("pythonPackageSpec", false)];
        for (program, is_container) in programs {
            let Some(program) = pool.get_mut(program) else { continue };
            if !args.args.is_empty() {
                program["args"] = json!(args.args);
            }
            if is_container && !args.command.is_empty() {
                program["command"] = json!(args.command);
            }
        }
    }
    if let Some(name) = &args.persistent_resource_id {
        spec["persistentResourceId"] = json!(name);
    }
    args.common.submit(&service, CUSTOM_JOBS, "jobSpec", job).await
}

pub(super) async fn tuning(args: &TuningArgs) -> anyhow::Result<ExitCode> {
    let additions = Additions {
        max_trials: args.max_trial_count,
        parallel_trials: args.parallel_trial_count,
        ..Additions::default()
    };
    let mut job = match read(&args.config, TUNING_JOBS, additions, true)? {
        Ok(job) => job,
        Err(code) => return Ok(code),
    };
    if let Some(algorithm) = &args.algorithm {
        object(&mut job, "studySpec")["algorithm"] = json!(constant(algorithm));
    }
    let service = args.common.service().await?;
    args.common.submit(&service, TUNING_JOBS, "trialJobSpec", job).await
}

/// The object at `field` of `job`.
fn object<'a>(job: &'a mut Value, field: &str) -> &'a mut Value {
    if job[field].is_null() {
        job[field] = json!({});
    }
    &mut job[field]
}

/// Job in the file at `path`, of the type of `collection`; the exit code after errors, which are printed. Its rules are
/// checked with their places in the file if it `is_whole`.
fn read(
    path: &Path,
    collection: &str,
    additions: Additions,
    is_whole: bool,
) -> anyhow::Result<Result<Value, ExitCode>> {
    let Some(file) = VertexFile::load(path, additions) else {
        bail!("--config {}: this is no file of Vertex AI; `tunesmith validate` names its format", path.display());
    };
    let file = match file {
        Ok(file) => file,
        Err(errors) => {
            notice(&errors.to_string());
            return Ok(Err(ExitCode::from(BAD_INPUT)));
        }
    };
    if is_whole {
        for warning in file.config()?.warnings {
            notice(&warning.to_string());
        }
    }
    let (found, job) = file.message()?;
    if found != collection {
        let command = if found == CUSTOM_JOBS { "custom" } else { "hp-tuning" };
        bail!("--config {}: this is a {}; use `jobs submit {command}`", path.display(), file.format());
    }
    Ok(Ok(job))
}

impl VertexArgs {
    async fn service(&self) -> anyhow::Result<Service> {
        self.target.service(self.follow.purpose(Purpose::Add)).await
    }

    /// Submits `job`, whose programs are in `spec`, with the flags applied.
    async fn submit(
        &self,
        service: &Service,
        collection: &str,
        spec: &str,
        mut job: Value,
    ) -> anyhow::Result<ExitCode> {
        if let Some(name) = &self.display_name {
            job["displayName"] = json!(name);
        }
        if job["displayName"].is_null() {
            bail!("the job has no name: give --display-name, or displayName in the configuration");
        }
        for (key, value) in &self.labels {
            object(&mut job, "labels")[key] = json!(value);
        }
        let spec = object(&mut job, spec);
        let texts = [("serviceAccount", &self.service_account), ("network", &self.network)];
        for (field, text) in texts {
            if let Some(text) = text {
                spec[field] = json!(text);
            }
        }
        let switches =
            [("enableWebAccess", self.enable_web_access), ("enableDashboardAccess", self.enable_dashboard_access)];
        for (field, _) in switches.into_iter().filter(|(_, is_given)| *is_given) {
            spec[field] = json!(true);
        }
        let created = service.create_vertex_job(&self.region, collection, &job).await?;
        let name = created["name"].as_str().unwrap_or_default();
        let id = JobId::of_vertex(service.project(), name.rsplit('/').next().unwrap_or_default())?;
        let id = id.parts().1;
        print_notices(service.job(id).await?.notices(), None, &[]);
        let state = created["state"].as_str().unwrap_or_default();
        show(&self.follow.format, &created, || format!("name: {name}\njobId: {id}\nstate: {state}\n"))?;
        self.follow.conclude(&self.target, service, id).await
    }
}

/// A worker pool as gcloud writes it.
#[derive(Debug, Default, PartialEq)]
struct Pool {
    /// Fields of the machine.
    machine: Map<String, Value>,
    replicas: u64,
    image: Option<String>,
    executor_image: Option<String>,
    module: Option<String>,
    package_path: Option<PathBuf>,
    is_unused: bool,
}

/// Parses `machine-type=n1-standard-4,replica-count=1,container-image-uri=x`.
fn pool(text: &str) -> anyhow::Result<Pool> {
    let mut pool = Pool { replicas: 1, is_unused: text.is_empty(), ..Pool::default() };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let Some((key, value)) = part.split_once('=') else { bail!("{part:?} is not KEY=VALUE") };
        let count = || value.parse::<u64>().with_context(|| format!("{key}: {value:?} is not a whole number"));
        match key {
            "machine-type" => drop(pool.machine.insert("machineType".to_owned(), json!(value))),
            "accelerator-type" => drop(pool.machine.insert("acceleratorType".to_owned(), json!(constant(value)))),
            "accelerator-count" => drop(pool.machine.insert("acceleratorCount".to_owned(), json!(count()?))),
            "replica-count" => pool.replicas = count()?,
            "container-image-uri" => pool.image = Some(value.to_owned()),
            "executor-image-uri" => pool.executor_image = Some(value.to_owned()),
            "python-module" => pool.module = Some(value.to_owned()),
            "local-package-path" => pool.package_path = Some(value.into()),
            "output-image-uri" | "script" | "requirements" | "extra-packages" | "extra-dirs" => {
                bail!("{key} is for images that gcloud builds: use a package, with python-module, or an image")
            }
            _ => bail!(
                "unknown key {key:?}; allowed: machine-type, replica-count, accelerator-type, accelerator-count, \
                 container-image-uri, executor-image-uri, python-module, local-package-path"
            ),
        }
    }
    if pool.image.is_some() && (pool.module.is_some() || pool.executor_image.is_some()) {
        bail!(
            "container-image-uri is given together with python-module or executor-image-uri; allowed: one of the two"
        );
    }
    if pool.package_path.is_some() && pool.module.is_none() {
        bail!("local-package-path needs python-module");
    }
    if pool.machine.contains_key("acceleratorType") {
        pool.machine.entry("acceleratorCount").or_insert(json!(1));
    }
    Ok(pool)
}

impl Pool {
    /// Folder of the pool, and the package in it that has the module.
    fn package_folder(&self) -> Option<(&Path, &str)> {
        let module = self.module.as_deref()?;
        Some((self.package_path.as_deref()?, module.split('.').next().unwrap_or(module)))
    }

    /// Message of the pool, whose module is in `packages`. A pool without a program is one of a process if `has_command`.
    fn message(self, packages: &[String], has_command: bool) -> Value {
        if self.is_unused {
            return json!({});
        }
        let mut message = json!({"machineSpec": self.machine, "replicaCount": self.replicas.to_string()});
        if let Some(module) = self.module {
            let image = self.executor_image.unwrap_or_default();
            message["pythonPackageSpec"] =
                json!({"executorImageUri": image, "packageUris": packages, "pythonModule": module});
        } else if self.image.is_some() || has_command {
            message["containerSpec"] = json!({"imageUri": self.image.unwrap_or_default()});
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_read_as_gcloud_writes_them() {
        let read = |text: &str| pool(text).map(|pool| pool.message(&["p.whl".to_owned()], false));
        assert_eq!(
            read(
                "replica-count=2,machine-type=n1-highmem-2,accelerator-type=nvidia-tesla-t4,container-image-uri=x/y:1"
            )
            .unwrap(),
            json!({
                "machineSpec":
                    {"machineType": "n1-highmem-2", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1},
                "replicaCount": "2",
                "containerSpec": {"imageUri": "x/y:1"},
            })
        );
        assert_eq!(
            read("machine-type=e2-standard-4,executor-image-uri=tf:1,python-module=trainer.task").unwrap(),
            json!({
                "machineSpec": {"machineType": "e2-standard-4"},
                "replicaCount": "1",
                "pythonPackageSpec":
                    {"executorImageUri": "tf:1", "packageUris": ["p.whl"], "pythonModule": "trainer.task"},
            })
        );
        assert_eq!(read("").unwrap(), json!({}));
        for (text, part) in [
            ("machine-type", "is not KEY=VALUE"),
            ("replica-count=two", "replica-count: \"two\" is not a whole number"),
            ("machine=x", "unknown key \"machine\""),
            ("script=run.sh", "script is for images"),
            ("container-image-uri=x,python-module=m", "one of the two"),
            ("local-package-path=.", "needs python-module"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
