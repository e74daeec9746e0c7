//! The throughput and latency of the service: a load on a real server over HTTP, beside the store alone in the same run.
//!
//! A *pair* is one requested suggestion and the completion of its trial. Each client requests its next trial as soon as
//! its last one is complete, or after a pause in which the server may prepare the next one. The server is a process of its own
//! that listens on the loopback interface, on a data folder that is made for the run.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use super::clients::Clients;
use super::server::Server;
use super::workload::{FAST_ALGORITHM, MODEL};
use super::{OpenStore, bare_store, markdown, prefill, this_program, write_json};

#[derive(Debug, clap::Args)]
pub(super) struct ServiceArgs {
    /// Numbers of concurrent clients.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,8,64")]
    clients: Vec<NonZeroUsize>,
    /// Number of pairs in each measurement, of all clients together.
    #[arg(long, value_name = "N", default_value = "2000")]
    pairs: NonZeroUsize,
    /// Numbers of completed trials in the study, to measure the growth of costs.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "100,100000")]
    grown: Vec<usize>,
    /// Numbers of completed trials at which Bayesian optimisation is measured.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "50,100,1000,5000")]
    history: Vec<usize>,
    /// Number of suggestions of Bayesian optimisation at each, both on demand and prepared.
    #[arg(long, value_name = "N", default_value = "30")]
    suggestions: NonZeroUsize,
    /// Number of further completed trials in the store, to measure start time and memory.
    #[arg(long, value_name = "N", default_value_t = 0)]
    stored: usize,
    /// Folder for temporary data folders, on the disk to be measured. The system's temporary folder by default.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Program whose `serve` is measured, to compare versions.
    #[arg(long, value_name = "FILE", default_value_os_t = this_program())]
    program: PathBuf,
    /// Also write the result to this file as JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// One measurement.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    /// The request.
    pub(super) what: String,
    /// Clients at once.
    pub(super) clients: usize,
    /// Completed trials in the study at the beginning.
    pub(super) completed_before: usize,
    /// Number of pairs.
    pub(super) pairs: usize,
    /// The duration in seconds.
    pub(super) seconds: f64,
    /// Pairs per second.
    pub(super) pairs_per_second: f64,
    /// Median time of a suggestion, in milliseconds.
    pub(super) suggest_p50_ms: f64,
    /// 99 of 100 suggestions take at most so many milliseconds.
    pub(super) suggest_p99_ms: f64,
}

/// The server itself.
#[derive(Debug, Serialize)]
pub(super) struct Start {
    /// Trials that its store holds.
    pub(super) stored_trials: usize,
    /// Milliseconds from the start of the process to its first answer to `/readyz`.
    pub(super) ready_ms: f64,
    /// MiB resident then.
    pub(super) resident_mib: f64,
}

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
pub(super) struct LoadResult {
    /// Starts of the server: on an empty store, and on the full one.
    pub(super) starts: Vec<Start>,
    /// Loads.
    pub(super) rows: Vec<Row>,
}

/// Measures everything.
pub(super) async fn run(args: &ServiceArgs) -> Result<String> {
    let folder = match &args.folder {
        Some(folder) => tempfile::tempdir_in(folder).with_context(|| format!("{} cannot be used", folder.display()))?,
        None => tempfile::tempdir()?,
    };
    let result = args.measure(folder.path()).await?;
    write_json(args.out.as_deref(), &result)?;
    Ok(result.tables())
}

