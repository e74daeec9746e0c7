//! `tunesmith run`: one job from its configuration to its best trial, in one process.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use rand::Rng;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use super::logging::LogFormat;
use super::output::print;
use super::progress::{Progress, say};
use super::results::Results;
use super::{BAD_INPUT, INTERRUPTED};
use crate::data_dir::{DataDir, StoreKind};
use tunesmith_api::ai_platform::plan::{CommandLine, job_plan, job_study};
use tunesmith_config::HptuningConfig;
use tunesmith_domain::{Job, JobId, JobState};
use tunesmith_executor::local::{LocalExecutor, LocalSettings};
use tunesmith_http::server;
use tunesmith_packages::Environments;
use tunesmith_service::clock::{Clock, SystemClock};
use tunesmith_service::search_policy::SearchPolicy;
use tunesmith_service::{
    Control, JobOutcome, JobPlan, JobRunner, LiveTrials, Submission, Submitted, TrialReports, job_secret, submit,
};
use tunesmith_store::Store;

/// Where jobs are kept unless said otherwise: below the folder that the command is given in, in plain sight of whoever
/// works there.
pub(super) const DEFAULT_DATA_DIR: &str = ".tunesmith";

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The training input with its hyperparameters: AI Platform's hptuning_config.yaml, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Folder of the trainer's Python package, which is installed; its parent may have a setup.py.
    #[arg(long, value_name = "DIR", requires = "module_name")]
    package_path: Option<PathBuf>,
    /// Module that is run, such as trainer.task.
    #[arg(long, value_name = "MODULE")]
    module_name: Option<String>,
    /// Where trials write models and events: each gets `--job-dir=DIR/<trial>`.
    #[arg(long, value_name = "DIR")]
    job_dir: Option<String>,
    /// Name of the job; giving it again takes the job up again. Made from the file's name if absent.
    #[arg(long, value_name = "ID")]
    job_id: Option<JobId>,
    /// Trials at once, instead of maxParallelTrials.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    parallel: Option<u64>,
    /// Key of all randomness; drawn and kept if absent.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Folder of jobs, trials and logs.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    data_dir: PathBuf,
    /// What keeps them; a folder stays with the kind it was made with.
    #[arg(long, value_enum, default_value_t = StoreChoice::Sqlite)]
    store: StoreChoice,
    /// Write the job resource with its trials, best first, as JSON.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the trials as CSV.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    #[command(flatten)]
    container: ContainerArgs,
    /// A command that is the trainer; with packages or an image, arguments for it.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// How containers are started.
#[derive(Debug, Args)]
pub(super) struct ContainerArgs {
    /// Options of docker or podman before `run`, separated by spaces.
    #[arg(
        long = "container-options",
        value_name = "OPTIONS",
        env = "TUNESMITH_CONTAINER_OPTIONS",
        value_delimiter = ' '
    )]
    #[arg(allow_hyphen_values = true)]
    pub(super) options: Vec<String>,
    /// Options of docker or podman after `run`, separated by spaces.
    #[arg(
        long = "container-run-options",
        value_name = "OPTIONS",
        env = "TUNESMITH_CONTAINER_RUN_OPTIONS",
        value_delimiter = ' '
    )]
    #[arg(allow_hyphen_values = true)]
    pub(super) run_options: Vec<String>,
}

