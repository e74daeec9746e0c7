//! A temporary folder with a configuration, and the `tunesmith` command run in it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::{environment, temporary_folder, tunesmith};

/// The variables of this process that programs of tests inherit. Others are those of its user, and no matter of a test: tokens,
/// proxies, the locale, and settings of Python, pip, Ray, Slurm, podman and kubectl.
const INHERITED: [&str; 6] = ["LD_LIBRARY_PATH", "LLVM_PROFILE_FILE", "LOGNAME", "RUST_BACKTRACE", "TMPDIR", "USER"];

/// The home folder of the programs of a test, for the test processes that it starts.
const HOME: &str = "TUNESMITH_TEST_HOME";

/// The environment of the programs of tests: a few variables of this process, a stated `PATH`, and a home folder of its own.
pub fn variables() -> Vec<(OsString, OsString)> {
    let inherited = INHERITED.into_iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    let fixed = [("LC_ALL", "C.UTF-8"), ("PATH", environment::path()), ("TZ", "UTC")];
    let fixed = fixed.map(|(name, value)| (name.into(), value.into()));
    let home = ["HOME", HOME].map(|name| (name.into(), home().into()));
    inherited.chain(fixed).chain(home).collect()
}

/// The program `name`, not started yet, with the environment of [`variables`].
pub fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.env_clear().envs(variables());
    command
}

/// The program `name`, not started yet, which installs packages over the network: with the variables of this process, among which
/// are proxies, mirrors and certificates, and with the `PATH` of tests.
pub fn installer(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", environment::path());
    command
}

/// A script in `folder` that runs `tunesmith` with the environment of [`variables`], for an executor in this process.
pub fn tunesmith_wrapper(folder: &Path) -> PathBuf {
    let path = folder.join("tunesmith.sh");
    // A file that is being executed cannot be written.
    if !path.exists() {
        write_wrapper(&path, tunesmith(), &[]);
    }
    path
}

/// Writes the script `path`, which replaces itself by `program` with the environment of [`variables`] and `more`. For code that
/// runs in this process, whose environment is that of the user, and starts programs.
pub fn write_wrapper(path: &Path, program: impl AsRef<Path>, more: &[(&str, &Path)]) {
    let quoted = |text: &OsStr| format!("'{}'", text.to_str().unwrap().replace('\'', r"'\''"));
    let more = more.iter().map(|(name, value)| (OsString::from(name), value.as_os_str().to_owned()));
    let mut text = "#!/bin/sh\nexec /usr/bin/env -i".to_owned();
    for (name, value) in variables().into_iter().chain(more) {
        text.extend([" ", name.to_str().unwrap(), "=", &quoted(&value)]);
    }
    text.extend([" ", &quoted(program.as_ref().as_os_str()), " \"$@\"\n"]);
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// An empty home folder for this process. Those of processes that have ended are removed.
fn home() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        if let Some(given) = std::env::var_os(HOME) {
            return given.into();
        }
        let homes = temporary_folder().join("homes");
        let own = homes.join(std::process::id().to_string());
        for left in std::fs::read_dir(&homes).into_iter().flatten().flatten() {
            if left.path() == own || !Path::new("/proc").join(left.file_name()).exists() {
                // Another process may remove it as well.
                let _ = std::fs::remove_dir_all(left.path());
            }
        }
        std::fs::create_dir_all(&own).unwrap();
        own
    })
}

/// A folder in which jobs are run.
pub struct Workspace {
    folder: TempDir,
}

/// The exit status and output of a finished command.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Drop for Workspace {
    /// Ends what still runs in the folder: programs go on without their server.
    fn drop(&mut self) {
        end_processes_with(&self.path().display().to_string());
    }
}

impl Workspace {
    /// A workspace with `config` as `hptuning_config.yaml`.
    pub fn new(config: &str) -> Self {
        let workspace = Self { folder: TempDir::new().unwrap() };
        workspace.write("hptuning_config.yaml", config);
        workspace
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// `tunesmith run` with the workspace's configuration and some more arguments, not started yet.
    pub fn run_command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.command();
        command.args(["run", "--config", "hptuning_config.yaml", "--output", "job.json", "--export", "trials.csv"]);
        command.args(args);
        command
    }

    /// `tunesmith`, not started yet.
    pub fn command(&self) -> Command {
        let mut command = program(tunesmith());
        command.current_dir(self.path()).stdin(Stdio::null());
        command
    }

    /// Runs a job to its end.
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Finished {
        finished(self.run_command(args).output().unwrap())
    }

    /// The job resource that the last run wrote.
    pub fn job(&self) -> Value {
        serde_json::from_str(&self.read("job.json")).unwrap()
    }

    /// The trials that the last run wrote, by column, in the order of their numbers.
    pub fn trials(&self) -> Vec<BTreeMap<String, String>> {
        csv::Reader::from_path(self.path().join("trials.csv")).unwrap().deserialize().map(Result::unwrap).collect()
    }

    /// One column of the trials, in the order of their numbers.
    pub fn column(&self, name: &str) -> Vec<String> {
        self.trials().into_iter().map(|mut trial| trial.remove(name).unwrap()).collect()
    }
}

impl Finished {
    /// Panics with the whole output unless the exit code is `code`.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

pub fn finished(output: Output) -> Finished {
    Finished {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Reads `output` up to a line with `text`.
#[track_caller]
pub fn wait_for_line(output: impl Read, text: &str) {
    // Reads single bytes, so that nothing after the line is consumed.
    let mut reader = BufReader::with_capacity(1, output);
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 0 {
        if line.contains(text) {
            return;
        }
        line.clear();
    }
    panic!("the output ended without {text:?}");
}

/// `text` without the IDs of requests, which errors of a server end with.
pub fn without_requests(text: &str) -> String {
    let without = |line: &str| line.split_once(" (request ").map_or(line, |(before, _)| before).to_owned();
    text.split('\n').map(without).collect::<Vec<_>>().join("\n")
}

/// Sends `signal` to a child.
pub fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Processes whose environment or arguments contain `text`, with their arguments, without the calling process.
pub fn processes_with(text: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if pid == std::process::id() {
            continue;
        }
        let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
        let (arguments, environment) = (read("cmdline"), read("environ"));
        let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        if holds(&arguments) || holds(&environment) {
            found.push((pid, String::from_utf8_lossy(&arguments).replace('\0', " ")));
        }
    }
    found
}

/// Kills all processes whose environment or arguments contain `text`, and those that they start meanwhile.
pub fn end_processes_with(text: &str) {
    for _ in 0..200 {
        let left = processes_with(text);
        if left.is_empty() {
            return;
        }
        for pid in left.into_iter().filter_map(|(pid, _)| Pid::from_raw(i32::try_from(pid).ok()?)) {
            // It may have ended.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Writes a wheel with the module `probe`.
const MAKE_WHEEL: &str = r#"
import sys, zipfile
info = "probe-1.0.dist-info"
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("probe.py", sys.argv[2])
    wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: probe\nVersion: 1.0\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/RECORD", f"probe.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
"#;

/// Writes the wheel of the module `probe`, which reports `acc=0.25` and prints the folder of its environment, to `path`.
pub fn write_probe_wheel(path: &Path) {
    write_wheel(path, "import sys\nprint('acc=0.25')\nprint('from', sys.prefix)\n");
}

/// Writes the wheel of a module `probe` with this `code` to `path`, a name that begins with `probe-1.0`.
pub fn write_wheel(path: &Path, code: &str) {
    let made = program("python3").args(["-c", MAKE_WHEEL]).arg(path).arg(code).status().unwrap();
    assert!(made.success());
}
