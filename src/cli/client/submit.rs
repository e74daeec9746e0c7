//! `tunesmith jobs submit training`: as gcloud had it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::folder::{Folder, Purpose};
use super::format::{Format, show};
use super::job_labels::label;
use super::jobs::{SelectionArgs, conclude};
use super::log_stream::LogStream;
use super::packages::{hand_over_file, hand_over_folder};
use super::request::{Client, text};
use super::submit_flags::{TrainingFlags, set};
use super::target::TargetArgs;
use crate::cli::progress::say;
use crate::cli::results::shell_word;
use crate::cli::{BAD_INPUT, INTERRUPTED};
use tunesmith_api::ai_platform::{TrainingInput, without_effect};
use tunesmith_config::HptuningConfig;
use tunesmith_domain::JobId;
use tunesmith_service::Control;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum SubmitCommand {
    /// Submit a training job, which tunes hyperparameters if its configuration has some.
    ///
    /// To a server, packages are handed over first; each content once. In a data folder the job waits until `tunesmith
    /// serve --data-dir` carries it out; with --stream-logs it is carried out at once, by this command.
    Training(Box<TrainingArgs>),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TrainingArgs {
    /// Name of the job; that of the configuration if absent.
    job: Option<JobId>,
    #[command(flatten)]
    target: TargetArgs,
    /// The training input: AI Platform's hptuning_config.yaml, YAML or JSON. Other arguments prevail over it.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Module that is run, such as trainer.task.
    #[arg(long, value_name = "MODULE")]
    module_name: Option<String>,
    /// Folder of the trainer's Python package, which is handed over; its parent may have a setup.py.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    package_path: Option<PathBuf>,
    /// Wheels and source archives: files of this machine, which are handed over, or addresses.
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',')]
    packages: Vec<String>,
    /// Where trials write models and events: each gets `--job-dir=DIR/<trial>`.
    #[arg(long, value_name = "DIR")]
    job_dir: Option<String>,
    /// Labels of the job.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    labels: Vec<(String, String)>,
    /// Arguments of the trainer, before those after `--`.
    #[arg(long, value_name = "ARG", value_delimiter = ',', allow_hyphen_values = true)]
    args: Vec<String>,
    /// Key of all randomness; drawn and kept if absent.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Follow the job's output until it ends; the exit code tells how. In a data folder, also carry it out.
    #[arg(long, conflicts_with = "async_")]
    stream_logs: bool,
    /// Return when the job is submitted, which is so without --stream-logs in any case.
    #[arg(long = "async")]
    async_: bool,
    /// Accepted without effect: packages are handed to the service itself.
    #[arg(long, value_name = "BUCKET")]
    staging_bucket: Option<String>,
    #[command(flatten)]
    flags: TrainingFlags,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Form of the answer.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Arguments of the trainer; without package and image, a command of the server's machine that is the trainer.
    #[arg(last = true, value_name = "ARGS")]
    user_args: Vec<String>,
}