impl ContainerArgs {
    /// What the environment says.
    pub(super) fn of_environment() -> Self {
        let words = |name: &str| {
            let text = std::env::var(name).unwrap_or_default();
            text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        Self { options: words("TUNESMITH_CONTAINER_OPTIONS"), run_options: words("TUNESMITH_CONTAINER_RUN_OPTIONS") }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum StoreChoice {
    /// One file, durable against loss of power; the default.
    Sqlite,
    /// Pure Rust; survives the death of the process, not a loss of power.
    Sled,
}

impl StoreChoice {
    /// The kind that is chosen.
    pub(super) fn kind(self) -> StoreKind {
        match self {
            Self::Sqlite => StoreKind::Sqlite,
            Self::Sled => StoreKind::Sled,
        }
    }
}

/// Carries the command out.
pub(super) fn run(args: RunArgs, log_format: LogFormat) -> anyhow::Result<ExitCode> {
    let config = match tunesmith_config::load(&args.config) {
        Ok(config) => config,
        Err(errors) => {
            say(&errors.to_string());
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    for warning in &config.warnings {
        say(&warning.to_string());
    }
    if !config.without_effect.is_empty() {
        say(&format!("no effect in a local run: {}", config.without_effect.join(", ")));
    }
    let submission = submission(&args, &config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(carry_out(&args, submission, log_format == LogFormat::Json));
    // Threads that still read files need not be waited for.
    runtime.shutdown_background();
    outcome
}

fn submission(args: &RunArgs, config: &HptuningConfig) -> anyhow::Result<Submission> {
    let command_line = CommandLine {
        package_path: args.package_path.as_deref().map(std::path::absolute).transpose()?,
        module_name: args.module_name.clone(),
        job_dir: args.job_dir.clone(),
        command: args.command.clone(),
        working_directory: std::env::current_dir().context("the current folder cannot be read")?,
    };
    let plan = job_plan(&config.training_input, &command_line)?;
    let study = job_study(&config.training_input)?;
    Ok(Submission {
        id: args.job_id.clone().or_else(|| config.job_id.clone()),
        labels: config.labels.clone(),
        name_prefix: name_prefix(&args.config),
        study,
        seed: args.seed.or(config.training_input.tunesmith.seed),
        training_input: serde_json::to_value(&config.training_input)?,
        plan,
        policy: serde_json::Value::Null,
    })
}

async fn carry_out(args: &RunArgs, submission: Submission, json: bool) -> anyhow::Result<ExitCode> {
    let data_dir = DataDir::open(&args.data_dir, args.store.kind(), "tunesmith run")?;
    let store = data_dir.store().await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let submitted = submit(&*store, submission, clock.now(), rand::rng().next_u64()).await?;
    let job = submitted.job().clone();
    announce(&submitted, &data_dir, json);
    if let Submitted::Finished(job) = submitted {
        return conclude(args, &*store, &data_dir, job, false).await;
    }

    let plan = JobPlan::of(&job)?;
    let directory = data_dir.job(&job.id);
    std::fs::create_dir_all(&directory).with_context(|| format!("{} cannot be made", directory.display()))?;
    let live = Arc::new(LiveTrials::default());
    let endpoint = serve_reports(&directory, TrialReports::new(Arc::clone(&store), Arc::clone(&live))).await?;
    let (events, mut told) = mpsc::unbounded_channel();
    let (set_control, control) = watch::channel(Control::Run);
    let (_nobody_cancels, not_cancelled) = watch::channel(false);
    let runner = JobRunner {
        executor: Arc::new(LocalExecutor::new(LocalSettings {
            supervisor: std::env::current_exe().context("this program's own file cannot be found")?,
            registry: data_dir.path().join("executions"),
            container_options: args.container.options.clone(),
            container_run_options: args.container.run_options.clone(),
        })),
        policy: Arc::new(SearchPolicy::new(Arc::clone(&store), 1)),
        environments: Arc::new(Environments::new(data_dir.environments())),
        live,
        clock,
        events,
        secret: job_secret(&directory)?,
        directory,
        endpoint,
        parallel: args.parallel,
        cancelled: not_cancelled,
        store: Arc::clone(&store),
    };

    let mut progress = progress(&*store, &job, &plan, args, json).await?;
    let running = tokio::spawn({
        let id = job.id.clone();
        async move { runner.run(&id, control).await }
    });
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            biased;
            _ = interrupts.recv() => ask_to_end(&set_control),
            _ = terminations.recv() => ask_to_end(&set_control),
            event = told.recv() => match event {
                Some(event) => progress.show(&event),
                // The runner has ended and everything it told was shown.
                None => break,
            },
        }
    }
    progress.finish();
    match running.await? {
        Ok(JobOutcome::Ended(job)) => conclude(args, &*store, &data_dir, job, false).await,
        Ok(JobOutcome::Interrupted(job)) => conclude(args, &*store, &data_dir, job, true).await,
        Err(error) => {
            let error = anyhow::Error::from(error);
            say(&format!("error: {error:#}\nthe same command with --job-id {} takes the job up again", job.id));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The first request ends the job gently, the second at once.
fn ask_to_end(control: &watch::Sender<Control>) {
    control.send_modify(|now| {
        *now = if *now == Control::Run { Control::Interrupt } else { Control::Kill };
        say(match now {
            Control::Kill => "stopping at once",
            _ => "stopping the running trials; once more stops at once",
        });
    });
}

fn announce(submitted: &Submitted, data_dir: &DataDir, json: bool) {
    let job = submitted.job();
    let what = match submitted {
        Submitted::Created(_) => "created",
        Submitted::TakenUp(_) => "taken up again",
        Submitted::Finished(_) => "finished before; nothing is left to do",
    };
    if json {
        tracing::info!(job.id = %job.id, data.path = %data_dir.path().display(), "job {what}");
    } else {
        say(&format!("job {} {what}, in {}", job.id, data_dir.path().display()));
    }
}

async fn progress(
    store: &dyn Store,
    job: &Job,
    plan: &JobPlan,
    args: &RunArgs,
    json: bool,
) -> anyhow::Result<Progress> {
    let results = Results::read(store, job.clone(), PathBuf::new()).await?;
    let goal = results.study.as_ref().map(|study| study.problem.metrics()[0].goal).unwrap_or_default();
    let parallel = args.parallel.unwrap_or(plan.max_parallel_trials);
    let mut progress = Progress::new(&plan.metric_tag, goal, plan.max_trials, parallel, json);
    progress.start_from(&results.trials);
    Ok(progress)
}

/// Prints and writes the results, and tells the exit code.
async fn conclude(
    args: &RunArgs,
    store: &dyn Store,
    data_dir: &DataDir,
    job: Job,
    interrupted: bool,
) -> anyhow::Result<ExitCode> {
    let directory = data_dir.job(&job.id);
    let results = Results::read(store, job, directory).await?;
    print(&results.text())?;
    if let Some(path) = &args.output {
        results.write_resource(path)?;
    }
    if let Some(path) = &args.export {
        results.write_csv(path)?;
    }
    if interrupted {
        print(&format!("interrupted; to go on: the same command with --job-id {}\n", results.job.id))?;
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(if results.job.state == JobState::Succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Serves reports over HTTP on the loopback interface, on the port that an earlier process had if it is free, so that
/// programs it started can go on reporting; returns the base address.
async fn serve_reports(directory: &Path, reports: TrialReports) -> anyhow::Result<String> {
    let remembered = directory.join("endpoint");
    let former = std::fs::read_to_string(&remembered).ok().and_then(|text| text.trim().parse::<u16>().ok());
    let bind = |port| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let listener = match former {
        Some(port) => match bind(port).await {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(
                    port, error = %error,
                    "the port for reports over HTTP is taken; programs that are still running cannot reach this process"
                );
                bind(0).await?
            }
        },
        None => bind(0).await?,
    };
    let address = listener.local_addr()?;
    std::fs::write(&remembered, format!("{}\n", address.port()))
        .with_context(|| format!("{} cannot be written", remembered.display()))?;
    let router = server::reports_router(reports);
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(error = %error, "reports over HTTP are no longer taken");
        }
    });
    Ok(format!("http://{address}"))
}

/// A job's name begins with the configuration's file name, as far as that is letters, digits and underscores.
fn name_prefix(config: &Path) -> String {
    let stem = config.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("job_{name}") }
}
