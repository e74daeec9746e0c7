//! `tunesmith versions` and `tunesmith predict`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::folder::Purpose;
use super::format::{Format, ListOutputArgs, show};
use super::job_update::label;
use super::models::short;
use super::target::{Service, TargetArgs};
use crate::cli::instances::{InstanceFiles, print_predictions};
use crate::cli::local_predict::FrameworkArg;
use crate::cli::output::notice;
use tunesmith_api::ai_platform::prediction::{ModelOperation, VersionMessage};
use tunesmith_client::Resource;

/// Interval between two looks at an operation.
const POLLING: Duration = Duration::from_millis(200);

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum VersionsCommand {
    /// Create a version from a folder, and wait until it is READY.
    #[command(disable_version_flag = true)]
    Create(Box<CreateArgs>),
    /// List the versions of a model.
    List(ListArgs),
    /// Print a version with the state of its workers.
    #[command(disable_version_flag = true)]
    Describe(VersionArgs),
    /// Delete a version.
    #[command(disable_version_flag = true)]
    Delete(VersionArgs),
    /// Make a version the default of its model.
    #[command(disable_version_flag = true)]
    SetDefault(VersionArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CreateArgs {
    /// Name of the version: letters, digits and _.
    version: String,
    /// Model of the version.
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// Folder with the files of the model, which are copied. Optional for a container.
    #[arg(long, value_name = "DIR", required_unless_present = "image")]
    origin: Option<String>,
    /// Framework of the model [default: that of the files].
    #[arg(long, value_name = "FRAMEWORK")]
    framework: Option<FrameworkArg>,
    /// Runtime version, which the server configuration maps to an interpreter.
    #[arg(long, value_name = "VERSION")]
    runtime_version: Option<String>,
    /// Python version. No effect.
    #[arg(long, value_name = "VERSION")]
    python_version: Option<String>,
    /// Source archives or wheels to install.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    package_uris: Vec<String>,
    /// Class of a custom prediction routine, MODULE.CLASS.
    #[arg(long, value_name = "CLASS")]
    prediction_class: Option<String>,
    /// Package of the index to install, such as scikit-learn==1.5.2; may be repeated.
    #[arg(long, value_name = "PACKAGE")]
    requirement: Vec<String>,
    /// Image of a container that answers predictions, instead of workers of an interpreter.
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["framework", "runtime_version", "python_version"])]
    image: Option<String>,
    /// Replaces the entry point of the image.
    #[arg(long, value_name = "WORD", value_delimiter = ',', allow_hyphen_values = true, requires = "image")]
    command: Vec<String>,
    /// Arguments to the entry point.
    #[arg(long, value_name = "WORD", value_delimiter = ',', allow_hyphen_values = true, requires = "image")]
    args: Vec<String>,
    /// Environment variables of the container.
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = label, requires = "image")]
    env_vars: Vec<(String, String)>,
    /// Port of the container's HTTP server [default: 8080].
    #[arg(long, value_name = "PORT", requires = "image")]
    ports: Option<u16>,
    /// Path that predictions are posted to [default: /v1/models/MODEL/versions/VERSION:predict].
    #[arg(long, value_name = "PATH", requires = "image")]
    predict_route: Option<String>,
    /// Path that answers once the model can predict [default: /v1/models/MODEL/versions/VERSION].
    #[arg(long, value_name = "PATH", requires = "image")]
    health_route: Option<String>,
    /// Machine type: memory and processors of a worker.
    #[arg(long, value_name = "TYPE")]
    machine_type: Option<String>,
    /// Minimum number of workers; 0 ends them while they are idle [default: 0].
    #[arg(long, value_name = "N")]
    min_nodes: Option<u16>,
    /// Maximum number of workers [default: that of the server].
    #[arg(long, value_name = "N")]
    max_nodes: Option<u16>,
    /// Description.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Labels.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    labels: Vec<(String, String)>,
    #[command(flatten)]
    target: TargetArgs,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    /// Model of the versions.
    #[arg(long, value_name = "MODEL")]
    model: String,
    #[command(flatten)]
    target: TargetArgs,
    /// List only versions that satisfy all terms, such as "state:READY".
    #[arg(long, value_name = "EXPRESSION", default_value = "")]
    filter: String,
    #[command(flatten)]
    output: ListOutputArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct VersionArgs {
    /// Name of the version.
    version: String,
    /// Model of the version.
    #[arg(long, value_name = "MODEL")]
    model: String,
    #[command(flatten)]
    target: TargetArgs,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Yaml)]
    format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PredictArgs {
    /// Model to predict with.
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// Version of the model [default: its default version].
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    #[command(flatten)]
    instances: InstanceFiles,
    /// Name of a signature; passed to custom prediction routines, without effect on other models.
    #[arg(long, value_name = "NAME")]
    signature_name: Option<String>,
    /// Print the whole response.
    #[arg(long)]
    response: bool,
    #[command(flatten)]
    target: TargetArgs,
}

pub(super) async fn run(command: VersionsCommand) -> anyhow::Result<ExitCode> {
    match command {
        VersionsCommand::Create(args) => create(&args).await,
        VersionsCommand::List(args) => list(&args).await,
        VersionsCommand::Describe(args) => {
            let service = args.target.service(Purpose::Look).await?;
            show_version(&service.version(&args.model, &args.version).await?, &args.format)
        }
        VersionsCommand::Delete(args) => {
            let service = args.target.service(Purpose::Change).await?;
            service.delete_version(&args.model, &args.version).await?;
            notice(&format!("version {} of model {} is deleted", args.version, args.model));
            Ok(ExitCode::SUCCESS)
        }
        VersionsCommand::SetDefault(args) => {
            let service = args.target.service(Purpose::Change).await?;
            show_version(&service.set_default_version(&args.model, &args.version).await?, &args.format)
        }
    }
}

