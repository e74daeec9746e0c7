//! A server as a process of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use reqwest::Client;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::clients::StudyAt;
use super::service::Start;
use super::workload::study_config;

/// The studies of the run.
const PARENT: &str = "projects/load/locations/here";

/// Time that the server may take to end.
const END_LIMIT: Duration = Duration::from_secs(60);

pub(super) struct Server {
    process: Child,
    endpoint: String,
    client: Client,
    ready: Duration,
}

impl Server {
    /// Starts a server on the folder `data`, and waits until it is ready.
    pub(super) async fn start(program: &Path, data: &Path) -> Result<Self> {
        let begin = Instant::now();
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
        let mut process = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().context("the server")?;
        let output = process.stdout.take().context("the server's output")?;
        let line = BufReader::new(output).lines().next_line().await?.context("the server ended at once")?;
        let endpoint = line.strip_prefix("listening on ").context("the server's first line")?.to_owned();
        // The client needs a provider though no request is encrypted. An earlier call has installed the same one.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = Client::builder().pool_max_idle_per_host(1000).tcp_nodelay(true).build()?;
        let answer = client.get(format!("{endpoint}/readyz")).send().await?;
        ensure!(answer.status().is_success(), "the server is not ready: {}", answer.status());
        Ok(Self { process, endpoint, client, ready: begin.elapsed() })
    }

    /// How it started, with `stored_trials` in its store.
    pub(super) fn started(&self, stored_trials: usize) -> Result<Start> {
        Ok(Start { stored_trials, ready_ms: self.ready.as_secs_f64() * 1e3, resident_mib: self.resident_mib()? })
    }

    /// MiB resident now.
    pub(super) fn resident_mib(&self) -> Result<f64> {
        self.status_mib("VmRSS:")
    }

    /// The largest resident memory since [`Self::reset_peak`], in MiB.
    pub(super) fn peak_mib(&self) -> Result<f64> {
        self.status_mib("VmHWM:")
    }

    /// Sets the largest resident memory to the present one.
    pub(super) fn reset_peak(&self) -> Result<()> {
        let id = self.process.id().context("the server has ended")?;
        std::fs::write(format!("/proc/{id}/clear_refs"), "5").context("the peak of the memory cannot be reset")
    }

    fn status_mib(&self, field: &str) -> Result<f64> {
        let id = self.process.id().context("the server has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let value = status.lines().find_map(|line| line.strip_prefix(field));
        let value = value.with_context(|| format!("no {field} in /proc"))?;
        let kib: f64 = value.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib / 1024.0)
    }

    /// Makes a study, and returns its name.
    pub(super) async fn create_study(&self, id: &str, algorithm: &str) -> Result<String> {
        let url = format!("{}/v1/{PARENT}/studies?studyId={id}", self.endpoint);
        let answer = self.client.post(url).json(&study_config(algorithm)).send().await?;
        ensure!(answer.status().is_success(), "study {id}: {}", answer.text().await?);
        Ok(format!("{PARENT}/studies/{id}"))
    }

    /// Where clients find the study of this name.
    pub(super) fn at(&self, study: &str) -> StudyAt {
        StudyAt {
            client: self.client.clone(),
            url: format!("{}/v1/{study}", self.endpoint),
            endpoint: self.endpoint.clone(),
        }
    }

    /// Asks it to end, and waits until it has.
    pub(super) async fn stop(mut self) -> Result<()> {
        let id = self.process.id().and_then(|id| i32::try_from(id).ok()).context("the server has ended before")?;
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGTERM)?;
        match tokio::time::timeout(END_LIMIT, self.process.wait()).await {
            Ok(status) => ensure!(status?.success(), "the server failed at its end"),
            Err(_) => bail!("the server did not end within {END_LIMIT:?}"),
        }
        Ok(())
    }
}
