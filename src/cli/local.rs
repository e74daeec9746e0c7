//! `tunesmith local train`: a trainer run once on this machine, as it stands, with its output on the terminal.
//!
//! Neither a configuration nor a store takes part, and nothing is installed: the trainer runs in the user's Python.

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
use super::output::{Followed, Writers, write_line};
use super::progress::say;
use crate::composition::{ContainerOptions, local_executor};
use tunesmith_api::ai_platform::Additions;
use tunesmith_executor::local::{LocalExecutor, SUPERVISOR_LOG, log_files};
use tunesmith_executor::tf_config::role_name;
use tunesmith_executor::{
    Executor, ExecutorJobId, ExecutorJobSpec, ExecutorJobState, Program, ProgramEnd, Replica, Role, StopMode,
    StopReason,
};

/// Replicas of a role in a distributed job, unless said otherwise: as gcloud had it.
const DEFAULT_COUNT: u32 = 2;
/// How often the output is looked at.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);
/// Added to the number of a signal that ended the trainer, as shells have it.
const SIGNALLED: i32 = 128;

#[derive(Debug, Subcommand)]
pub(super) enum LocalCommand {
    /// Run a trainer, alone or as a cluster of processes; its exit code is passed on.
    Train(TrainArgs),
}

#[derive(Debug, Args)]
pub(super) struct TrainArgs {
    /// Module that is run, such as trainer.task.
    #[arg(long, value_name = "MODULE")]
    module_name: Option<String>,
    /// Folder of the trainer's Python package, which is used where it is; the current folder's packages if absent.
    #[arg(long, value_name = "DIR")]
    package_path: Option<PathBuf>,
    /// Where the trainer writes models and events: it gets `--job-dir=DIR`.
    #[arg(long, value_name = "DIR")]
    job_dir: Option<String>,
    /// Run a master with workers and parameter servers, which find each other through TF_CONFIG.
    #[arg(long)]
    distributed: bool,
    /// Workers beside the master, with --distributed; 2 if absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    worker_count: Option<u32>,
    /// Parameter servers, with --distributed; 2 if absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    parameter_server_count: Option<u32>,
    /// Evaluators beside the master.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    evaluator_count: u32,
    /// Folder in which the output is kept; if absent, it is forgotten once it was shown.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Arguments of the trainer.
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

/// Carries the command out.
pub(super) fn train(args: &TrainArgs) -> anyhow::Result<ExitCode> {
    // Lives until the job is over, and takes the output with it.
    let (folder, _temporary) = folder(args.data_dir.as_deref())?;
    let spec = spec(args, &folder)?;
    let executor = local_executor(&folder, ContainerOptions::default())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(carry_out(&executor, spec));
    // A reader of our output who stopped reading need not be waited for.
    runtime.shutdown_background();
    outcome
}

/// Where the job is kept, as an absolute path.
fn folder(data_dir: Option<&Path>) -> anyhow::Result<(PathBuf, Option<TempDir>)> {
    if let Some(path) = data_dir {
        return Ok((std::path::absolute(path)?, None));
    }
    let temporary = TempDir::with_prefix("tunesmith-").context("a temporary folder cannot be made")?;
    Ok((std::path::absolute(temporary.path())?, Some(temporary)))
}

fn spec(args: &TrainArgs, folder: &Path) -> anyhow::Result<ExecutorJobSpec> {
    let Some(module) = args.module_name.as_ref().filter(|module| !module.is_empty()) else {
        bail!("give --module-name: a Python module is run, and what stands after `--` are its arguments");
    };
    let working_directory = std::env::current_dir().context("the current folder cannot be read")?;
    let mut arguments = args.args.clone();
    arguments.extend(args.job_dir.iter().map(|directory| format!("--job-dir={directory}")));
    let argv: Vec<String> =
        ["python3", "-m", module].map(str::to_owned).into_iter().chain(arguments.iter().cloned()).collect();
    let replica = |(role, index)| Replica { role, index, program: Program::Command { argv: argv.clone() } };
    // As two commands at the same moment have it: different names.
    let job = format!("local_train_{:016x}", rand::rng().next_u64()).parse()?;
    let id = ExecutorJobId { job, trial: None, attempt: 1 };
    Ok(ExecutorJobSpec {
        replicas: roles(args)?.into_iter().map(replica).collect(),
        // As gcloud described a local job.
        training_input: json!({"job_name": module, "args": arguments}),
        master_is_chief: false,
        environment: environment(args.package_path.as_deref(), module, &working_directory)?,
        working_directory,
        directory: folder.join("local").join(id.to_string()),
        time_limit: None,
        grace: Additions::default().stop_grace_period(),
        id,
    })
}

/// Role and index of every replica, the master first.
fn roles(args: &TrainArgs) -> anyhow::Result<Vec<(Role, u32)>> {
    let counts = [("--worker-count", args.worker_count), ("--parameter-server-count", args.parameter_server_count)];
    if let (false, Some((flag, _))) = (args.distributed, counts.iter().find(|(_, count)| count.is_some())) {
        bail!("{flag} needs --distributed: without it one process is run");
    }
    let default = if args.distributed { DEFAULT_COUNT } else { 0 };
    let mut roles = vec![(Role::Master, 0)];
    roles.extend((0..args.worker_count.unwrap_or(default)).map(|index| (Role::Worker, index)));
    roles.extend((0..args.parameter_server_count.unwrap_or(default)).map(|index| (Role::ParameterServer, index)));
    roles.extend((0..args.evaluator_count).map(|index| (Role::Evaluator, index)));
    Ok(roles)
}

/// What lets Python find the package where it is, and show its output line by line.
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
        // It ends in `..`: only the file system knows the name.
        absolute = absolute.canonicalize().with_context(|| package.display().to_string())?;
    }
    let Some(parent) = absolute.parent() else { bail!("--package-path: the root folder is no package") };
    let name = module.split('.').next().unwrap_or(module);
    if parent != working_directory && working_directory.join(name).is_dir() {
        // So it is with `python -m`.
        say(&format!("the folder {name} in the current folder is found before the one in {}", parent.display()));
    }
    let former = std::env::var_os("PYTHONPATH").filter(|paths| !paths.is_empty());
    let former = former.iter().flat_map(std::env::split_paths);
    let paths = std::env::join_paths(std::iter::once(parent.to_owned()).chain(former))
        .with_context(|| format!("--package-path: {} cannot be in PYTHONPATH", parent.display()))?;
    let Ok(paths) = paths.into_string() else { bail!("PYTHONPATH with --package-path is not UTF-8") };
    environment.insert("PYTHONPATH".to_owned(), paths);
    Ok(environment)
}

