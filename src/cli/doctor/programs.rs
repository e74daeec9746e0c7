//! Checks of programs used by jobs.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Finding;

/// Timeout per program. `docker info` waits for its daemon.
const LIMIT: Duration = Duration::from_secs(20);
/// Polling interval for the end of a program.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Prints the version of Python, and whether it can create virtual environments.
const PROBE: &str = "import sys; from importlib.util import find_spec; \
                     print('%d.%d.%d' % sys.version_info[:3], all(map(find_spec, ('venv', 'ensurepip'))))";

/// Checks the interpreter for Python modules.
pub(super) fn python() -> Finding {
    const CHECK: &str = "python";
    const ADVICE: &str =
        "install Python 3 for trainers in Python (Debian and Ubuntu: apt install python3 python3-venv)";
    let Some(path) = find("python3") else {
        return Finding::warning(CHECK, "there is no python3 on the PATH", ADVICE);
    };
    match answer("python3", &["-I", "-c", PROBE]) {
        Ok(text) => Finding::ok(CHECK, format!("{} ({})", text.split(' ').next().unwrap_or_default(), path.display())),
        Err(reason) => Finding::warning(CHECK, format!("{} does not work: {reason}", path.display()), ADVICE),
    }
}

/// Checks the package installer.
pub(super) fn installer() -> Finding {
    const CHECK: &str = "installer";
    const ADVICE: &str = "install uv, or the modules venv and ensurepip (Debian and Ubuntu: apt install python3-venv); jobs with \
         packageUris or --package-path need one of them";
    if find("uv").is_some() {
        return match answer("uv", &["--version"]) {
            Ok(version) => Finding::ok(CHECK, version),
            Err(reason) => Finding::warning(CHECK, format!("uv does not work: {reason}"), ADVICE),
        };
    }
    if find("python3").is_none() {
        return Finding::warning(CHECK, "there is neither uv nor python3 on the PATH", ADVICE);
    }
    match answer("python3", &["-I", "-c", PROBE]) {
        Ok(text) if text.ends_with("True") => Finding::ok(CHECK, "pip, in environments that venv makes"),
        Ok(_) => {
            Finding::warning(CHECK, "python3 lacks its modules venv and ensurepip, and uv is not installed", ADVICE)
        }
        Err(reason) => Finding::warning(CHECK, format!("python3 does not work: {reason}"), ADVICE),
    }
}

/// Checks docker and podman, in jobs' order of preference.
pub(super) fn container_engine() -> Finding {
    const CHECK: &str = "container";
    let mut broken = Vec::new();
    for (name, probe) in [("docker", &["info", "--format", "{{.ServerVersion}}"][..]), ("podman", &["--version"])] {
        if find(name).is_none() {
            continue;
        }
        match answer(name, probe) {
            Ok(version) => return Finding::ok(CHECK, format!("{name}: {version}")),
            Err(reason) => broken.push(format!("{name} does not work: {reason}")),
        }
    }
    if broken.is_empty() {
        let advice = "install podman or docker for jobs with masterConfig.imageUri; other jobs need neither";
        return Finding::warning(CHECK, "neither docker nor podman is installed", advice);
    }
    let advice =
        "start the daemon of docker and join its group, or install podman, for jobs with masterConfig.imageUri";
    Finding::warning(CHECK, broken.join("; "), advice)
}

/// Checks the GPUs. None is fine.
pub(super) fn gpus() -> Finding {
    const CHECK: &str = "gpu";
    if find("nvidia-smi").is_none() {
        return Finding::ok(CHECK, "none (no nvidia-smi on the PATH)");
    }
    match answer("nvidia-smi", &["--query-gpu=name,memory.total", "--format=csv,noheader"]) {
        Ok(text) if text.is_empty() => Finding::ok(CHECK, "none (nvidia-smi lists no GPU)"),
        Ok(text) => Finding::ok(CHECK, text.lines().collect::<Vec<_>>().join("; ")),
        Err(reason) => {
            let advice = "check the driver of the GPU: a restart is often needed after an update of the driver";
            Finding::warning(CHECK, format!("nvidia-smi does not work: {reason}"), advice)
        }
    }
}

/// Looks up a program on `PATH`.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Trimmed output of a successful program; otherwise the reason.
fn answer(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let start = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if start.elapsed() > LIMIT => {
                child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
                return Err(format!("it did not end within {} s", LIMIT.as_secs()));
            }
            None => std::thread::sleep(POLL_INTERVAL),
        }
    };
    let text = |thread: std::thread::JoinHandle<String>| thread.join().unwrap_or_default().trim().to_owned();
    let (stdout, stderr) = (text(stdout), text(stderr));
    if status.success() {
        return Ok(stdout);
    }
    let reason = stderr.lines().rev().chain(stdout.lines().rev()).find(|line| !line.trim().is_empty());
    Err(reason.map_or_else(|| status.to_string(), |line| line.trim().to_owned()))
}

/// Drains a pipe on a thread, so that verbose programs do not block.
fn reader(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe
            && let Err(error) = pipe.read_to_end(&mut bytes)
        {
            tracing::debug!(%error, "the output of a program cannot be read");
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
