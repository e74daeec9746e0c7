//! A private PostgreSQL cluster that ends with its value.

use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::server::Server;

/// The folders of the programs, newest version first, where Debian and others install them.
const PROGRAMS: [&str; 4] =
    ["/usr/lib/postgresql/17/bin", "/usr/lib/postgresql/16/bin", "/usr/lib/postgresql/15/bin", "/usr/local/pgsql/bin"];

/// The time in which a cluster has to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A cluster with its data in a temporary folder, on a port of 127.0.0.1.
pub struct Cluster {
    folder: TempDir,
    port: u16,
    options: Vec<String>,
}

impl Cluster {
    /// Starts a cluster that does not sync its files, for tests without crashes of the database.
    pub fn start() -> Self {
        Self::with_options(&["fsync=off"])
    }

    /// Starts a cluster with these settings.
    pub fn with_options(options: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("pg").tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            let id = |flag| {
                let output = crate::program("id").args([flag, "postgres"]).output().unwrap();
                String::from_utf8(output.stdout).unwrap().trim().parse::<u32>().unwrap()
            };
            chown(folder.path(), Some(id("-u")), Some(id("-g"))).unwrap();
        }
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let cluster = Self { folder, port, options: options.iter().map(|&option| option.to_owned()).collect() };
        let data = cluster.data();
        let password = cluster.folder.path().join("password");
        std::fs::write(&password, "right").unwrap();
        let initdb = cluster
            .program("initdb")
            .arg("-D")
            .arg(&data)
            .args(["-U", "test", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--auth-local=trust"])
            .args(["--auth-host=scram-sha-256", "--pwfile"])
            .arg(&password)
            .output()
            .unwrap();
        assert!(initdb.status.success(), "{}", String::from_utf8_lossy(&initdb.stderr));
        cluster.restart();
        cluster
    }

    /// Starts the database, which does not run, and waits until it accepts connections.
    pub fn restart(&self) {
        let mut settings =
            format!("-c listen_addresses=127.0.0.1 -p {} -k {}", self.port, self.folder.path().display());
        for option in &self.options {
            settings.push_str(&format!(" -c {option}"));
        }
        let begin = Instant::now();
        loop {
            let mut command = self.control();
            let log = self.folder.path().join("log");
            let started = command.arg("-l").arg(&log).args(["-w", "-o", &settings, "start"]).output().unwrap();
            if started.status.success() {
                return;
            }
            // Backends of a killed postmaster keep its shared memory until they have ended.
            let log = std::fs::read_to_string(log).unwrap_or_default();
            assert!(begin.elapsed() < START_TIMEOUT, "the database did not start: {log}");
        }
    }

    /// Ends the database in an orderly way.
    pub fn stop(&self) {
        let stopped = self.control().args(["-m", "fast", "-w", "stop"]).output().unwrap();
        assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
    }

    /// Kills the postmaster with SIGKILL. Its backends notice that by themselves.
    pub fn kill(&self) {
        let text = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        let pid = text.lines().next().unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }

    /// Creates an empty database and returns its address, with the password.
    pub fn create_database(&self, name: &str) -> String {
        self.query("postgres", &format!("CREATE DATABASE \"{name}\""));
        self.database_address(name)
    }

    /// The address of a database, with the password.
    pub fn database_address(&self, name: &str) -> String {
        format!("postgres://test:right@127.0.0.1:{}/{name}", self.port)
    }

    /// Runs `sql` in a database with psql, and returns the rows.
    pub fn query(&self, database: &str, sql: &str) -> String {
        let output = self.psql(database, sql);
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// The statements that the database has logged, with `log_statement=all` and an empty `log_line_prefix`.
    pub fn statements(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        let statement = |line: &str| {
            let statement = line.strip_prefix("LOG:  ")?;
            let executed = statement.strip_prefix("execute ").and_then(|rest| rest.split_once(": "));
            executed.map(|(_, sql)| sql).or_else(|| statement.strip_prefix("statement: ")).map(str::to_owned)
        };
        log.lines().filter_map(statement).collect()
    }

    /// Writes the tables of a database to the file `path`.
    pub fn dump(&self, database: &str, path: &Path) {
        let mut command = self.client("pg_dump");
        let done = command.args(["--no-owner", "--inserts", "-f"]).arg(path).arg(database).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// Fills an empty database from the result of [`Self::dump`].
    pub fn restore(&self, database: &str, path: &Path) {
        let mut command = self.client("psql");
        let done = command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f"]).arg(path).arg(database).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// A client program of PostgreSQL, with the address of the cluster.
    pub fn client(&self, name: &str) -> Command {
        let mut command = crate::program(programs().join(name));
        command.arg("-h").arg(self.folder.path()).args(["-p", &self.port.to_string(), "-U", "test"]);
        command
    }

    fn psql(&self, database: &str, sql: &str) -> Output {
        let mut command = self.client("psql");
        command.args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, database]).output().unwrap()
    }

    /// Starts `count` servers on the database at `address`, each with a data folder of its own.
    pub fn serve(&self, address: &str, count: usize) -> Vec<Server> {
        let folder = |number| self.folder.path().join(format!("server{number}"));
        (0..count).map(|number| Self::serve_in(&folder(number), address, &[])).collect()
    }

    /// Starts a server on the database at `address` with its data in `folder`.
    pub fn serve_in(folder: &Path, address: &str, more: &[&str]) -> Server {
        let mut command = crate::program(crate::tunesmith());
        command.args(["serve", "--listen", "127.0.0.1:0", "--allow-unisolated-programs", "--job-lease", "3"]);
        command.arg("--data-dir").arg(folder).args(more);
        // In the environment, because a command line can be read by all users.
        command.env("TUNESMITH_STORE", address).env_remove("TUNESMITH_LOG");
        Server::start_command(&mut command)
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn control(&self) -> Command {
        let mut command = self.program("pg_ctl");
        command.arg("-D").arg(self.data()).arg("-s");
        command
    }

    /// A program of the database, as a user that may run it: not root.
    fn program(&self, name: &str) -> Command {
        let program = programs().join(name);
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = crate::program("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
            command
        } else {
            crate::program(program)
        };
        command.current_dir(self.folder.path());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.control().args(["-m", "immediate", "stop"]).output();
    }
}

/// The folder of the programs.
pub fn programs() -> &'static Path {
    let found = PROGRAMS.iter().map(Path::new).find(|folder| folder.join("initdb").exists());
    found.expect("PostgreSQL is installed, as tests/run.sh checks")
}
