//! Completed trials, put into a store without a server.

use anyhow::{Context, Result};
use jiff::Timestamp;
use tunesmith_algorithms::designer::{Designer, History, SuggestRequest};
use tunesmith_algorithms::designers::RandomSearch;
use tunesmith_algorithms::problem::{ParameterValue, ParameterValues};

use super::workload::loss;
use tunesmith_domain::{Completion, Measurement, MetricValue, NewTrial, ReportKey, StudyId, TrialStart};
use tunesmith_store::Store;

/// Number of trials that are written at once.
const BATCH: usize = 1000;

/// Adds `count` completed trials at random points to the study of this name.
pub(super) async fn complete(store: &dyn Store, study: &str, count: usize) -> Result<()> {
    let mut parts = study.split('/').skip(1).step_by(2);
    let mut part = || parts.next().context("the name of a study");
    let id = StudyId::new(part()?, part()?, part()?)?;
    let study = store.study(&id).await?;
    let random = RandomSearch::new(&study.problem, 1);
    let mut first = study.next_trial_id;
    let mut left = count;
    while let Some(batch) = std::num::NonZeroUsize::new(left.min(BATCH)) {
        let points = random.suggest(History::default(), SuggestRequest { first_trial_id: first, count: batch })?;
        let now = Timestamp::now();
        let trials = (0..).zip(points).map(|(index, point)| NewTrial {
            id: first.offset(index),
            start: TrialStart::Completed(
                Completion::Succeeded { final_measurement: measured(&point.parameters) }.into(),
            ),
            parameters: point.parameters,
            origin: Some(point.origin),
            fallback_reason: None,
            fixed_parameters: Vec::new(),
            client_id: "client".to_owned(),
            create_time: now,
            request_key: None,
        });
        store.create_trials(&id, trials.collect()).await?;
        first = first.offset(batch.get() as u64);
        left -= batch.get();
    }
    Ok(())
}

fn measured(parameters: &ParameterValues) -> Measurement {
    let (mut numbers, mut category) = (Vec::new(), "");
    for value in parameters.values() {
        match value {
            ParameterValue::Double(value) | ParameterValue::Discrete(value) => numbers.push(*value),
            ParameterValue::Integer(value) => numbers.push(*value as f64),
            ParameterValue::Categorical(value) => category = value,
        }
    }
    Measurement {
        step: 0,
        wall_time_secs: 0.0,
        elapsed_secs: None,
        key: ReportKey::Http,
        metrics: vec![MetricValue { metric: "loss".to_owned(), value: loss(&numbers, category) }],
    }
}
