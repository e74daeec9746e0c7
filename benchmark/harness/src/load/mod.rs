//! The throughput and latency of the service: a load on a real server over HTTP, beside the store alone in the same run.
//!
//! A *pair* is one requested suggestion and the completion of its trial. Each client requests its next trial as soon as
//! its last one is complete, or after a pause in which the server may prepare the next one. The server is a process of its own
//! that listens on the loopback interface, on a data folder that is made for the run.

mod bare_store;
mod clients;
mod growth;
mod prefill;
mod server;

use std::any::Any;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::{Value, json};

use tunesmith_store::Store;

use self::clients::{Clients, StudyAt};
pub use self::growth::{Growth, GrowthRow};
use self::server::Server;

/// The algorithm whose throughput is measured: it computes next to nothing.
const FAST_ALGORITHM: &str = "RANDOM_SEARCH";

/// Opens the store of a data folder. The program that composes the application chooses which one.
pub type OpenStore = Box<dyn Fn(PathBuf) -> BoxFuture<'static, Result<OpenedStore>> + Send + Sync>;

/// An open store together with the lock on its folder, which is released after the store is closed.
pub struct OpenedStore {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The lock.
    pub lock: Box<dyn Any + Send + Sync>,
}

impl Deref for OpenedStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

/// The parameters of a load test.
pub struct Load {
    /// Opens the store that requests are compared with.
    pub open_store: OpenStore,
    /// This program.
    pub program: PathBuf,
    /// An empty folder.
    pub folder: PathBuf,
    /// Numbers of clients at once.
    pub clients: Vec<NonZeroUsize>,
    /// Pairs of all clients together, in each measurement.
    pub pairs: NonZeroUsize,
    /// Numbers of completed trials in the study at the beginning, for the growth of costs.
    pub grown: Vec<usize>,
    /// Numbers of completed trials at which Bayesian optimisation is measured.
    pub history: Vec<usize>,
    /// Suggestions of Bayesian optimisation at each, on demand and prepared.
    pub suggestions: NonZeroUsize,
    /// Completed trials of other studies that the store holds besides, for time to ready and memory.
    pub stored: usize,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The request.
    pub what: String,
    /// Clients at once.
    pub clients: usize,
    /// Completed trials in the study at the beginning.
    pub completed_before: usize,
    /// Number of pairs.
    pub pairs: usize,
    /// The duration in seconds.
    pub seconds: f64,
    /// Pairs per second.
    pub pairs_per_second: f64,
    /// Median time of a suggestion, in milliseconds.
    pub suggest_p50_ms: f64,
    /// 99 of 100 suggestions take at most so many milliseconds.
    pub suggest_p99_ms: f64,
}

/// The server itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Start {
    /// Trials that its store holds.
    pub stored_trials: usize,
    /// Milliseconds from the start of the process to its first answer to `/readyz`.
    pub ready_ms: f64,
    /// MiB resident then.
    pub resident_mib: f64,
}

/// Everything that was measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct LoadResult {
    /// Starts of the server: on an empty store, and on the full one.
    pub starts: Vec<Start>,
    /// Loads.
    pub rows: Vec<Row>,
}

impl Load {
    /// Measures everything, and passes each row to `on_row` when it is known.
    ///
    /// # Errors
    /// If the server or its store fails.
    pub async fn run(&self, mut on_row: impl FnMut(&Row)) -> Result<LoadResult> {
        let mut result = LoadResult::default();
        let mut add = |result: &mut LoadResult, row: Row| {
            on_row(&row);
            result.rows.push(row);
        };
        for &clients in &self.clients {
            add(
                &mut result,
                bare_store::measure(
                    &self.open_store,
                    &self.folder.join(format!("bare-{clients}")),
                    clients,
                    self.pairs,
                )
                .await?,
            );
        }
        let data = self.folder.join("data");
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
            searches.push((server.create_study(&format!("n{history}"), "GAUSSIAN_PROCESS_BANDIT").await?, history));
        }
        let other = server.create_study("other", FAST_ALGORITHM).await?;
        server.stop().await?;
        self.fill(&data, &studies, &searches, &other).await?;

