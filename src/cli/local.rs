//! `tunesmith local train`: runs a trainer once on this machine and prints its output.
//!
//! The command reads no configuration, opens no store and installs nothing. The trainer runs in the user's Python.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use rand::Rng;
use serde_json::json;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use super::INTERRUPTED;
use super::output::{Followed, Writers, notice, write_line};
use crate::composition::{ContainerOptions, Isolation, local_executor};
use tunesmith_api::ai_platform::Additions;
use tunesmith_executor::local::{LocalExecutor, PassedEnvironment, SUPERVISOR_LOG, log_files};
use tunesmith_executor::reports::ReportSources;
use tunesmith_executor::tf_config::role_name;
use tunesmith_executor::{
    Executor, ExecutorJobId, ExecutorJobSpec, ExecutorJobState, Placement, Program, ProgramEnd, Replica, Role,
    StopMode, StopReason,
};

/// Default replica count per role of a distributed job, as in gcloud.
const DEFAULT_COUNT: u32 = 2;
/// Polling interval for output.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);
/// Offset of exit codes for signals, as in shells.
const SIGNALLED: i32 = 128;

#[derive(Debug, Subcommand)]
pub(super) enum LocalCommand {
    /// Run a trainer as one process or as a cluster of processes, and return its exit code.
    Train(TrainArgs),
    /// Predict with the files of a model in a Python of yours, and print the predictions.
    Predict(super::local_predict::LocalPredictArgs),
}

