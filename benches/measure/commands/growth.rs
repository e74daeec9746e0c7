//! How time and memory of a server grow: each figure beside a reference of the same run.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::{Value, json};

use super::clients::{StudyAt, loss_of};
use super::server::Server;
use super::workload::{FAST_ALGORITHM, MODEL};
use super::{OpenStore, markdown, median, prefill, this_program, write_json};

#[derive(Debug, clap::Args)]
pub(super) struct GrowthArgs {
    /// Number of reports to one trial.
    #[arg(long, value_name = "N", default_value = "2000", value_parser = clap::value_parser!(u32).range(2..))]
    reports: u32,
    /// Number of pending trials that were suggested in batches, before a suggestion of the model.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(21..))]
    batched: u32,
    /// Number of trials of the study whose lists are read.
    #[arg(long, value_name = "N", default_value = "20000", value_parser = clap::value_parser!(u32).range(1..))]
    listed: u32,
    /// Number of readers of the list at once.
    #[arg(long, value_name = "N", default_value = "30", value_parser = clap::value_parser!(u32).range(1..))]
    readers: u32,
    /// Number of studies with models.
    #[arg(long, value_name = "N", default_value = "20")]
    studies: u32,
    /// Program whose `serve` is measured, to compare versions.
    #[arg(long, value_name = "FILE", default_value_os_t = this_program())]
    program: PathBuf,
    /// Also write the rows to this file as JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// One figure and its reference, both in `unit`.
#[derive(Debug, Serialize)]
struct GrowthRow {
    what: String,
    value: f64,
    reference: String,
    reference_value: f64,
    unit: &'static str,
}

/// Measures everything.
pub(super) async fn run(args: &GrowthArgs) -> Result<String> {
    let rows = args.measure().await?;
    write_json(args.out.as_deref(), &rows)?;
    let row = |row: &GrowthRow| {
        let figure = |value: f64| format!("{value:.1} {}", row.unit);
        let ratio = format!("{:.2}", row.value / row.reference_value);
        vec![row.what.clone(), figure(row.value), row.reference.clone(), figure(row.reference_value), ratio]
    };
    let header = ["", "value", "reference", "value", "ratio"].map(str::to_owned);
    Ok(markdown(&header, &rows.iter().map(row).collect::<Vec<_>>()))
}

impl GrowthArgs {
    async fn measure(&self) -> Result<Vec<GrowthRow>> {
        let folder = tempfile::tempdir()?;
        let data = folder.path().join("data");
        let server = Server::start(&self.program, &data).await?;
        let listed = server.create_study("listed", FAST_ALGORITHM).await?;
        server.stop().await?;
        {
            let store = OpenStore::open(&data).await?;
            prefill::complete(&*store.store, &listed, self.listed as usize).await?;
        }
        let server = Server::start(&self.program, &data).await?;
        let mut rows = Vec::new();
        let mut add = |row: GrowthRow| {
            eprintln!("{}: {:.1} {}", row.what, row.value, row.unit);
            rows.push(row);
        };
        add(self.reports(&server).await?);
        for row in self.lists(&server, &listed).await? {
            add(row);
        }
        add(self.batches(&server).await?);
        add(self.models(&server).await?);
        server.stop().await?;
        Ok(rows)
    }

