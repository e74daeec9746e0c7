//! `sbatch` command line of an attempt.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tunesmith_executor::local::SUPERVISE_SHARED_ARGUMENT;
use tunesmith_executor::local::shared::ENGINE_LOG;
use tunesmith_executor::{ExecutorJobId, ExecutorJobSpec};

use crate::SlurmSettings;
use crate::row::Row;

/// Number of token characters in a job name.
const TOKEN_CHARACTERS: usize = 12;

/// Maximum length of a job name before its token. A guess; every release accepts it.
const MAX_NAME: usize = 180;

/// Discards the script's output.
const NO_LOG: &str = "/dev/null";

/// `Placement` options passed to `sbatch` with a value.
const PLACEMENT_OPTIONS: [&str; 9] =
    ["account", "clusters", "constraint", "exclude", "licenses", "nodelist", "nice", "qos", "reservation"];

/// Variables that name local paths or devices. Slurm sets those of devices.
const OF_ONE_MACHINE: [&str; 10] = [
    "CUDA_VISIBLE_DEVICES",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "GPU_DEVICE_ORDINAL",
    "HIP_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "CUDA_DEVICE_ORDER",
];

/// Slack of Slurm's time limit over our exact one. Slurm counts whole minutes.
const LATER: Duration = Duration::from_secs(60);

/// Job name of an attempt: a readable part and a unique part from the token.
pub(crate) fn job_name(id: &ExecutorJobId, token: &str) -> String {
    let name = format!("ts-{id}").replace(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c), ".");
    let name = name.get(..MAX_NAME).unwrap_or(&name);
    format!("{name}-{}", short(token))
}

/// Whether `row` is the job of the attempt with `token`. A site may replace comments.
pub(crate) fn is_job_of(row: &Row, token: &str) -> bool {
    row.comment == token || (row.comment.is_empty() && row.name.ends_with(&format!("-{}", short(token))))
}

/// Part of the token used in job names.
fn short(token: &str) -> &str {
    token.get(..TOKEN_CHARACTERS).unwrap_or(token)
}

/// Batch script. The supervisor replaces the shell so that it receives Slurm's signals.
pub(crate) fn script(supervisor: &Path, folder: &Path) -> String {
    let log = match log_of_engine(folder).as_str() {
        NO_LOG => format!(" >{} 2>&1", quoted(&folder.join(ENGINE_LOG))),
        _ => String::new(),
    };
    format!("#!/bin/sh\nexec {} {SUPERVISE_SHARED_ARGUMENT} {}{log}\n", quoted(supervisor), quoted(folder))
}

