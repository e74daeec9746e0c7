//! Clients that request trials and complete them.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::service::{Row, row};
use super::workload::loss;

/// A study of a server.
#[derive(Debug, Clone)]
pub(super) struct StudyAt {
    pub(super) client: Client,
    pub(super) endpoint: String,
    pub(super) url: String,
}

/// A load of clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clients {
    pub(super) count: NonZeroUsize,
    /// Of all together.
    pub(super) pairs: NonZeroUsize,
    /// Between a result and the next suggestion.
    pub(super) pause: Duration,
}

impl Clients {
    /// Lets the clients work on `study`.
    pub(super) async fn run(&self, study: &StudyAt, what: &str, completed_before: usize) -> Result<Row> {
        let left = Arc::new(AtomicUsize::new(self.pairs.get()));
        let begin = Instant::now();
        let mut clients = JoinSet::new();
        for number in 0..self.count.get() {
            clients.spawn(work(study.clone(), format!("client-{number}"), Arc::clone(&left), self.pause));
        }
        let mut times = Vec::with_capacity(self.pairs.get());
        while let Some(client) = clients.join_next().await {
            times.extend(client??);
        }
        Ok(row(what, self.count.get(), completed_before, begin.elapsed().as_secs_f64(), times))
    }
}

/// One client, as long as pairs are left; returns how long each suggestion took, in seconds.
async fn work(study: StudyAt, name: String, left: Arc<AtomicUsize>, pause: Duration) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let begin = Instant::now();
        let request = json!({"suggestionCount": 1, "clientId": name});
        let mut operation = study.post(&format!("{}/trials:suggest", study.url), &request).await?;
        while operation["done"] != json!(true) {
            let url = format!("{}/v1/{}", study.endpoint, operation["name"].as_str().context("an operation's name")?);
            operation = study.client.get(url).send().await?.json().await?;
        }
        times.push(begin.elapsed().as_secs_f64());
        let trial = &operation["response"]["trials"][0];
        let trial_name = trial["name"].as_str().with_context(|| format!("no trial in {operation}"))?;
        let metrics = json!([{"metric": "loss", "value": loss_of(&trial["parameters"])}]);
        let url = format!("{}/v1/{trial_name}:complete", study.endpoint);
        study.post(&url, &json!({"finalMeasurement": {"metrics": metrics}})).await?;
    }
    Ok(times)
}

impl StudyAt {
    /// Sends a request, and returns the body of its successful answer.
    pub(super) async fn post(&self, url: &str, body: &Value) -> Result<Value> {
        let answer = self.client.post(url).json(body).send().await?;
        let status = answer.status();
        let body: Value = answer.json().await?;
        ensure!(status.is_success(), "{url}: {status}: {body}");
        Ok(body)
    }
}

/// The loss at a trial's parameters, in the order of the study's.
pub(super) fn loss_of(parameters: &Value) -> f64 {
    let (mut numbers, mut category) = (Vec::new(), "");
    for parameter in parameters.as_array().into_iter().flatten() {
        if let Some(text) = parameter["stringValue"].as_str() {
            category = text;
        } else {
            let integer = || parameter["intValue"].as_str()?.parse().ok();
            numbers.extend(parameter["floatValue"].as_f64().or_else(integer));
        }
    }
    loss(&numbers, category)
}
