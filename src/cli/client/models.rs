//! `tunesmith models`: the model commands of gcloud, and models of jobs.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::folder::Purpose;
use super::format::{Format, ListOutputArgs, show};
use super::job_name::find_job;
use super::job_update::label;
use super::target::{Service, TargetArgs};
use super::versions::created_version;
use crate::cli::local_predict::FrameworkArg;
use crate::cli::output::notice;
use tunesmith_api::ai_platform::prediction::{ModelMessage, ModelOperation};
use tunesmith_client::{ClientError, Resource};
use tunesmith_domain::JobId;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ModelsCommand {
    /// Create a model, with --from-job also a version of the best trial of a job.
    #[command(disable_version_flag = true)]
    Create(CreateArgs),
    /// List the models of a project.
    List(ListArgs),
    /// Print a model with its default version.
    Describe(ModelArgs),
    /// Delete a model without versions.
    Delete(ModelArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CreateArgs {
    /// Name of the model: letters, digits and _.
    model: String,
    /// Job whose best trial becomes a version of the model, which is created if it does not exist.
    #[arg(long, value_name = "JOB")]
    from_job: Option<JobId>,
    /// Trial of the job: best, recommended by the model of the results, or its number.
    #[arg(long, value_name = "TRIAL", requires = "from_job", default_value = "best")]
    trial: String,
    /// Name of the version [default: that of the job and its trial].
    #[arg(long, value_name = "VERSION", requires = "from_job")]
    version: Option<String>,
    /// Folder of the model below the trial's folder [default: model, if the trial has left one].
    #[arg(long, value_name = "NAME", requires = "from_job")]
    subfolder: Option<String>,
    /// Framework of the model [default: that of the files].
    #[arg(long, value_name = "FRAMEWORK", requires = "from_job")]
    framework: Option<FrameworkArg>,
    /// Runtime version, which the server configuration maps to an interpreter [default: that of the job].
    #[arg(long, value_name = "VERSION", requires = "from_job")]
    runtime_version: Option<String>,
    /// Class of a custom prediction routine in the packages of the job, MODULE.CLASS.
    #[arg(long, value_name = "CLASS", requires = "from_job")]
    prediction_class: Option<String>,
    /// Package of the index to install for the version, such as scikit-learn==1.5.2; may be repeated.
    #[arg(long, value_name = "PACKAGE", requires = "from_job")]
    requirement: Vec<String>,
    /// Description of the model.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Region of the model. No effect.
    #[arg(long, alias = "region", value_name = "REGION")]
    regions: Option<String>,
    /// Labels of the model.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    labels: Vec<(String, String)>,
    #[command(flatten)]
    target: TargetArgs,
    /// Output format: table, yaml, json, or a gcloud format such as "value(name)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// List only models that satisfy all terms, such as "name:iris*".
    #[arg(long, value_name = "EXPRESSION", default_value = "")]
    filter: String,
    #[command(flatten)]
    output: ListOutputArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ModelArgs {
    /// Name of the model.
    model: String,
    #[command(flatten)]
    target: TargetArgs,
    /// Output format: table, yaml, json, or a gcloud format such as "value(name)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Yaml)]
    format: Format,
}

pub(super) async fn run(command: ModelsCommand) -> anyhow::Result<ExitCode> {
    match command {
        ModelsCommand::Create(args) => create(&args).await,
        ModelsCommand::List(args) => list(&args).await,
        ModelsCommand::Describe(args) => {
            let service = args.target.service(Purpose::Look).await?;
            let model = service.model(&args.model).await?;
            show(&args.format, &model.json, || line(&model))?;
            Ok(ExitCode::SUCCESS)
        }
        ModelsCommand::Delete(args) => {
            let service = args.target.service(Purpose::Change).await?;
            service.delete_model(&args.model).await?;
            notice(&format!("model {} is deleted", args.model));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn line(model: &ModelMessage) -> String {
    format!("{}  default version: {}\n", short(&model.name), default_of(model))
}

/// Last segment of a resource name.
pub(super) fn short(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn default_of(model: &ModelMessage) -> &str {
    model.default_version.as_ref().map_or("none", |version| short(&version.name))
}

async fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let service = args.target.service(Purpose::Look).await?;
    let models = service.models(&args.filter).await?;
    let row = |model: &Resource<ModelMessage>| {
        let versions = model.tunesmith.version_count.to_string();
        vec![short(&model.name).to_owned(), default_of(model).to_owned(), versions, model.description.clone()]
    };
    args.output.show_rows(models, &["NAME", "DEFAULT_VERSION", "VERSIONS", "DESCRIPTION"], row)?;
    Ok(ExitCode::SUCCESS)
}

async fn create(args: &CreateArgs) -> anyhow::Result<ExitCode> {
    let service = match &args.from_job {
        Some(job) => args.target.service_of(job, Purpose::Change).await?,
        None => args.target.service(Purpose::Add).await?,
    };
    let mut model = Map::new();
    model.insert("name".to_owned(), args.model.clone().into());
    if let Some(description) = &args.description {
        model.insert("description".to_owned(), description.clone().into());
    }
    if let Some(region) = &args.regions {
        model.insert("regions".to_owned(), json!([region]));
    }
    if !args.labels.is_empty() {
        model.insert(
            "labels".to_owned(),
            args.labels.iter().cloned().map(|(key, value)| (key, value.into())).collect::<Map<_, _>>().into(),
        );
    }
    let created = service.create_model(&Value::Object(model)).await;
    let Some(job) = &args.from_job else {
        let model = created?;
        show(&args.format, &model.json, || line(&model))?;
        return Ok(ExitCode::SUCCESS);
    };
    let is_new = match created {
        Err(ClientError::Refused(refusal)) if refusal.code == "ALREADY_EXISTS" => false,
        created => created.map(|_| true)?,
    };
    match begin_version(&service, job, args).await {
        Ok(operation) => created_version(&service, &args.model, operation, &args.format).await,
        Err(error) => {
            // A model without a version is of no use to anyone.
            if is_new {
                service.delete_model(&args.model).await?;
            }
            Err(error)
        }
    }
}

/// Starts the creation of a version with the files of `job`.
async fn begin_version(service: &Service, job: &JobId, args: &CreateArgs) -> anyhow::Result<Resource<ModelOperation>> {
    let job = find_job(service, job).await?.job_id.clone();
    let mut additions = json!({"job": job, "trial": args.trial, "requirements": args.requirement});
    if let Some(subfolder) = &args.subfolder {
        additions["subfolder"] = subfolder.clone().into();
    }
    let mut version = json!({"tunesmith": additions});
    let given = [
        ("name", &args.version),
        ("runtimeVersion", &args.runtime_version),
        ("predictionClass", &args.prediction_class),
    ];
    for (field, value) in given.into_iter().filter_map(|(field, value)| Some((field, value.as_ref()?))) {
        version[field] = value.clone().into();
    }
    if let Some(framework) = args.framework {
        version["framework"] = serde_json::to_value(framework.framework())?;
    }
    Ok(service.create_version(&args.model, &version).await?)
}
