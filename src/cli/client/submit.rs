//! `tunesmith jobs submit training`: the command of gcloud; and what other submissions share with it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::folder::{Folder, Purpose};
use super::format::{Format, show};
use super::job_state::conclude;
use super::job_update::label;
use super::log_stream::{LogStream, SelectionArgs};
use super::notices::print_notices;
use super::packages::{upload_file, upload_folder};
use super::submit_flags::{FLAGS, TrainingFlags};
use super::submit_prediction::PredictionArgs;
#[cfg(feature = "vizier")]
use super::submit_vertex::{CustomArgs, TuningArgs};
use super::target::{Service, TargetArgs};
use crate::cli::output::notice;
use crate::cli::results::shell_word;
use crate::cli::{BAD_INPUT, INTERRUPTED};
use tunesmith_api::ai_platform::job::JobRequest;
use tunesmith_api::ai_platform::{TrainingInput, proto_json};
use tunesmith_client::Client;
use tunesmith_config::{Completion, HptuningConfig};
use tunesmith_domain::JobId;
use tunesmith_jobs::Control;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum SubmitCommand {
    /// Submit a training job. It tunes hyperparameters if its configuration has any.
    ///
    /// Packages are first uploaded to the server, unless it already has their content. With a data folder, the job
    /// waits until `tunesmith serve --data-dir` runs it; with --stream-logs, this command runs it immediately.
    Training(Box<TrainingArgs>),
    /// Submit a batch prediction: files of instances to files of predictions.
    ///
    /// The version of a model, or a folder with the files of a model, predicts every line of the input files. A line
    /// that fails goes to a file of errors.
    #[command(disable_version_flag = true)]
    Prediction(Box<PredictionArgs>),
    /// Submit a custom job of Vertex AI, with the flags of `gcloud ai custom-jobs create`.
    #[cfg(feature = "vizier")]
    Custom(Box<CustomArgs>),
    /// Submit a hyperparameter tuning job of Vertex AI, with the flags of `gcloud ai hp-tuning-jobs create`.
    #[cfg(feature = "vizier")]
    HpTuning(Box<TuningArgs>),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TrainingArgs {
    /// Name of the job. By default, the jobId of the configuration.
    job: Option<JobId>,
    #[command(flatten)]
    target: TargetArgs,
    /// Training input: AI Platform's hptuning_config.yaml, in YAML or JSON. Other arguments override it.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Python module to run, such as trainer.task.
    #[arg(long, value_name = "MODULE")]
    module_name: Option<String>,
    /// Folder of the trainer's Python package, which is uploaded. Its parent folder may contain a setup.py.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    package_path: Option<PathBuf>,
    /// Wheels and source archives: local files, which are uploaded, or URIs.
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',')]
    packages: Vec<String>,
    /// Folder for models and events. Each trial gets `--job-dir=DIR/<trial>`.
    #[arg(long, value_name = "DIR")]
    job_dir: Option<String>,
    /// Labels of the job.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    labels: Vec<(String, String)>,
    /// Arguments for the trainer, preceding those after `--`.
    #[arg(long, value_name = "ARG", value_delimiter = ',', allow_hyphen_values = true)]
    args: Vec<String>,
    /// Total number of trials; overrides maxTrials.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    trials: Option<i32>,
    /// Number of concurrent trials; overrides maxParallelTrials.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=10_000))]
    parallel: Option<i32>,
    /// Seed of all random choices. By default, drawn at random and stored.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    follow: FollowArgs,
    /// Return once the job is submitted. The default without --stream-logs.
    #[arg(long = "async", conflicts_with = "stream_logs")]
    async_: bool,
    /// Accepted without effect: packages are uploaded to the service.
    #[arg(long, value_name = "BUCKET")]
    staging_bucket: Option<String>,
    #[command(flatten)]
    flags: TrainingFlags,
    /// Arguments for the trainer. Without a package or image: the command of the trainer on the server's machine.
    #[arg(last = true, value_name = "ARGS")]
    user_args: Vec<String>,
}

