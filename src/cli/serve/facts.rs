//! Data of the console's Server page.

use tokio::sync::watch;

use super::listeners::Listeners;
use super::open_files::connection_limits;
use super::{AuditFailure, ServeArgs};
use crate::cli::version::version;
use crate::composition::Application;
use crate::pages::{ServerFacts, Setting};
use tunesmith_data_dir::DataDir;
use tunesmith_jobs::allowed_folders::AllowedFolder;

/// Server data of `application`, starting now behind `listeners`, with the current `settings`.
pub(super) fn facts(
    args: &ServeArgs,
    settings: watch::Receiver<Vec<Setting>>,
    data_dir: &DataDir,
    application: &Application,
    listeners: &Listeners,
) -> ServerFacts {
    ServerFacts {
        version: version(),
        started: application.clock.now(),
        listen: listeners.url.clone(),
        endpoint: listeners.endpoint.clone(),
        data_dir: std::path::absolute(data_dir.path())
            .unwrap_or_else(|_| data_dir.path().to_owned())
            .display()
            .to_string(),
        store: data_dir.kind().as_str(),
        executor: application.executor.clone(),
        server_config: args.server_config.path().map(|path| path.display().to_string()),
        memory_budget: u64::from(args.memory) << 20,
        settings,
    }
}

/// Settings of the Server page. `listed` are the configured folders and buckets that jobs may name.
pub(super) fn settings(args: &ServeArgs, listed: &[AllowedFolder]) -> Vec<Setting> {
    let connections = connection_limits(args);
    let setting = |option, meaning, value: String| Setting { option, meaning, value };
    let or_any = |number: u32| if number == 0 { "any number".to_owned() } else { number.to_string() };
    let seconds = |seconds: u64| match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    };
    let days = |days: Option<u32>| days.map_or_else(|| "never".to_owned(), |days| format!("after {days} days"));
    let limits = args.logs.limits();
    let size = |mib: u64| if mib.is_multiple_of(1024) { format!("{} GiB", mib >> 10) } else { format!("{mib} MiB") };
    let space = |bytes: Option<u64>| bytes.map_or_else(|| "any size".to_owned(), |bytes| size(bytes >> 20));
    let log_days = limits.retention.and_then(|span| u32::try_from(span.as_secs() / (24 * 60 * 60)).ok());
    let folders = args.allowed_folder.iter().chain(listed).map(ToString::to_string);
    #[cfg(feature = "optuna")]
    let grpc = [
        setting(
            "--grpc-listen",
            "address for Optuna's GrpcStorageProxy",
            args.grpc_listen.map_or_else(|| "none".to_owned(), |address| address.to_string()),
        ),
        setting(
            "--optuna-trial-lease",
            "running trials of Optuna whose workers send nothing fail",
            args.optuna_trial_lease
                .map_or_else(|| "never".to_owned(), |lease| format!("after {}", seconds(lease.into()))),
        ),
    ];
    #[cfg(not(feature = "optuna"))]
    let grpc = [];
    #[cfg(feature = "vizier")]
    let vertex = [setting(
        "--vertex-listen",
        "address for clients of Vertex AI, beside the path /vertex",
        args.vertex_listen.map_or_else(|| "none".to_owned(), |address| address.to_string()),
    )];
    #[cfg(not(feature = "vizier"))]
    let vertex = [];
    let general = vec![
        setting(
            "--allowed-folder",
            "folders and buckets that jobs may name once tokens exist, beside the area of their project",
            Some(folders.collect::<Vec<_>>().join(", "))
                .filter(|all| !all.is_empty())
                .unwrap_or_else(|| "none".to_owned()),
        ),
        setting("--request-rate", "requests per second and principal", or_any(args.request_rate)),
        setting(
            "--concurrent-suggestions",
            "suggestions that a principal waits for at once",
            or_any(args.concurrent_suggestions),
        ),
        setting("--request-timeout", "the longest request", seconds(args.request_timeout)),
        setting(
            "--connections",
            "connections, at most half of the files that may be open",
            connections.total.to_string(),
        ),
        setting("--connections-per-address", "connections of one address", connections.per_address.to_string()),
        setting("--idle-timeout", "the longest wait for a client", seconds(args.idle_timeout)),
        setting(
            "--job-lease",
            "the time after which another server continues the jobs of this one",
            seconds(args.job_lease),
        ),
        setting(
            "--prediction-workers",
            "processes that hold models for prediction at once",
            args.prediction_workers.to_string(),
        ),
        setting(
            "--prediction-memory",
            "memory of a worker of a version without a machine type",
            args.prediction_memory.map_or_else(|| "half of the machine's".to_owned(), |mib| format!("{mib} MiB")),
        ),
        setting("--prediction-disk", "the working folder of a worker", format!("{} MiB", args.prediction_disk)),
        setting("--prediction-timeout", "the longest prediction", seconds(args.prediction_timeout)),
        setting(
            "--prediction-idle-timeout",
            "idle workers of models end after this time",
            seconds(args.prediction_idle_timeout),
        ),
        setting("--retention", "unused packages and environments are removed", days(args.retention)),
        setting("--job-log-quota", "disk space of the logs of a job", space(limits.job_bytes)),
        setting("--project-log-quota", "disk space of the logs of a project", space(limits.project_bytes)),
        setting("--log-retention", "logs of ended jobs are removed", days(log_days)),
        setting(
            "--data-access-log",
            "reading requests are recorded in the audit log",
            if args.data_access_log { "on" } else { "off" }.to_owned(),
        ),
        setting(
            "--on-audit-failure",
            "changes while the audit log cannot be written",
            match args.on_audit_failure {
                AuditFailure::Refuse => "are refused",
                AuditFailure::Allow => "are made",
            }
            .to_owned(),
        ),
    ];
    general.into_iter().chain(grpc).chain(vertex).collect()
}