        let server = Server::start(&self.program, &data).await?;
        let stored = self.stored + self.grown.iter().chain(&self.history).sum::<usize>();
        result.starts.push(server.started(stored)?);
        for (study, clients, completed) in studies {
            let load = Clients { count: clients, pairs: self.pairs, pause: Duration::ZERO };
            let row = load.run(&server.at(&study), "suggest and complete, random search", completed).await?;
            add(&mut result, row);
        }
        for (study, completed) in searches {
            let load = Clients { count: NonZeroUsize::MIN, pairs: self.suggestions, pause: Duration::ZERO };
            // The first one reads the history, and is not counted.
            let first = Clients { pairs: NonZeroUsize::MIN, ..load };
            first.run(&server.at(&study), "first", completed).await?;
            let row = load.run(&server.at(&study), "suggest on demand, Gaussian process", completed).await?;
            // Long enough for what takes so long on demand.
            let pause = Duration::from_secs_f64(row.suggest_p99_ms.max(1.0) * 3e-3);
            add(&mut result, row);
            let load = Clients { pause, ..load };
            add(&mut result, load.run(&server.at(&study), "suggest prepared, Gaussian process", completed).await?);
        }
        server.stop().await?;
        Ok(result)
    }

    async fn fill(
        &self,
        data: &Path,
        studies: &[(String, NonZeroUsize, usize)],
        searches: &[(String, usize)],
        other: &str,
    ) -> Result<()> {
        let store = (self.open_store)(data.to_owned()).await.context("the data folder of the run")?;
        let grown = studies.iter().map(|(study, _, completed)| (study.as_str(), *completed));
        let searched = searches.iter().map(|(study, completed)| (study.as_str(), *completed));
        for (study, completed) in grown.chain(searched).chain([(other, self.stored)]) {
            prefill::complete(&*store, study, completed).await?;
        }
        Ok(())
    }
}

/// The study that is searched: six parameters of all kinds.
fn study_config(algorithm: &str) -> Value {
    json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
        "algorithm": algorithm,
        "tunesmith": {"seed": "1"},
        "parameters": [
            {"parameter": "a", "type": "DOUBLE", "doubleValueSpec": {"minValue": -5, "maxValue": 5}},
            {"parameter": "b", "type": "DOUBLE", "doubleValueSpec": {"minValue": -5, "maxValue": 5}},
            {"parameter": "c", "type": "DOUBLE", "scaleType": "UNIT_LOG_SCALE",
             "doubleValueSpec": {"minValue": 1e-5, "maxValue": 1}},
            {"parameter": "d", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "64"}},
            {"parameter": "e", "type": "DISCRETE", "discreteValueSpec": {"values": [16, 32, 64, 128]}},
            {"parameter": "f", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["x", "y", "z"]}},
        ],
    }})
}

/// The loss of a trial of [`study_config`], from its numbers in order and its category.
fn loss(numbers: &[f64], category: &str) -> f64 {
    let squares = numbers.iter().zip([5.0, 5.0, 0.5, 32.0, 64.0]).map(|(value, scale)| (value / scale - 0.3).powi(2));
    squares.sum::<f64>() + if category == "y" { 0.0 } else { 0.2 }
}

/// A row from the times of single suggestions.
fn row(what: &str, clients: usize, completed_before: usize, seconds: f64, mut times: Vec<f64>) -> Row {
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

#[cfg(test)]
mod tests {
    use super::{loss, row};

    #[test]
    fn a_row_has_the_quantiles_of_its_times() {
        let times = (1..=200).rev().map(|ms| f64::from(ms) * 1e-3).collect();
        let row = row("x", 2, 5, 4.0, times);
        assert_eq!((row.pairs, row.pairs_per_second), (200, 50.0));
        assert!((row.suggest_p50_ms - 101.0).abs() < 1e-9 && (row.suggest_p99_ms - 199.0).abs() < 1e-9, "{row:?}");
    }

    #[test]
    fn the_loss_is_least_inside_the_space() {
        let best = loss(&[1.5, 1.5, 0.15, 9.6, 19.2], "y");
        assert!(best < 1e-12, "{best}");
        assert!((loss(&[1.5, 1.5, 0.15, 9.6, 19.2], "x") - 0.2).abs() < 1e-12);
    }
}