pub(super) async fn predict(args: &PredictArgs) -> anyhow::Result<ExitCode> {
    let request = args.instances.request(args.signature_name.as_deref())?;
    // A process of its own runs the workers of a data folder.
    let service = args.target.service(Purpose::Change).await?;
    let reply = service.predict(&args.model, args.version.as_deref(), request).await?;
    print_predictions(&reply, args.response)?;
    Ok(ExitCode::SUCCESS)
}

fn show_version(version: &Resource<VersionMessage>, format: &Format) -> anyhow::Result<ExitCode> {
    show(format, &version.json, || {
        let default = if version.is_default { ", the default" } else { "" };
        format!("{}  {}{default}\n", short(&version.name), version.state)
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let service = args.target.service(Purpose::Look).await?;
    let versions = service.versions(&args.model, &args.filter).await?;
    let row = |version: &Resource<VersionMessage>| {
        let default = if version.is_default { "yes" } else { "" };
        let message = version.error_message.lines().next().unwrap_or_default();
        let origin = if message.is_empty() { &version.deployment_uri } else { message };
        vec![short(&version.name).to_owned(), version.state.clone(), default.to_owned(), origin.to_owned()]
    };
    args.output.show_rows(versions, &["NAME", "STATE", "DEFAULT", "ORIGIN"], row)?;
    Ok(ExitCode::SUCCESS)
}

async fn create(args: &CreateArgs) -> anyhow::Result<ExitCode> {
    let service = args.target.service(Purpose::Change).await?;
    let here = |uri: &String| match uri.contains("://") || !service.uses_current_folder {
        true => Ok(uri.clone()),
        false => std::path::absolute(uri).map(|path| path.display().to_string()),
    };
    let mut version = json!({"name": args.version});
    let mut set = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            version[field] = value;
        }
    };
    set("deploymentUri", args.origin.as_ref().map(here).transpose()?.map(Value::from));
    set("machineType", args.machine_type.clone().map(Value::from));
    set("container", args.image.as_ref().map(|image| container(args, image)));
    let routes = [("predict", &args.predict_route), ("health", &args.health_route)];
    let routes: Map<String, Value> =
        routes.into_iter().filter_map(|(name, path)| Some((name.to_owned(), path.clone()?.into()))).collect();
    set("routes", Some(routes).filter(|routes| !routes.is_empty()).map(Value::from));
    set("framework", args.framework.map(|framework| serde_json::to_value(framework.framework())).transpose()?);
    set("runtimeVersion", args.runtime_version.clone().map(Value::from));
    set("pythonVersion", args.python_version.clone().map(Value::from));
    set("predictionClass", args.prediction_class.clone().map(Value::from));
    set("description", args.description.clone().map(Value::from));
    let packages = args.package_uris.iter().map(here).collect::<std::io::Result<Vec<String>>>()?;
    set("packageUris", Some(packages).filter(|packages| !packages.is_empty()).map(Value::from));
    let labels: Map<String, Value> = args.labels.iter().cloned().map(|(key, value)| (key, value.into())).collect();
    set("labels", Some(labels).filter(|labels| !labels.is_empty()).map(Value::from));
    if args.min_nodes.is_some() || args.max_nodes.is_some() {
        let scaling = json!({"minNodes": args.min_nodes.unwrap_or(0), "maxNodes": args.max_nodes.unwrap_or(0)});
        set("autoScaling", Some(scaling));
    }
    if !args.requirement.is_empty() {
        set("tunesmith", Some(json!({"requirements": args.requirement})));
    }
    let operation = service.create_version(&args.model, &version).await?;
    created_version(&service, &args.model, operation, &args.format).await
}

fn container(args: &CreateArgs, image: &str) -> Value {
    let variables = args.env_vars.iter().map(|(name, value)| json!({"name": name, "value": value}));
    let ports = args.ports.iter().map(|port| json!({"containerPort": port}));
    json!({
        "image": image,
        "command": args.command,
        "args": args.args,
        "env": variables.collect::<Vec<_>>(),
        "ports": ports.collect::<Vec<_>>(),
    })
}

/// Waits until the version that `operation` creates is ready.
///
/// # Errors
/// The reason why it is not ready.
pub(super) async fn created_version(
    service: &Service,
    model: &str,
    mut operation: Resource<ModelOperation>,
    format: &Format,
) -> anyhow::Result<ExitCode> {
    let name = operation.metadata.version.as_ref().map(|version| short(&version.name).to_owned()).unwrap_or_default();
    while !operation.done {
        tokio::time::sleep(POLLING).await;
        operation = service.operation(short(&operation.name)).await?;
    }
    if let Some(error) = &operation.error {
        bail!("version {name} of model {model} is not ready: {}", error.message);
    }
    let version = service.version(model, &name).await?;
    for warning in &version.tunesmith.warnings {
        notice(&format!("warning: {warning}"));
    }
    for found in &version.tunesmith.notices.notices {
        notice(&format!("{}: {}", found.field, found.description));
    }
    show_version(&version, format)
}
