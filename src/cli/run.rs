//! `tunesmith run`: runs one job in this process, from its configuration to its best trial.

use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

#[cfg(feature = "console")]
use super::console::LiveConsole;
use super::continuation;
use super::executor_args::ExecutorArgs;
use super::folder_args::{ContainerArgs, CopyArgs, DEFAULT_DATA_DIR, ServerConfigArgs, StoreArgs};
use super::isolation_args::EnvironmentArgs;
use super::job_output::JobOutput;
use super::logging::LogFormat;
use super::output::{Writers, notice, print};
use super::output_file;
use super::progress::{Progress, Style};
use super::results::{Results, study_and_trials};
use super::run_again::AgainArgs;
use super::run_gcloud::GcloudArgs;
use super::run_input::{load, submission};
use super::run_logs::RunLogs;
use super::run_tracking::{RunExport, TrackingArgs};
use super::table::TableArgs;
use super::{BAD_INPUT, INTERRUPTED, STORE_FAILED, is_of_the_medium};
use crate::composition::{self, Isolation};
use crate::copied;
use crate::executors::{self, ExecutorKind};
use crate::server_settings::ServerSettings;
use tunesmith_api::ai_platform::inherited_fields;
use tunesmith_config::{ConfigErrors, HptuningConfig, KnownExecutor};
use tunesmith_data_dir::DataDir;
use tunesmith_domain::{Job, JobId, JobPlan, JobState};
use tunesmith_files::RootedPath;
use tunesmith_http::AllowedHosts;
use tunesmith_http::answer_other_servers;
use tunesmith_http::server;
use tunesmith_jobs::{AgentReports, Control, JobOutcome, RunSettings, Submission, Submitted, TrialReports};
use tunesmith_store::Store;
use tunesmith_tracking::Destinations;

/// Maximum size of the port file in bytes.
const MAX_PORT_BYTES: u64 = 16;

/// Message if a signal ends the wait for the export.
const EXPORT_LEFT: &str = "the export was left; the next run or export continues it";

/// Refresh interval of the display and the followed logs.
const REFRESH_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Training input with hyperparameters: AI Platform's hptuning_config.yaml, in YAML or JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) config: PathBuf,
    /// Folder of the trainer's Python package, which is installed. Its parent folder may contain a setup.py.
    #[arg(long, value_name = "DIR", requires = "module_name")]
    pub(super) package_path: Option<PathBuf>,
    /// Python module to run, such as trainer.task.
    #[arg(long, value_name = "MODULE")]
    pub(super) module_name: Option<String>,
    /// Folder for models and events. Each trial gets `--job-dir=DIR/<trial>`.
    #[arg(long, value_name = "DIR")]
    pub(super) job_dir: Option<String>,
    /// Name of the job. The name of an unfinished job resumes it. By default, generated from the file name.
    #[arg(long, value_name = "ID")]
    pub(super) job_id: Option<JobId>,
    #[command(flatten)]
    pub(super) again: AgainArgs,
    /// Number of concurrent trials; overrides maxParallelTrials.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(super) parallel: Option<u64>,
    /// Seed of all random choices. By default, drawn at random and stored.
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Data folder with jobs, trials and logs.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    data_dir: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    copy: CopyArgs,
    /// Write the job resource with its trials, best first, to this JSON file.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the trials to this CSV file.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    #[command(flatten)]
    tracking: TrackingArgs,
    /// Show the job in a browser while it runs: prints a link to a read-only console on a free loopback port, or on
    /// ADDRESS. Every user of this machine can open it.
    #[cfg(feature = "console")]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:0")]
    #[arg(value_parser = super::console::loopback)]
    console: Option<SocketAddr>,
    /// Print the output of the programs, labelled by trial.
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    server_config: ServerConfigArgs,
    #[command(flatten)]
    container: ContainerArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    executor: ExecutorArgs,
    #[command(flatten)]
    pub(super) gcloud: GcloudArgs,
    #[command(flatten)]
    table: TableArgs,
    /// Command of the trainer, or arguments for the trainer if a package or image is given.
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<String>,
}