async fn carry_out(executor: &LocalExecutor, spec: ExecutorJobSpec) -> anyhow::Result<ExitCode> {
    // Before anything is started: from here on no signal ends this process while the job runs.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let mut hangups = signal(SignalKind::hangup())?;
    executor.submit(&spec).await?;
    let id = spec.id.clone();
    let (running, over) = std::sync::mpsc::channel::<()>();
    // Apart from the signals: writing waits for whoever reads.
    let mut output = tokio::task::spawn_blocking(move || show(&spec, &over));
    let mut ending = std::pin::pin!(executor.wait(&id));
    let mut asked = false;
    let mut shown = None;
    let state = loop {
        tokio::select! {
            biased;
            _ = interrupts.recv() => ask_to_end(executor, &id, &mut asked).await?,
            _ = terminations.recv() => ask_to_end(executor, &id, &mut asked).await?,
            _ = hangups.recv() => ask_to_end(executor, &id, &mut asked).await?,
            result = &mut output, if shown.is_none() => {
                // It ends by itself only when it fails: nobody would see more of the job.
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
        say(&format!("the output could not be shown: {error}"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(exit_code(state))
}

/// The first request ends the job gently, the second at once.
async fn ask_to_end(executor: &LocalExecutor, id: &ExecutorJobId, asked: &mut bool) -> anyhow::Result<()> {
    let (how, text) = match *asked {
        false => (StopMode::Graceful, "stopping; once more stops at once"),
        true => (StopMode::Immediate, "stopping at once"),
    };
    *asked = true;
    say(text);
    Ok(executor.stop(id, how).await?)
}

/// Shows the output of every replica until `over` is disconnected, and then the rest.
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
        ExecutorJobState::Lost { reason } => {
            say(&format!("the job was lost: {reason}"));
            return ExitCode::FAILURE;
        }
        ExecutorJobState::Unknown | ExecutorJobState::Running => {
            say("the job was forgotten: its folder is gone");
            return ExitCode::FAILURE;
        }
    };
    if status.stopped == Some(StopReason::Requested) {
        return ExitCode::from(INTERRUPTED);
    }
    let code = match status.end {
        ProgramEnd::Exited(code) => code,
        ProgramEnd::Signaled(signal) => SIGNALLED + signal,
        ProgramEnd::NotStarted(reason) => {
            say(&format!("the trainer was not started: {reason}"));
            return ExitCode::FAILURE;
        }
    };
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}
