//! `tunesmith jobs submit prediction`: the command of gcloud.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::folder::Purpose;
use super::format::show;
use super::job_update::label;
use super::notices::print_notices;
use super::submit::FollowArgs;
use super::target::{Service, TargetArgs};
use tunesmith_api::ai_platform::Int64;
use tunesmith_api::ai_platform::job::JobRequest;
use tunesmith_api::ai_platform::prediction::{DataFormat, PredictionInput};
use tunesmith_domain::JobId;

#[derive(Debug, Args)]
pub(in crate::cli) struct PredictionArgs {
    /// Name of the job.
    job: JobId,
    #[command(flatten)]
    target: TargetArgs,
    /// Model, whose default version predicts, unless --version names another one.
    #[arg(long, value_name = "MODEL", required_unless_present = "model_dir")]
    model: Option<String>,
    /// Version of the model.
    #[arg(long, value_name = "VERSION", requires = "model")]
    version: Option<String>,
    /// Folder with the files of a model, instead of a version.
    #[arg(long, value_name = "DIR", conflicts_with = "model")]
    model_dir: Option<String>,
    /// Format of the input files. Each line is an instance: json for JSON, text also for other text, such as CSV.
    #[arg(long, value_name = "FORMAT", ignore_case = true)]
    data_format: InputFormatArg,
    /// Format of the output files: json, or csv.
    #[arg(long, value_name = "FORMAT", ignore_case = true)]
    output_data_format: Option<OutputFormatArg>,
    /// Input files, folders, and patterns with *, ? and **; separated by commas.
    #[arg(long, value_name = "PATH", value_delimiter = ',', required = true)]
    input_paths: Vec<String>,
    /// Folder for the predictions.
    #[arg(long, value_name = "DIR")]
    output_path: String,
    /// Region to run in. No effect.
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Instances per call of the model [default: 64].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    batch_size: Option<i64>,
    /// Maximum number of workers [default: 10].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    max_worker_count: Option<i64>,
    /// Runtime version for the model of --model-dir, which the server configuration maps to an interpreter.
    #[arg(long, value_name = "VERSION")]
    runtime_version: Option<String>,
    /// Signature of a TensorFlow model. No effect.
    #[arg(long, value_name = "NAME")]
    signature_name: Option<String>,
    /// Labels of the job.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    labels: Vec<(String, String)>,
    #[command(flatten)]
    follow: FollowArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum InputFormatArg {
    Json,
    Text,
    TfRecord,
    TfRecordGzip,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OutputFormatArg {
    Json,
    Csv,
}

pub(super) async fn prediction(args: &PredictionArgs) -> anyhow::Result<ExitCode> {
    let service = args.target.service_of(&args.job, args.follow.purpose(Purpose::Add)).await?;
    let id = args.job.parts().1;
    let mut request = JobRequest::default();
    request.job_id = id.to_owned();
    request.labels = args.labels.iter().cloned().collect();
    request.prediction_input = Some(input(args, &service)?);
    let created = service.create_job(&request).await?;
    print_notices(created.notices(), None, &[]);
    show(&args.follow.format, &created.json, || format!("jobId: {id}\nstate: {}\n", created.state))?;
    args.follow.conclude(&args.target, &service, id).await
}

fn input(args: &PredictionArgs, service: &Service) -> anyhow::Result<PredictionInput> {
    // A relative path refers to the client's current folder, not the server's.
    let path = |path: &String| -> anyhow::Result<String> {
        let is_local = !path.contains("://") && service.uses_current_folder;
        Ok(if is_local { std::path::absolute(path)?.display().to_string() } else { path.clone() })
    };
    let model = args.model.as_ref().map(|model| match model.contains('/') {
        true => model.clone(),
        false => format!("projects/{}/models/{model}", service.project()),
    });
    let version = args.version.as_ref().and_then(|version| Some(format!("{}/versions/{version}", model.as_ref()?)));
    Ok(PredictionInput {
        model_name: model.filter(|_| version.is_none()).unwrap_or_default(),
        version_name: version.unwrap_or_default(),
        uri: args.model_dir.as_ref().map(path).transpose()?.unwrap_or_default(),
        data_format: match args.data_format {
            InputFormatArg::Json => DataFormat::Json,
            InputFormatArg::Text => DataFormat::Text,
            InputFormatArg::TfRecord => DataFormat::TfRecord,
            InputFormatArg::TfRecordGzip => DataFormat::TfRecordGzip,
        },
        output_data_format: match args.output_data_format {
            None => DataFormat::DataFormatUnspecified,
            Some(OutputFormatArg::Json) => DataFormat::Json,
            Some(OutputFormatArg::Csv) => DataFormat::Csv,
        },
        input_paths: args.input_paths.iter().map(path).collect::<anyhow::Result<_>>()?,
        output_path: path(&args.output_path)?,
        region: args.region.clone().unwrap_or_default(),
        batch_size: args.batch_size.map(Int64),
        max_worker_count: args.max_worker_count.map(Int64),
        runtime_version: args.runtime_version.clone().unwrap_or_default(),
        signature_name: args.signature_name.clone().unwrap_or_default(),
    })
}
