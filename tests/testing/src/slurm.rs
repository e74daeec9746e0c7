//! A private Slurm cluster of two nodes on this machine: its own daemons, ports and folder. Several run side by side.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{end_processes_with, write_wrapper};

/// Time for a daemon to start, or for a node to change its state.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Settings of a cluster beside its two nodes `n1` and `n2`.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Processors of each node.
    pub cpus: u32,
    /// Time in seconds after which a node that does not answer is down.
    pub slurmd_timeout: u32,
    /// Further lines of `slurm.conf`.
    pub lines: String,
}

impl Default for Shape {
    fn default() -> Self {
        Self { cpus: 8, slurmd_timeout: 10, lines: String::new() }
    }
}

/// A running cluster. All its processes and those of its jobs are killed when it is dropped.
pub struct Cluster {
    folder: TempDir,
}

impl Cluster {
    /// Starts a cluster and waits until both nodes are idle.
    pub fn start(shape: &Shape) -> Self {
        let cluster = Self { folder: tempfile::Builder::new().prefix("slurm").tempdir().unwrap() };
        let folder = cluster.folder();
        for name in ["state", "n1", "n2", "munge"] {
            std::fs::create_dir(folder.join(name)).unwrap();
        }
        for number in 0..2 {
            // A device of this name makes Slurm hand out GPUs.
            let made =
                crate::program("mknod").arg(folder.join(format!("nvidia{number}"))).args(["c", "1", "3"]).status();
            assert!(made.unwrap().success());
        }
        let private = |path: &Path, mode| {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        };
        private(folder, 0o755);
        private(&folder.join("munge"), 0o700);
        let key: Vec<u8> = (0..128).map(|_| rand::random()).collect();
        std::fs::write(folder.join("munge/key"), key).unwrap();
        private(&folder.join("munge/key"), 0o600);
        std::fs::write(folder.join("slurm.conf"), configuration(folder, shape)).unwrap();
        let devices = format!("AutoDetect=off\nNodeName=n[1-2] Name=gpu File={}/nvidia[0-1]\n", folder.display());
        std::fs::write(folder.join("gres.conf"), devices).unwrap();
        let option = |name: &str, file: &str| format!("--{name}={}", folder.join(file).display());
        run(crate::program("munged").arg("--force").args([
            option("key-file", "munge/key"),
            option("socket", "munge.sock"),
            option("pid-file", "munge/pid"),
            option("log-file", "munge/log"),
            option("seed-file", "munge/seed"),
        ]));
        cluster.start_controller();
        for node in ["n1", "n2"] {
            cluster.start_node(node);
        }
        cluster.wait_until("the nodes are idle", || ["n1", "n2"].iter().all(|node| cluster.node_state(node) == "idle"));
        cluster
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The value of `SLURM_CONF`, which selects the cluster for every command.
    pub fn configuration(&self) -> PathBuf {
        self.folder().join("slurm.conf")
    }

    /// Runs a command of Slurm and returns its output.
    pub fn output(&self, program: &str, arguments: &[&str]) -> Output {
        crate::program(program).args(arguments).env("SLURM_CONF", self.configuration()).output().unwrap()
    }

    /// Runs a command of Slurm that succeeds, and returns its standard output.
    #[track_caller]
    pub fn text(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.output(program, arguments);
        assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Writes a program into the folder that runs `program` on this cluster, whatever the environment. Tests run in one
    /// process with others, and cannot set its environment.
    pub fn wrapper(&self, program: &str) -> PathBuf {
        let path = self.folder().join(format!("{program}.sh"));
        if path.exists() {
            // A file that is being executed cannot be written.
            return path;
        }
        write_wrapper(&path, program, &[("SLURM_CONF", &self.configuration())]);
        path
    }

    /// The state of a node without its flags, such as `idle`, `mixed` or `down`.
    pub fn node_state(&self, node: &str) -> String {
        let output = self.output("sinfo", &["--noheader", "--nodes", node, "--format=%T"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let state = text.lines().next().unwrap_or_default();
        state.trim_end_matches(|c: char| !c.is_ascii_alphabetic()).to_owned()
    }

    /// The rows of `squeue` of all jobs, ended ones included, with `format`.
    pub fn jobs(&self, format: &str) -> Vec<String> {
        let output = self.output("squeue", &["--noheader", "--states=all", &format!("--format={format}")]);
        String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim().to_owned()).collect()
    }

    /// Lets Slurm requeue a job, as a preemption does on many clusters, although it was submitted with `--no-requeue`.
    pub fn requeue(&self, job: &str) -> bool {
        self.output("scontrol", &["update", &format!("JobId={job}"), "Requeue=1"]).status.success()
            && self.output("scontrol", &["requeue", job]).status.success()
    }

    pub fn start_controller(&self) {
        run(crate::program("slurmctld").env("SLURM_CONF", self.configuration()));
    }

    /// Ends the controller and waits until it has: with SIGTERM it saves its state.
    pub fn stop_controller(&self, signal: Signal) {
        self.end("slurmctld.pid", signal);
    }

    pub fn start_node(&self, node: &str) {
        run(crate::program("slurmd").args(["-N", node]).env("SLURM_CONF", self.configuration()));
    }

    /// Kills the daemon of a node, whose jobs run on.
    pub fn kill_node(&self, node: &str) {
        self.end(&format!("slurmd-{node}.pid"), Signal::KILL);
    }

    fn end(&self, pid_file: &str, signal: Signal) {
        let Some(pid) = pid_in(&self.folder().join(pid_file)) else { return };
        // It may have ended.
        let _ = kill_process(pid, signal);
        self.wait_until("a daemon has ended", || !Path::new(&format!("/proc/{}/exe", pid.as_raw_nonzero())).exists());
    }

    /// Waits until `condition` is true.
    #[track_caller]
    pub fn wait_until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !condition() {
            assert!(begin.elapsed() < PATIENCE, "not true in time: {what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The end of the log of the controller, for failures.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(self.folder().join("slurmctld.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(40).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in ["slurmctld.pid", "slurmd-n1.pid", "slurmd-n2.pid", "munge/pid"] {
            if let Some(pid) = pid_in(&self.folder().join(daemon)) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        // Steps and jobs name the folder in their environment (SLURM_CONF) or arguments.
        end_processes_with(&self.folder().display().to_string());
    }
}

/// The process whose ID is in `path`, if it runs.
fn pid_in(path: &Path) -> Option<Pid> {
    let pid = Pid::from_raw(std::fs::read_to_string(path).ok()?.trim().parse().ok()?)?;
    Path::new(&format!("/proc/{}/exe", pid.as_raw_nonzero())).exists().then_some(pid)
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
}

fn configuration(folder: &Path, shape: &Shape) -> String {
    // Held together, so that they differ.
    let listeners: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap()).collect();
    let ports: Vec<u16> = listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
    let Shape { cpus, slurmd_timeout, lines } = shape;
    let [controller, first, second] = ports[..] else { panic!("three ports") };
    let node = |name: &str, port: u16| {
        format!(
            "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory=4000 Gres=gpu:2"
        )
    };
    let (n1, n2, folder) = (node("n1", first), node("n2", second), folder.display());
    format!(
        "ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthInfo=socket={folder}/munge.sock
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=2
ReturnToService=2
MinJobAge=600
KillWait=5
SlurmdTimeout={slurmd_timeout}
MailProg=/bin/true
GresTypes=gpu
{n1}
{n2}
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE DefMemPerCPU=100
PartitionName=closed Nodes=n1,n2 State=DOWN MaxTime=INFINITE DefMemPerCPU=1
{lines}
"
    )
}