/// `--output` of the script. `%` begins a pattern, and Slurm strips backslashes and then expands no pattern, so a
/// path with a backslash cannot be escaped; the script then redirects its own output.
fn log_of_engine(folder: &Path) -> String {
    let path = folder.join(ENGINE_LOG).display().to_string();
    if path.contains('\\') { NO_LOG.to_owned() } else { path.replace('%', "%%") }
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// Checks the parts of `spec` that are passed to Slurm.
///
/// # Errors
/// The reason.
pub(crate) fn check(spec: &ExecutorJobSpec) -> Result<(), String> {
    let unknown = spec.placement.options.keys().find(|name| !PLACEMENT_OPTIONS.contains(&name.as_str()));
    if let Some(name) = unknown {
        return Err(format!("the option {name:?} of its place is not one of {}", PLACEMENT_OPTIONS.join(", ")));
    }
    Ok(())
}

/// Arguments of `sbatch`; the script is passed on standard input.
pub(crate) fn arguments(
    settings: &SlurmSettings,
    spec: &ExecutorJobSpec,
    name: &str,
    token: &str,
    folder: &Path,
) -> Vec<String> {
    let mut options = vec![
        "--parsable".to_owned(),
        format!("--job-name={name}"),
        format!("--comment={token}"),
        "--no-requeue".to_owned(),
        "--nodes=1".to_owned(),
        "--ntasks=1".to_owned(),
        format!("--chdir={}", folder.display()),
        format!("--output={}", log_of_engine(folder)),
    ];
    let names = settings.environment.of_this_process().into_iter().filter_map(|(name, _)| name.into_string().ok());
    let names: Vec<String> = names.filter(|name| !OF_ONE_MACHINE.contains(&name.as_str())).collect();
    // Values are passed in the environment of `sbatch`: in the option, they would end at a comma.
    let exported = if names.is_empty() { "PATH".to_owned() } else { names.join(",") };
    options.push(format!("--export={exported}"));
    if let Some(limit) = spec.time_limit {
        let seconds = (limit + spec.grace + LATER).as_secs();
        options.push(format!("--time={}", seconds.div_ceil(60)));
    }
    options.extend(resources(spec));
    let queue = spec.placement.queue.as_ref().or(settings.partition.as_ref());
    options.extend(queue.map(|queue| format!("--partition={queue}")));
    let mut placement: BTreeMap<&str, &str> = BTreeMap::new();
    placement.extend(settings.account.as_deref().map(|account| ("account", account)));
    placement.extend(settings.qos.as_deref().map(|qos| ("qos", qos)));
    placement.extend(spec.placement.options.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    options.extend(placement.into_iter().map(|(name, value)| format!("--{name}={value}")));
    options.extend(settings.options.iter().cloned());
    options
}

/// Resources of all replicas, which share a node.
fn resources(spec: &ExecutorJobSpec) -> Vec<String> {
    let all = || spec.replicas.iter().map(|replica| &replica.resources);
    let cpus: u64 = all().filter_map(|needs| needs.milli_cpus).map(|milli| u64::from(milli.div_ceil(1000))).sum();
    let memory: u64 = all().filter_map(|needs| needs.memory_bytes).sum();
    let mut gpus: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    for accelerators in all().filter_map(|needs| needs.accelerators.as_ref()) {
        *gpus.entry(accelerators.kind.as_deref()).or_default() += u64::from(accelerators.count);
    }
    let gres: Vec<String> = gpus
        .into_iter()
        .map(|(kind, count)| match kind {
            Some(kind) => format!("gpu:{kind}:{count}"),
            None => format!("gpu:{count}"),
        })
        .collect();
    let mut options = Vec::new();
    if cpus > 0 {
        options.push(format!("--cpus-per-task={cpus}"));
    }
    if memory > 0 {
        options.push(format!("--mem={}M", memory.div_ceil(1 << 20)));
    }
    if !gres.is_empty() {
        options.push(format!("--gres={}", gres.join(",")));
    }
    options
}

#[cfg(test)]
mod tests {
    use tunesmith_domain::{Accelerators, Resources, TrialId};
    use tunesmith_executor::{Placement, Program, Replica, Role};

    use super::*;

    fn spec() -> ExecutorJobSpec {
        let program = Program::Command { argv: vec!["true".to_owned()] };
        ExecutorJobSpec {
            reports: Default::default(),
            server: Default::default(),
            id: ExecutorJobId { job: "local/a_1".parse().unwrap(), trial: Some(TrialId(3)), attempt: 2 },
            replicas: vec![Replica::new(Role::Master, 0, program)],
            training_input: serde_json::Value::Null,
            master_is_chief: false,
            has_worker_pools: false,
            environment: BTreeMap::new(),
            working_directory: "/".into(),
            program_folders: Vec::new(),
            directory: "/d".into(),
            time_limit: None,
            grace: Duration::from_secs(30),
            start_port: None,
            packages: None,
            part: None,
            placement: Placement::default(),
        }
    }

    fn of(settings: &SlurmSettings, spec: &ExecutorJobSpec) -> Vec<String> {
        arguments(settings, spec, "name", "token", Path::new("/s/100%"))
    }

    #[test]
    fn names_are_unique_and_valid() {
        let name = job_name(&spec().id, "0123456789abcdef");
        assert!(name.starts_with("ts-") && name.ends_with("-trial-3-attempt-2-0123456789ab"), "{name}");
        assert!(!name.contains(['~', '/', ' ']), "{name}");
    }

    #[test]
    fn paths_are_quoted_for_the_shell_and_for_patterns() {
        let script = script(Path::new("/a b/tune'smith"), Path::new("/s"));
        assert_eq!(script, "#!/bin/sh\nexec '/a b/tune'\\''smith' __supervise-shared '/s'\n");
        assert!(of(&SlurmSettings::default(), &spec()).contains(&"--output=/s/100%%/engine.log".to_owned()));
        let both = Path::new("/s/%j and \\");
        assert_eq!(log_of_engine(both), NO_LOG);
        let script = super::script(Path::new("/t"), both);
        assert_eq!(script, "#!/bin/sh\nexec '/t' __supervise-shared '/s/%j and \\' >'/s/%j and \\/engine.log' 2>&1\n");
    }

    #[test]
    fn job_is_never_requeued_and_has_its_token() {
        let options = of(&SlurmSettings::default(), &spec());
        for option in ["--no-requeue", "--comment=token", "--job-name=name", "--parsable"] {
            assert!(options.contains(&option.to_owned()), "{option}: {options:?}");
        }
        assert!(!options.iter().any(|option| option.starts_with("--time") || option.starts_with("--mem")));
        let export = options.iter().find(|option| option.starts_with("--export=")).unwrap();
        assert!(export.contains("PATH") && !export[9..].contains('='), "{export}");
    }

    #[test]
    fn resources_and_place_become_options() {
        let settings = SlurmSettings {
            partition: Some("p".to_owned()),
            account: Some("a".to_owned()),
            qos: Some("q".to_owned()),
            options: vec!["--exclusive".to_owned()],
            ..SlurmSettings::default()
        };
        let mut spec = spec();
        let accelerators = Some(Accelerators { kind: Some("v100".to_owned()), count: 2 });
        let needs = Resources { milli_cpus: Some(1500), memory_bytes: Some((1 << 20) + 1), accelerators };
        spec.replicas[0].resources = needs.clone();
        let worker = Replica { resources: needs, ..Replica::new(Role::Worker, 0, spec.replicas[0].program.clone()) };
        spec.replicas.push(worker);
        spec.time_limit = Some(Duration::from_secs(60));
        let options = of(&settings, &spec);
        let expected =
            ["--time=3", "--cpus-per-task=4", "--mem=3M", "--gres=gpu:v100:4", "--partition=p", "--account=a"];
        for option in expected.iter().chain(&["--qos=q", "--exclusive"]) {
            assert!(options.contains(&(*option).to_owned()), "{option}: {options:?}");
        }
        spec.placement.queue = Some("other".to_owned());
        spec.placement.options.insert("account".to_owned(), "b".to_owned());
        let options = of(&settings, &spec);
        assert!(options.contains(&"--partition=other".to_owned()) && options.contains(&"--account=b".to_owned()));
        assert!(!options.contains(&"--account=a".to_owned()));
        spec.placement.options.insert("colour".to_owned(), "red".to_owned());
        assert!(check(&spec).unwrap_err().starts_with("the option \"colour\" of its place is not one of account, "));
    }
}