    /// The last reports to a trial beside the first.
    async fn reports(&self, server: &Server) -> Result<GrowthRow> {
        let study = server.at(&server.create_study("reports", FAST_ALGORITHM).await?);
        let trial = suggest(&study, "reporter", 1).await?.0.remove(0);
        let url = format!("{}/v1/{}:addMeasurement", study.endpoint, name(&trial)?);
        let mut times = Vec::new();
        for step in 1..=self.reports {
            let metrics = json!([{"metric": "loss", "value": 1.0 / step as f64}]);
            let begin = Instant::now();
            study.post(&url, &json!({"measurement": {"stepCount": step.to_string(), "metrics": metrics}})).await?;
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        let part = (times.len() / 10).max(1);
        let last = median(times.split_off(times.len() - part));
        times.truncate(part);
        Ok(GrowthRow {
            what: format!("a report, the last {part} of {}", self.reports),
            value: last,
            reference: format!("the first {part}"),
            reference_value: median(times),
            unit: "ms",
        })
    }

    /// Optimal trials after a start of the server and again, and the memory of readers of the whole list.
    async fn lists(&self, server: &Server, study: &str) -> Result<Vec<GrowthRow>> {
        let study = server.at(study);
        let url = format!("{}/trials:listOptimalTrials", study.url);
        let mut times = Vec::new();
        for _ in 0..12 {
            let begin = Instant::now();
            study.post(&url, &json!({})).await?;
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        let first = times.remove(0);
        let again = median(times);
        let optimal = GrowthRow {
            what: format!("listOptimalTrials of {} trials, again", self.listed),
            value: again,
            reference: "the first one after a start".to_owned(),
            reference_value: first,
            unit: "ms",
        };
        let before = server.resident_mib()?;
        server.reset_peak()?;
        let list = format!("{}/trials", study.url);
        let mut readers = Vec::new();
        for _ in 0..self.readers {
            readers.push(study.client.get(&list).send().await?);
        }
        let mut bytes = 0;
        for reader in readers {
            bytes = 0;
            let mut reader = reader;
            while let Some(part) = reader.chunk().await? {
                bytes += part.len();
            }
        }
        let memory = GrowthRow {
            what: format!("memory for {} readers of the list", self.readers),
            value: (server.peak_mib()? - before).max(0.0),
            reference: "size of one list".to_owned(),
            reference_value: bytes as f64 / f64::from(1 << 20),
            unit: "MiB",
        };
        Ok(vec![optimal, memory])
    }

    /// The first suggestion of the model after trials in batches, beside that after trials one by one.
    async fn batches(&self, server: &Server) -> Result<GrowthRow> {
        let (batches, singles) = (
            server.at(&server.create_study("batches", MODEL).await?),
            server.at(&server.create_study("singles", MODEL).await?),
        );
        let mut left = self.batched as usize;
        let mut trials = Vec::new();
        while left > 0 {
            let batch = suggest(&batches, &format!("client {left}"), left.min(1000)).await?.0;
            ensure!(!batch.is_empty(), "the study has no more trials");
            left -= batch.len();
            trials.extend(batch);
        }
        // The others stay pending.
        for trial in trials.iter().take(20) {
            complete(&batches, trial).await?;
        }
        let batched = suggest(&batches, "last", 1).await?.1;
        let mut single = f64::NAN;
        for number in 0..21 {
            let (mut trial, seconds) = suggest(&singles, &format!("client {number}"), 1).await?;
            complete(&singles, &trial.remove(0)).await?;
            single = seconds;
        }
        Ok(GrowthRow {
            what: format!("a suggestion of the model beside {} pending trials", self.batched),
            value: batched * 1e3,
            reference: "one beside none".to_owned(),
            reference_value: single * 1e3,
            unit: "ms",
        })
    }

    /// Resident memory after many studies have used a model.
    async fn models(&self, server: &Server) -> Result<GrowthRow> {
        let before = server.resident_mib()?;
        for number in 0..self.studies {
            let study = server.at(&server.create_study(&format!("m{number}"), MODEL).await?);
            for trial in suggest(&study, "client", 60).await?.0 {
                complete(&study, &trial).await?;
            }
            suggest(&study, "client", 1).await?;
        }
        Ok(GrowthRow {
            what: format!("resident memory after {} studies with models", self.studies),
            value: server.resident_mib()?,
            reference: "before them".to_owned(),
            reference_value: before,
            unit: "MiB",
        })
    }
}

/// Suggested trials, and the seconds until they were known.
async fn suggest(study: &StudyAt, client: &str, count: usize) -> Result<(Vec<Value>, f64)> {
    let begin = Instant::now();
    let request = json!({"suggestionCount": count, "clientId": client});
    let mut operation = study.post(&format!("{}/trials:suggest", study.url), &request).await?;
    while operation["done"] != json!(true) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        let url = format!("{}/v1/{}", study.endpoint, name(&operation)?);
        operation = study.client.get(url).send().await?.json().await?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let trials = operation["response"]["trials"].as_array().cloned();
    Ok((trials.with_context(|| format!("no trials in {operation}"))?, seconds))
}

async fn complete(study: &StudyAt, trial: &Value) -> Result<()> {
    let metrics = json!([{"metric": "loss", "value": loss_of(&trial["parameters"])}]);
    let url = format!("{}/v1/{}:complete", study.endpoint, name(trial)?);
    study.post(&url, &json!({"finalMeasurement": {"metrics": metrics}})).await?;
    Ok(())
}

fn name(resource: &Value) -> Result<&str> {
    resource["name"].as_str().with_context(|| format!("no name in {resource}"))
}