#[derive(Debug, Args)]
pub(super) struct TrainArgs {
    /// Python module to run, such as trainer.task.
    #[arg(long, value_name = "MODULE")]
    module_name: Option<String>,
    /// Folder of the trainer's Python package, which is not installed. Packages in the current folder are found without
    /// this option.
    #[arg(long, value_name = "DIR")]
    package_path: Option<PathBuf>,
    /// Folder for models and events. The trainer gets `--job-dir=DIR`.
    #[arg(long, value_name = "DIR")]
    job_dir: Option<String>,
    /// Run a master with workers and parameter servers, with their addresses in TF_CONFIG.
    #[arg(long)]
    distributed: bool,
    /// Number of workers, with --distributed [default: 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    worker_count: Option<u32>,
    /// Number of parameter servers, with --distributed [default: 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    parameter_server_count: Option<u32>,
    /// Number of evaluators.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    evaluator_count: u32,
    /// First of the consecutive ports of the replicas in TF_CONFIG, with --distributed [default: free ports].
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    start_port: Option<u16>,
    /// Folder in which to keep the output. By default, output is only printed.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Arguments for the trainer.
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

pub(super) fn train(args: &TrainArgs) -> anyhow::Result<ExitCode> {
    // Removed when the job ends.
    let (folder, _temporary) = folder(args.data_dir.as_deref())?;
    let spec = spec(args, &folder)?;
    // The trainer runs with the caller's environment, as in a shell.
    let isolation = Isolation { environment: PassedEnvironment::all(), ..Isolation::default() };
    let executor = local_executor(&folder, ContainerOptions::default(), isolation)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(run_job(&executor, spec));
    // Abandons a blocked write to standard output.
    runtime.shutdown_background();
    outcome
}

/// Absolute path of the job's folder, with the handle of a temporary one.
fn folder(data_dir: Option<&Path>) -> anyhow::Result<(PathBuf, Option<TempDir>)> {
    if let Some(path) = data_dir {
        return Ok((std::path::absolute(path)?, None));
    }
    let temporary = TempDir::with_prefix("tunesmith-").context("a temporary folder cannot be created")?;
    Ok((std::path::absolute(temporary.path())?, Some(temporary)))
}

fn spec(args: &TrainArgs, folder: &Path) -> anyhow::Result<ExecutorJobSpec> {
    let Some(module) = args.module_name.as_ref().filter(|module| !module.is_empty()) else {
        bail!("give --module-name, the Python module to run; the words after `--` are its arguments");
    };
    let working_directory = std::env::current_dir().context("the current folder cannot be read")?;
    let mut arguments = args.args.clone();
    arguments.extend(args.job_dir.iter().map(|directory| format!("--job-dir={directory}")));
    let argv: Vec<String> =
        ["python3", "-m", module].map(str::to_owned).into_iter().chain(arguments.iter().cloned()).collect();
    let replica = |(role, index)| Replica::new(role, index, Program::Command { argv: argv.clone() });
    // Concurrent commands need different names.
    let job = format!("local_train_{:016x}", rand::rng().next_u64()).parse()?;
    let id = ExecutorJobId { job, trial: None, attempt: 1 };
    Ok(ExecutorJobSpec {
        replicas: roles(args)?.into_iter().map(replica).collect(),
        // gcloud's description of a local job.
        training_input: json!({"job_name": module, "args": arguments}),
        master_is_chief: false,
        has_worker_pools: false,
        environment: environment(args.package_path.as_deref(), module, &working_directory)?,
        working_directory,
        program_folders: Vec::new(),
        directory: folder.join("local").join(id.to_string()),
        time_limit: None,
        start_port: args.start_port,
        placement: Placement::default(),
        packages: None,
        part: None,
        reports: ReportSources::default(),
        server: Default::default(),
        grace: Additions::default().stop_grace_period(),
        id,
    })
}

/// Role and index of every replica, master first.
fn roles(args: &TrainArgs) -> anyhow::Result<Vec<(Role, u32)>> {
    let counts = [("--worker-count", args.worker_count), ("--parameter-server-count", args.parameter_server_count)];
    if let (false, Some((flag, _))) = (args.distributed, counts.iter().find(|(_, count)| count.is_some())) {
        bail!("{flag} needs --distributed");
    }
    if args.start_port.is_some() && !args.distributed {
        bail!("--start-port needs --distributed");
    }
    let default = if args.distributed { DEFAULT_COUNT } else { 0 };
    let mut roles = vec![(Role::Master, 0)];
    roles.extend((0..args.worker_count.unwrap_or(default)).map(|index| (Role::Worker, index)));
    roles.extend((0..args.parameter_server_count.unwrap_or(default)).map(|index| (Role::ParameterServer, index)));
    roles.extend((0..args.evaluator_count).map(|index| (Role::Evaluator, index)));
    Ok(roles)
}

/// Environment that lets Python find the package and disables output buffering.
fn environment(
    package_path: Option<&Path>,
    module: &str,
    working_directory: &Path,
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut environment = BTreeMap::from([("PYTHONUNBUFFERED".to_owned(), "1".to_owned())]);
    let Some(package) = package_path else { return Ok(environment) };
    if !package.is_dir() {
        bail!("--package-path: {} is not a folder", package.display());
    }
    let mut absolute = std::path::absolute(package)?;
    if absolute.file_name().is_none() {
        // The path ends in `..`: only the file system knows the name.
        absolute = absolute.canonicalize().with_context(|| package.display().to_string())?;
    }
    let Some(parent) = absolute.parent() else { bail!("--package-path: the root folder is not a package") };
    let name = module.split('.').next().unwrap_or(module);
    if parent != working_directory && working_directory.join(name).is_dir() {
        // `python -m` searches the current folder first.
        notice(&format!("warning: Python imports {name} from the current folder, not from {}", parent.display()));
    }
    let inherited = std::env::var_os("PYTHONPATH").filter(|paths| !paths.is_empty());
    let inherited = inherited.iter().flat_map(std::env::split_paths);
    let paths = std::env::join_paths(std::iter::once(parent.to_owned()).chain(inherited))
        .with_context(|| format!("--package-path: {} cannot be in PYTHONPATH", parent.display()))?;
    let Ok(paths) = paths.into_string() else { bail!("PYTHONPATH with --package-path is not UTF-8") };
    environment.insert("PYTHONPATH".to_owned(), paths);
    Ok(environment)
}

async fn run_job(executor: &LocalExecutor, spec: ExecutorJobSpec) -> anyhow::Result<ExitCode> {
    // Installed before the job starts, so that no signal ends this process while it runs.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let mut hangups = signal(SignalKind::hangup())?;
    executor.submit(&spec).await?;
    let id = spec.id.clone();
    let (running, over) = std::sync::mpsc::channel::<()>();
    // On its own thread, because writes may block.
    let mut output = tokio::task::spawn_blocking(move || show(&spec, &over));
    let mut ending = std::pin::pin!(executor.wait(&id));
    let mut stop_requested = false;
    let mut shown = None;
    let state = loop {
        tokio::select! {
            biased;
            _ = interrupts.recv() => stop(executor, &id, &mut stop_requested).await?,
            _ = terminations.recv() => stop(executor, &id, &mut stop_requested).await?,
            _ = hangups.recv() => stop(executor, &id, &mut stop_requested).await?,
            result = &mut output, if shown.is_none() => {
                // Completes early only on an output error.
                shown = Some(result?);
                executor.stop(&id, StopMode::Graceful).await?;
            }
            state = &mut ending => break state?,
        }
    };
    drop(running);
    let shown = match shown {
        Some(failed) => failed,
        None => tokio::select! {
            biased;
            _ = interrupts.recv() => return Ok(ExitCode::from(INTERRUPTED)),
            result = output => result?,
        },
    };
    if let Err(error) = shown {
        notice(&format!("the output could not be shown: {error}"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(exit_code(state))
}

/// Stops the job gracefully on the first call and kills it on the second.
async fn stop(executor: &LocalExecutor, id: &ExecutorJobId, stop_requested: &mut bool) -> anyhow::Result<()> {
    let (how, text) = match *stop_requested {
        false => (StopMode::Graceful, "stopping; Ctrl-C once more stops at once"),
        true => (StopMode::Immediate, "stopping at once"),
    };
    *stop_requested = true;
    notice(text);
    Ok(executor.stop(id, how).await?)
}

/// Prints every replica's output until `over` is disconnected, then the rest.
fn show(spec: &ExecutorJobSpec, over: &Receiver<()>) -> io::Result<()> {
    let mut followed = Followed::default();
    loop {
        let writers = match over.recv_timeout(FOLLOW_INTERVAL) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => Writers::Alive,
            Err(RecvTimeoutError::Disconnected) => Writers::Gone,
        };
        for replica in &spec.replicas {
            let label = label(replica);
            let (stdout, stderr) = log_files(&spec.directory, replica);
            followed.new_lines(&stdout, writers, |line| write_line(&mut io::stdout().lock(), &label, line))?;
            followed.new_lines(&stderr, writers, |line| write_line(&mut io::stderr().lock(), &label, line))?;
        }
        let notes = spec.directory.join(SUPERVISOR_LOG);
        followed.new_lines(&notes, writers, |line| write_line(&mut io::stderr().lock(), "[tunesmith]", line))?;
        if writers == Writers::Gone {
            return Ok(());
        }
    }
}

fn label(replica: &Replica) -> String {
    match replica.role {
        Role::Master => "[master]".to_owned(),
        role => format!("[{} {}]", role_name(role, false), replica.index),
    }
}

fn exit_code(state: ExecutorJobState) -> ExitCode {
    let status = match state {
        ExecutorJobState::Ended(status) => status,
        ExecutorJobState::Lost { reason, .. } | ExecutorJobState::NotPlaced { reason } => {
            notice(&format!("the job was lost: {reason}"));
            return ExitCode::FAILURE;
        }
        ExecutorJobState::Unknown | ExecutorJobState::Waiting { .. } | ExecutorJobState::Running => {
            notice("the folder of the job was removed while it ran");
            return ExitCode::FAILURE;
        }
    };
    if status.stopped == Some(StopReason::Requested) {
        return ExitCode::from(INTERRUPTED);
    }
    let code = match status.end {
        ProgramEnd::Exited(code) => code,
        ProgramEnd::Signaled(signal) => SIGNALLED + signal,
        ProgramEnd::OutOfMemory => SIGNALLED + 9,
        ProgramEnd::NotStarted(reason) => {
            notice(&format!("the trainer could not be started: {reason}"));
            return ExitCode::FAILURE;
        }
    };
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}