/// Behaviour after a job is queued.
#[derive(Debug, Args)]
pub(super) struct FollowArgs {
    /// Print the output of the job until it ends; exit code 0 if it succeeded. With a data folder, also run the job.
    #[arg(long)]
    stream_logs: bool,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    pub(super) format: Format,
}

impl FollowArgs {
    /// Purpose of the service: to run the job, or `otherwise`.
    pub(super) fn purpose(&self, otherwise: Purpose) -> Purpose {
        if self.stream_logs { Purpose::RunJob } else { otherwise }
    }

    /// Streams the output of the queued job `id` if requested, and prints the next commands otherwise.
    pub(super) async fn conclude(&self, target: &TargetArgs, service: &Service, id: &str) -> anyhow::Result<ExitCode> {
        if self.stream_logs {
            return follow_to_end(service, id, &self.selection).await;
        }
        print_next_commands(target, service, id);
        Ok(ExitCode::SUCCESS)
    }
}

impl TrainingArgs {
    /// Training input fields set by arguments, for the configuration rules.
    fn completion(&self) -> anyhow::Result<Completion> {
        let mut input = self.flags.input()?;
        let texts = [("pythonModule", &self.module_name), ("jobDir", &self.job_dir)];
        input.extend(texts.into_iter().filter_map(|(field, text)| Some((field.to_owned(), json!(text.as_ref()?)))));
        Ok(Completion { input, flags: FLAGS, is_open: false })
    }
}