impl ServiceArgs {
    async fn measure(&self, folder: &Path) -> Result<LoadResult> {
        let mut result = LoadResult::default();
        for &clients in &self.clients {
            let store = OpenStore::open(&folder.join(format!("bare-{clients}"))).await?;
            result.add(bare_store::measure(&store.store, clients, self.pairs).await?);
        }
        let data = folder.join("data");
        let server = Server::start(&self.program, &data).await?;
        result.starts.push(server.started(0)?);
        let mut studies = Vec::new();
        for &clients in &self.clients {
            studies.push((server.create_study(&format!("c{clients}"), FAST_ALGORITHM).await?, clients, 0));
        }
        for &grown in &self.grown {
            studies.push((server.create_study(&format!("g{grown}"), FAST_ALGORITHM).await?, NonZeroUsize::MIN, grown));
        }
        let mut searches = Vec::new();
        for &history in &self.history {
            searches.push((server.create_study(&format!("n{history}"), MODEL).await?, history));
        }
        let other = server.create_study("other", FAST_ALGORITHM).await?;
        server.stop().await?;
        {
            let store = OpenStore::open(&data).await?;
            let grown = studies.iter().map(|(study, _, completed)| (study, *completed));
            let searched = searches.iter().map(|(study, completed)| (study, *completed));
            for (study, completed) in grown.chain(searched).chain([(&other, self.stored)]) {
                prefill::complete(&*store.store, study, completed).await?;
            }
        }

        let server = Server::start(&self.program, &data).await?;
        let stored = self.stored + self.grown.iter().chain(&self.history).sum::<usize>();
        result.starts.push(server.started(stored)?);
        for (study, clients, completed) in studies {
            let load = Clients { count: clients, pairs: self.pairs, pause: Duration::ZERO };
            result.add(load.run(&server.at(&study), "suggest and complete, random search", completed).await?);
        }
        for (study, completed) in searches {
            let load = Clients { count: NonZeroUsize::MIN, pairs: self.suggestions, pause: Duration::ZERO };
            // The first one reads the history, and is not counted.
            let first = Clients { pairs: NonZeroUsize::MIN, ..load };
            first.run(&server.at(&study), "first", completed).await?;
            let row = load.run(&server.at(&study), "suggest on demand, Gaussian process", completed).await?;
            // Long enough for what takes so long on demand.
            let pause = Duration::from_secs_f64(row.suggest_p99_ms.max(1.0) * 3e-3);
            result.add(row);
            let load = Clients { pause, ..load };
            result.add(load.run(&server.at(&study), "suggest prepared, Gaussian process", completed).await?);
        }
        server.stop().await?;
        Ok(result)
    }
}

impl LoadResult {
    fn add(&mut self, row: Row) {
        eprintln!(
            "{}, {} clients, {} completed: {:.0} pairs/s",
            row.what, row.clients, row.completed_before, row.pairs_per_second
        );
        self.rows.push(row);
    }

    fn tables(&self) -> String {
        let header = ["", "clients", "completed before", "pairs/s", "suggest p50 ms", "suggest p99 ms"];
        let row = |row: &Row| {
            let numbers =
                [row.pairs_per_second, row.suggest_p50_ms, row.suggest_p99_ms].map(|value| format!("{value:.1}"));
            let cells = [row.what.clone(), row.clients.to_string(), row.completed_before.to_string()];
            cells.into_iter().chain(numbers).collect()
        };
        let loads = markdown(&header.map(str::to_owned), &self.rows.iter().map(row).collect::<Vec<_>>());
        let row = |start: &Start| {
            vec![
                start.stored_trials.to_string(),
                format!("{:.0}", start.ready_ms),
                format!("{:.0}", start.resident_mib),
            ]
        };
        let header = ["stored trials", "ready after ms", "resident MiB"].map(str::to_owned);
        let starts = markdown(&header, &self.starts.iter().map(row).collect::<Vec<_>>());
        format!("{loads}\n{starts}")
    }
}

/// A row from the times of single suggestions.
pub(super) fn row(what: &str, clients: usize, completed_before: usize, seconds: f64, mut times: Vec<f64>) -> Row {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)));
    let ms = |share| at(share).copied().unwrap_or(f64::NAN) * 1e3;
    Row {
        what: what.to_owned(),
        clients,
        completed_before,
        pairs: times.len(),
        seconds,
        pairs_per_second: times.len() as f64 / seconds,
        suggest_p50_ms: ms(0.5),
        suggest_p99_ms: ms(0.99),
    }
}