pub(super) fn run(args: RunArgs, log_format: LogFormat) -> anyhow::Result<ExitCode> {
    let (mut config, vertex) = match load(&args) {
        Ok(read) => read,
        Err(error) => match error.downcast::<ConfigErrors>() {
            Ok(errors) => {
                notice(&errors.to_string());
                return Ok(ExitCode::from(BAD_INPUT));
            }
            Err(error) => return Err(error),
        },
    };
    args.again.apply(&mut config)?;
    args.gcloud.apply(&mut config);
    let destinations = args.tracking.apply(&mut config)?;
    for warning in &config.warnings {
        notice(&warning.to_string());
    }
    if args.executor.is_local() {
        for hint in tunesmith_config::hints(&config, composition::processors().get(), args.parallel) {
            notice(&format!("hint: {hint}"));
        }
    }
    for (flag, path) in [("--output", &args.output), ("--export", &args.export)] {
        if let Some(path) = path {
            output_file::check(flag, path)?;
        }
    }
    let kept = executors::kept(&args.data_dir)?;
    let known = KnownExecutor { wanted: args.executor.name(), kept: kept.map(ExecutorKind::as_str) };
    let settings = match args.server_config.settings(known) {
        Ok(settings) => settings,
        Err(error) => {
            notice(&format!("{:#}", anyhow::Error::from(error)));
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    // Inherited fields are read from the store, which is not opened for an invalid configuration.
    let submission = match inherited_fields(&config.training_input).is_empty() {
        true => Some(submission(&args, &config, vertex.as_ref(), &settings.machines)?),
        false => None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome =
        runtime.block_on(run_job(&args, config, submission, settings, destinations, log_format == LogFormat::Json));
    // Abandons threads still reading files.
    runtime.shutdown_background();
    outcome
}

async fn run_job(
    args: &RunArgs,
    mut config: HptuningConfig,
    submission: Option<Submission>,
    settings: ServerSettings,
    destinations: Destinations,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let who = format!("tunesmith run --config {}", args.config.display());
    let data_dir = Arc::new(DataDir::open(&args.data_dir, args.store.source()?, &who)?);
    let isolation = Isolation {
        environment: args.environment.passed()?,
        // The author of the configuration is the operator.
        private_packages: true,
        log_quota_bytes: args.environment.log_quota_bytes(),
        ..Isolation::default()
    };
    let (container, executor) = (args.container.options()?, args.executor.options(&settings.executor));
    let machines = settings.machines.clone();
    let application =
        composition::compose(&data_dir, container, isolation, executor, settings, composition::MEMORY).await?;
    #[cfg(feature = "console")]
    let console = match args.console {
        Some(address) => Some(LiveConsole::open(address, &data_dir, application.clone()).await.context("--console")?),
        None => None,
    };
    let (store, jobs) = (&*application.store, &application.jobs);
    let owner = composition::owner(data_dir.path())?;
    let submission = match submission {
        Some(submission) => submission,
        None => {
            continuation::complete(&mut config, store).await?;
            self::submission(args, &config, None, &machines)?
        }
    };
    // Before the submission, which adds a job to this folder.
    copied::settle(&data_dir, store, false, |_| false).await?;
    let submitted = args.again.submit(jobs, submission).await?;
    let job = submitted.job().clone();
    if matches!(submitted, Submitted::Resumed(_)) {
        copied::settle(&data_dir, store, args.copy.resume_copied, |unfinished| unfinished.id == job.id).await?;
    }
    if matches!(submitted, Submitted::Created(_)) {
        let (project, id) = job.id.parts();
        composition::record(&owner, "ml.projects.jobs.create", &format!("projects/{project}/jobs/{id}"), 200)?;
    }
    announce(&submitted, &data_dir, json);
    let export = RunExport::new(&application, &job, destinations);
    if let Submitted::Finished(job) = submitted {
        export.of_finished(&job).await;
        return conclude(args, store, &data_dir, job, false).await;
    }
    #[cfg(feature = "console")]
    if let Some(console) = &console {
        announce_console(console, &job.id, json);
    }

    let plan = job.plan()?.clone();
    continuation::print_sources(&plan);
    let directory = data_dir.job(&job.id);
    std::fs::create_dir_all(&directory).with_context(|| format!("{} cannot be created", directory.display()))?;
    let endpoint = serve_reports(&directory, application.reports.clone(), application.agents.clone()).await?;
    let mut progress = progress(store, &job, &plan, args, json, &directory).await?;
    let (events, mut emitted) = mpsc::unbounded_channel();
    let (set_control, control) = watch::channel(Control::Run);
    let running = tokio::spawn({
        let (jobs, id) = (Arc::clone(jobs), job.id.clone());
        let settings = RunSettings { endpoint, parallel: args.parallel, events: Some(events) };
        async move { jobs.run_one(&id, settings, control).await }
    });
    // Output of a job without trials is printed unchanged, unless programs read the log.
    let mut output = match (&job.study, json) {
        (None, false) => Some(JobOutput::new(directory.clone())?),
        _ => None,
    };
    let mut logs = if args.follow && output.is_none() { Some(RunLogs::new(&directory)?) } else { None };
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let mut refresh = tokio::time::interval(REFRESH_INTERVAL);
    refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = interrupts.recv() => raise(&set_control, &progress),
            _ = terminations.recv() => raise(&set_control, &progress),
            _ = refresh.tick() => {
                progress.refresh();
                if let Some(output) = &mut output {
                    output.print(Writers::Alive)?;
                }
                if print_logs(&mut logs, &progress, Writers::Alive).is_err() {
                    // The reader of the output has exited. Printing the results fails, too, and reports that.
                    logs = None;
                    set_control.send_replace(Control::Interrupt);
                }
            }
            event = emitted.recv() => match event {
                Some(event) => progress.show(&event),
                // The run has ended, and all its events were shown.
                None => break,
            },
        }
    }
    if let Some(output) = &mut output {
        output.print(Writers::Gone)?;
    }
    print_logs(&mut logs, &progress, Writers::Gone)?;
    progress.finish();
    #[cfg(feature = "console")]
    if let Some(console) = console {
        console.end().await;
    }
    let outcome = running.await?;
    if let Ok(JobOutcome::Ended(job) | JobOutcome::Interrupted(job)) = &outcome {
        tokio::select! {
            () = export.finish(job, &args.data_dir) => {}
            _ = interrupts.recv() => notice(EXPORT_LEFT),
            _ = terminations.recv() => notice(EXPORT_LEFT),
        }
    }
    match outcome {
        Ok(JobOutcome::Ended(job)) => conclude(args, store, &data_dir, job, false).await,
        Ok(JobOutcome::Interrupted(job)) => conclude(args, store, &data_dir, job, true).await,
        Err(error) => {
            let error = anyhow::Error::from(error);
            notice(&format!("error: {error:#}\nto resume job {}, give the same command", job.id));
            Ok(if is_of_the_medium(&error) { ExitCode::from(STORE_FAILED) } else { ExitCode::FAILURE })
        }
    }
}

/// Interrupts the job on the first call, and kills its programs on the second.
fn raise(control: &watch::Sender<Control>, progress: &Progress) {
    control.send_modify(|now| {
        *now = if *now == Control::Run { Control::Interrupt } else { Control::Kill };
        progress.say(match now {
            Control::Kill => "stopping at once",
            _ => "stopping the running trials; Ctrl-C once more stops at once",
        });
    });
}

/// Prints new lines of the followed logs.
fn print_logs(logs: &mut Option<RunLogs>, progress: &Progress, writers: Writers) -> std::io::Result<()> {
    match logs {
        Some(logs) => progress.suspend(|| logs.print(writers)),
        None => Ok(()),
    }
}

fn announce(submitted: &Submitted, data_dir: &DataDir, json: bool) {
    let job = submitted.job();
    let what = match submitted {
        Submitted::Created(_) => "created",
        Submitted::Resumed(_) => "resumed",
        Submitted::Finished(_) => "finished before; nothing is left to do",
    };
    if json {
        tracing::info!(job.id = %job.id, data.path = %data_dir.path().display(), "job {what}");
    } else {
        notice(&format!("job {} {what}, in {}", job.id, data_dir.path().display()));
    }
}

/// Prints the link to the page of the job.
#[cfg(feature = "console")]
fn announce_console(console: &LiveConsole, id: &JobId, json: bool) {
    let (project, job) = id.parts();
    let link = format!("{}/console/projects/{project}/jobs/{job}", console.url);
    if json {
        tracing::info!(console.url = link, "the console shows the job while it runs");
    } else {
        notice(&format!("console: {link}"));
    }
}

async fn progress(
    store: &dyn Store,
    job: &Job,
    plan: &JobPlan,
    args: &RunArgs,
    json: bool,
    directory: &Path,
) -> anyhow::Result<Progress> {
    let (study, trials) = study_and_trials(store, job).await?;
    let parallel = args.parallel.unwrap_or(plan.max_parallel_trials);
    let is_live = job.study.is_some() && std::io::stderr().is_terminal();
    let style = if json {
        Style::Log
    } else if is_live {
        Style::Live
    } else {
        Style::Plain
    };
    let space = study.iter().flat_map(|study| study.problem.search_space().parameters());
    let names = space.map(|parameter| parameter.name().to_owned()).collect();
    let mut progress = Progress::new(&plan.metric_tag, plan.max_trials, parallel, style, directory.to_owned(), names);
    progress.start_from(study.as_ref(), &trials);
    Ok(progress)
}

/// Prints and writes the results, and returns the exit code.
async fn conclude(
    args: &RunArgs,
    store: &dyn Store,
    data_dir: &DataDir,
    job: Job,
    interrupted: bool,
) -> anyhow::Result<ExitCode> {
    let directory = data_dir.job(&job.id);
    let results = Results::read(store, &job, directory).await?;
    print(&results.text(&args.table.layout())?)?;
    if let Some(path) = &args.output {
        results.write_resource(path)?;
    }
    if let Some(path) = &args.export {
        results.write_csv(path)?;
    }
    if interrupted {
        print(&format!("interrupted; to resume job {}, give the same command\n", job.id))?;
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(if job.state == JobState::Succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Serves reports over HTTP on the loopback interface, and returns the base address. Reuses the port of the previous
/// process if it is free, so that programs started by that process can continue to report.
async fn serve_reports(directory: &Path, reports: TrialReports, agents: AgentReports) -> anyhow::Result<String> {
    let remembered = directory.join("endpoint");
    let text =
        RootedPath::from(remembered.clone()).read(MAX_PORT_BYTES).ok().and_then(|text| String::from_utf8(text).ok());
    let previous = text.and_then(|text| text.trim().parse::<u16>().ok());
    let bind = |port| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let listener = match previous {
        Some(port) => match bind(port).await {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(
                    port, error = %error,
                    "the port for reports over HTTP is in use; programs that are still running cannot reach this process"
                );
                bind(0).await?
            }
        },
        None => bind(0).await?,
    };
    let address = listener.local_addr()?;
    let written = RootedPath::from(remembered.clone()).replace(format!("{}\n", address.port()).as_bytes(), false);
    written.with_context(|| format!("{} cannot be written", remembered.display()))?;
    tokio::spawn(answer_other_servers(agents.clone()));
    let router = server::reports_router(reports, agents, AllowedHosts::new(address.ip(), Vec::new()));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(error = %error, "the server for reports over HTTP stopped");
        }
    });
    Ok(format!("http://{address}"))
}