pub(super) async fn training(args: &TrainingArgs) -> anyhow::Result<ExitCode> {
    let completion = args.completion()?;
    let load = |path| tunesmith_config::load_completed(path, &completion);
    let config = match args.config.as_deref().map(load) {
        None => None,
        Some(Ok(config)) => Some(config),
        Some(Err(errors)) => {
            notice(&errors.to_string());
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    for warning in config.iter().flat_map(|config| &config.warnings) {
        notice(&warning.to_string());
    }
    let job = args.job.clone().or_else(|| config.as_ref().and_then(|config| config.job_id.clone()));
    let job = job.context("the job has no name: give it as the first argument, or as jobId in the configuration")?;
    let id = job.parts().1;
    let service = args.target.service_of(&job, args.follow.purpose(Purpose::Add)).await?;
    let input = training_input(args, config.as_ref(), completion, &service).await?;
    let mut labels = config.as_ref().map(|config| config.labels.clone()).unwrap_or_default();
    labels.extend(args.labels.iter().cloned());
    let mut request = JobRequest::default();
    request.job_id = id.to_owned();
    request.labels = labels;
    request.training_input = Some(input);
    let created = service.create_job(&request).await?;
    let arguments: &[&str] = if args.staging_bucket.is_some() { &["--staging-bucket"] } else { &[] };
    print_notices(created.notices(), config.as_ref(), arguments);
    show(&args.follow.format, &created.json, || format!("jobId: {id}\nstate: {}\n", created.state))?;
    args.follow.conclude(&args.target, &service, id).await
}

/// Streams a queued job's output until it ends. In a data folder, also runs it.
async fn follow_to_end(service: &Service, id: &str, selection: &SelectionArgs) -> anyhow::Result<ExitCode> {
    if let Some(folder) = service.folder() {
        return run_job(selection, service, folder, id).await;
    }
    let state = LogStream::new(service, id, selection).follow(&mut std::io::stdout()).await?;
    conclude(service, id, state).await
}

/// Configuration with the arguments applied.
async fn training_input(
    args: &TrainingArgs,
    config: Option<&HptuningConfig>,
    completion: Completion,
    service: &Service,
) -> anyhow::Result<TrainingInput> {
    let mut input = match config {
        Some(config) => config.training_input.clone(),
        None => {
            let message = [("trainingInput".to_owned(), Value::Object(completion.input))];
            let request: JobRequest = proto_json::from_object(message.into_iter().collect())?;
            request.training_input.unwrap_or_default()
        }
    };
    if let Some(job_dir) = &args.job_dir {
        // A relative path refers to the client's current folder, not the server's. With tokens, it is relative to the
        // project's area.
        let is_path = !job_dir.contains("://") && service.uses_current_folder;
        input.job_dir = if is_path { std::path::absolute(job_dir)?.display().to_string() } else { job_dir.clone() };
    }
    input.tunesmith.seed = args.seed.or(input.tunesmith.seed);
    for (flag, count) in [("--trials", args.trials), ("--parallel", args.parallel)] {
        if count.is_some() && input.hyperparameters.is_none() {
            bail!("{flag}: the configuration has no hyperparameters");
        }
    }
    if let Some(hyperparameters) = &mut input.hyperparameters {
        hyperparameters.max_trials = args.trials.or(hyperparameters.max_trials);
        hyperparameters.max_parallel_trials = args.parallel.or(hyperparameters.max_parallel_trials);
    }
    let mut packages = Vec::new();
    if let Some(path) = &args.package_path {
        packages.push(upload_folder(service, path).await?);
    }
    for package in &args.packages {
        packages.push(upload_file(service, package).await?);
    }
    if packages.is_empty() {
        // Local packages are uploaded even if the server has a file of the same name.
        for package in &mut input.package_uris {
            if Path::new(package).is_file() {
                *package = upload_file(service, package).await?;
            }
        }
    } else {
        input.package_uris = packages;
    }
    let has_image = input.master_config.as_ref().is_some_and(|config| !config.image_uri.is_empty());
    let has_program = has_image || !input.package_uris.is_empty() || !input.python_module.is_empty();
    if !has_program && !args.user_args.is_empty() {
        if !args.args.is_empty() {
            bail!("--args needs a package or an image; without them, the words after `--` are the whole command");
        }
        input.master_config.get_or_insert_default().container_command.clone_from(&args.user_args);
    } else if has_program {
        input.args.extend(args.args.iter().chain(&args.user_args).cloned());
    } else if !args.args.is_empty() {
        input.args.clone_from(&args.args);
    }
    Ok(input)
}

/// Prints the commands that run or show the queued job `id`.
fn print_next_commands(target: &TargetArgs, service: &Service, id: &str) {
    if let Some(folder) = service.folder() {
        return notice(&format!("the job waits in the data folder; to run it: {}", folder.serve_command()));
    }
    let project = service.project();
    let name = if project == JobId::LOCAL_PROJECT { id.to_owned() } else { format!("{project}/{id}") };
    // The next command reads the server from the environment, too.
    let server = match target.names_server() {
        true => format!(" --server {}", shell_word(&service.address())),
        false => String::new(),
    };
    notice(&format!(
        "to describe it: tunesmith jobs describe {name}{server}\n\
         to follow it: tunesmith jobs stream-logs {name}{server}\n\
         to see it in a browser: {}",
        service.page_address(&["jobs", id])
    ));
}

/// Runs the job in this process, like `tunesmith run`, and prints its output.
async fn run_job(selection: &SelectionArgs, client: &Client, folder: &Folder, id: &str) -> anyhow::Result<ExitCode> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let (set_control, control) = watch::channel(Control::Run);
    let running = tokio::spawn(folder.run_jobs(control));
    let mut logs = LogStream::new(client, id, selection);
    let mut output = std::io::stdout();
    let ended = tokio::select! {
        state = logs.follow(&mut output) => Some(state),
        _ = interrupts.recv() => None,
        _ = terminations.recv() => None,
    };
    set_control.send_replace(Control::Interrupt);
    running.await.context("running the job stopped unexpectedly")?;
    for error in folder.finish_export(&JobId::new(client.project(), id)?).await? {
        notice(&format!(
            "warning: the export is not complete: {error}; the next server on the data folder continues it"
        ));
    }
    match ended {
        Some(state) => conclude(client, id, state?).await,
        None => {
            notice(&format!("interrupted; to resume job {id}: {}", folder.serve_command()));
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}
