//! The same pairs on the store without a server: the limit that the disk sets.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use jiff::Timestamp;
use tokio::task::JoinSet;
use tunesmith_algorithms::problem::{
    Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ProblemStatement, ScaleType, SearchSpace, TrialId,
};

use super::service::{Row, row};
use tunesmith_domain::{
    Completion, Measurement, MetricValue, NewTrial, ReportKey, Study, StudyFields, StudyId, TrialChange, TrialStart,
};
use tunesmith_store::Store;

/// Creates and completes trials with `clients`, each in its own study, so that no client waits for a trial number.
pub(super) async fn measure(store: &Arc<dyn Store>, clients: NonZeroUsize, pairs: NonZeroUsize) -> Result<Row> {
    let each = pairs.get().div_ceil(clients.get());
    let mut studies = Vec::new();
    for number in 0..clients.get() {
        let study = study(&format!("s{number}"))?;
        studies.push(study.id.clone());
        store.create_study(study).await?;
    }
    let begin = Instant::now();
    let mut writers = JoinSet::new();
    for study in studies {
        let store = Arc::clone(store);
        writers.spawn(async move { write(&*store, &study, each).await });
    }
    let mut times = Vec::new();
    while let Some(writer) = writers.join_next().await {
        times.extend(writer??);
    }
    Ok(row("bare store, create and complete", clients.get(), 0, begin.elapsed().as_secs_f64(), times))
}

async fn write(store: &dyn Store, study: &StudyId, pairs: usize) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(pairs);
    for number in 1..=pairs as u64 {
        let (id, now, begin) = (TrialId(number), Timestamp::now(), Instant::now());
        let trial = NewTrial {
            id,
            parameters: [("x".to_owned(), ParameterValue::Double(0.5))].into(),
            origin: None,
            fallback_reason: None,
            fixed_parameters: Vec::new(),
            client_id: "client".to_owned(),
            start: TrialStart::Started { lease: None },
            create_time: now,
            request_key: None,
        };
        store.create_trial(study, trial).await?;
        times.push(begin.elapsed().as_secs_f64());
        let final_measurement = Measurement {
            step: 0,
            wall_time_secs: 0.0,
            elapsed_secs: None,
            key: ReportKey::Http,
            metrics: vec![MetricValue { metric: "loss".to_owned(), value: 0.5 }],
        };
        let completion = Completion::Succeeded { final_measurement };
        let change = TrialChange::Complete { attempt: 1, measurements: Vec::new(), completion, at: now };
        store.change_trial(study, id, change).await?;
    }
    Ok(times)
}

fn study(id: &str) -> Result<Study> {
    let kind = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
    let space = SearchSpace::new(vec![ParameterSpec::new("x", kind)?])?;
    let metrics = vec![MetricSpec { name: "loss".to_owned(), goal: Goal::Minimize }];
    let problem = ProblemStatement::new(space, metrics)?;
    Ok(Study::restore(StudyFields::new(StudyId::new("load", "bare", id)?, problem, Timestamp::now())))
}