/// Carries the command out.
pub(super) async fn training(args: &TrainingArgs) -> anyhow::Result<ExitCode> {
    let config = match args.config.as_deref().map(tunesmith_config::load) {
        None => None,
        Some(Ok(config)) => Some(config),
        Some(Err(errors)) => {
            say(&errors.to_string());
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    for warning in config.iter().flat_map(|config| &config.warnings) {
        say(&warning.to_string());
    }
    let job = args.job.clone().or_else(|| config.as_ref().and_then(|config| config.job_id.clone()));
    let job = job.context("the job has no name: give one before the first flag, or jobId in the configuration")?;
    let id = job.parts().1;
    let purpose = if args.stream_logs { Purpose::CarryOut } else { Purpose::Add };
    let client = args.target.client_in(args.target.project_of(&job), purpose).await?;
    let input = training_input(args, config.as_ref(), &client).await?;
    tell_what_has_no_effect(args, &input);
    let mut labels = config.map(|config| config.labels).unwrap_or_default();
    labels.extend(args.labels.iter().cloned());
    let request = json!({"jobId": id, "labels": labels, "trainingInput": input});
    let created = client.post(&client.path(&["jobs"]), &[], request).await?;
    show(args.format, &created, || format!("jobId: {id}\nstate: {}\n", text(&created, "state")))?;
    match (args.stream_logs, client.folder()) {
        (false, folder) => {
            tell_what_may_follow(&args.target, &client, &job, folder);
            Ok(ExitCode::SUCCESS)
        }
        (true, None) => {
            let mut logs = LogStream::new(&client, id, args.selection.selection());
            let state = logs.follow(&mut std::io::stdout()).await?;
            conclude(&client, id, state).await
        }
        (true, Some(folder)) => carry_out(args, &client, folder, id).await,
    }
}

/// The configuration with what the arguments say on top, as JSON.
async fn training_input(
    args: &TrainingArgs,
    config: Option<&HptuningConfig>,
    client: &Client,
) -> anyhow::Result<Value> {
    let mut input = serde_json::to_value(config.map(|config| config.training_input.clone()).unwrap_or_default())?;
    args.flags.apply(&mut input)?;
    if let Some(module) = &args.module_name {
        set(&mut input, "/pythonModule", json!(module));
    }
    if let Some(job_dir) = &args.job_dir {
        // What is on this machine is named from here, not from where the server was started.
        let is_path = !job_dir.contains("://") && client.is_on_this_machine();
        let job_dir = if is_path { std::path::absolute(job_dir)?.display().to_string() } else { job_dir.clone() };
        set(&mut input, "/jobDir", json!(job_dir));
    }
    if let Some(seed) = args.seed {
        set(&mut input, "/tunesmith/seed", json!(seed));
    }
    let mut packages = Vec::new();
    if let Some(path) = &args.package_path {
        packages.push(hand_over_folder(client, path).await?);
    }
    for package in &args.packages {
        packages.push(hand_over_file(client, package).await?);
    }
    if packages.is_empty() {
        // Files of this machine are handed over, whatever the service may find under their names is not meant.
        for package in config.iter().flat_map(|config| &config.training_input.package_uris) {
            packages.push(if Path::new(package).is_file() {
                hand_over_file(client, package).await?
            } else {
                package.clone()
            });
        }
    }
    if !packages.is_empty() {
        set(&mut input, "/packageUris", json!(packages));
    }
    let is_given = |pointer: &str| input.pointer(pointer).is_some_and(|value| !matches!(value, Value::Null));
    let brings_program =
        ["/packageUris", "/pythonModule", "/masterConfig/imageUri"].iter().any(|field| is_given(field));
    if brings_program {
        let mut arguments: Vec<Value> = input["args"].as_array().cloned().unwrap_or_default();
        arguments.extend(args.args.iter().chain(&args.user_args).map(|argument| json!(argument)));
        if !arguments.is_empty() {
            set(&mut input, "/args", json!(arguments));
        }
    } else if !args.user_args.is_empty() {
        if !args.args.is_empty() {
            bail!("--args are arguments of a package or an image; what stands after `--` is a whole command");
        }
        set(&mut input, "/masterConfig/containerCommand", json!(args.user_args));
    } else if !args.args.is_empty() {
        set(&mut input, "/args", json!(args.args));
    }
    Ok(input)
}

fn tell_what_has_no_effect(args: &TrainingArgs, input: &Value) {
    let mut fields = match serde_json::from_value::<TrainingInput>(input.clone()) {
        // The service's queue keeps what stands under scheduling.
        Ok(input) => without_effect(&input).into_iter().filter(|field| !field.starts_with("scheduling.")).collect(),
        // The service says what is wrong with it.
        Err(_) => Vec::new(),
    };
    if args.staging_bucket.is_some() {
        fields.push("--staging-bucket".to_owned());
    }
    if !fields.is_empty() {
        say(&format!("no effect on this service: {}", fields.join(", ")));
    }
}

fn tell_what_may_follow(target: &TargetArgs, client: &Client, job: &JobId, folder: Option<&Folder>) {
    match folder {
        Some(folder) => {
            say(&format!("the job waits in the data folder; to carry it out: {}", folder.serve_command()));
        }
        None => {
            let project = target.project_of(job);
            let id = job.parts().1;
            let name = if project == JobId::LOCAL_PROJECT { id.to_owned() } else { format!("{project}/{id}") };
            let server = shell_word(&client.address());
            say(&format!(
                "to look at it: tunesmith jobs describe {name} --server {server}\n\
                 to follow it: tunesmith jobs stream-logs {name} --server {server}"
            ));
        }
    }
}

/// Carries the job out in this process, as `tunesmith run` does, and prints its output.
async fn carry_out(args: &TrainingArgs, client: &Client, folder: &Folder, id: &str) -> anyhow::Result<ExitCode> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let (set_control, control) = watch::channel(Control::Run);
    let running = tokio::spawn(folder.run_jobs(control));
    let mut logs = LogStream::new(client, id, args.selection.selection());
    let mut output = std::io::stdout();
    let ended = tokio::select! {
        state = logs.follow(&mut output) => Some(state),
        _ = interrupts.recv() => None,
        _ = terminations.recv() => None,
    };
    set_control.send_replace(Control::Interrupt);
    running.await.context("running the job stopped unexpectedly")?;
    match ended {
        Some(state) => conclude(client, id, state?).await,
        None => {
            say(&format!("interrupted; to go on with job {id}: {}", folder.serve_command()));
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}
