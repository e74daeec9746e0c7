//! `explain`: importance of the parameters, predicted optimum, and how far both can be trusted.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tunesmith_client::StudyClient;

use crate::context::Context;
use crate::failure::Failure;
use crate::rows::{Row, View, row};
use crate::subject::Of;
use crate::tool::{Effects, Tool};

/// Rank correlation of predictions and results above which predictions are called reliable (a convention: Cohen's strong
/// correlation).
const RELIABLE_CORRELATION: f64 = 0.5;

/// Share of results within the 95% bands below which intervals are called too narrow (a guess).
const LEAST_COVERAGE: f64 = 0.8;

pub(super) fn tools() -> Vec<Tool> {
    vec![Tool::new(
        ("mcp.explain", "Explain results"),
        "Explains a job or study: importance of each parameter with ranges, predicted optimum, recommended trial, and whether the \
         predictions are reliable.",
        Effects::Reads,
        json!({"job": "census"}),
        explain,
    )]
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    #[serde(flatten)]
    of: Of,
    /// Metric; default the first one.
    metric: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Explanation {
    metric: String,
    /// Trials that the model is fitted to.
    modelled_trials: u64,
    /// Parameters by decreasing importance.
    importance: Vec<Importance>,
    /// Share of the variance of the results that the parameters explain.
    explained_variance: f64,
    /// Point of the whole space with the best prediction.
    optimum: Prediction,
    /// Tried point with the best prediction; absent with too few points.
    #[serde(skip_serializing_if = "Option::is_none")]
    recommended: Option<Prediction>,
    /// Best result.
    best: Prediction,
    /// Whether the best result is probably due to luck.
    best_may_be_lucky: bool,
    /// Whether equal parameters have different results.
    is_noisy: bool,
    /// Influence of each source study on the search; absent without source studies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    source_studies: Vec<SourceStudy>,
    /// Whether predictions of trials from the others agree with their results.
    reliable: bool,
    /// Reason for `reliable`.
    why: String,
}

/// Share of the variance in which a parameter takes part, from 0 to 1.
#[derive(Serialize, JsonSchema)]
struct Importance {
    parameter: String,
    share: f64,
    low: f64,
    high: f64,
}

/// Use of a source study by the search.
#[derive(Serialize, Deserialize, JsonSchema)]
struct SourceStudy {
    study: String,
    /// Share in the variance of the search's model, from 0 to 1; 0 if it is not used.
    share: f64,
    description: String,
}

#[derive(Deserialize)]
struct SourceStudies {
    sources: Vec<SourceStudy>,
}

/// A point with its result and prediction.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Prediction {
    parameters: BTreeMap<String, Value>,
    /// Trial; absent if the point was not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    trial: Option<u64>,
    /// Result; the mean of all trials at the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<f64>,
    /// Number of trials at the point.
    trials: u64,
    /// Median of the prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted: Option<f64>,
    /// Lower end of the 95% band.
    #[serde(rename(deserialize = "lower", serialize = "low"), skip_serializing_if = "Option::is_none")]
    low: Option<f64>,
    /// Upper end of the 95% band.
    #[serde(rename(deserialize = "upper", serialize = "high"), skip_serializing_if = "Option::is_none")]
    high: Option<f64>,
}

impl Prediction {
    /// Replaces the parameters of a tried point by those of its trial. A model rounds them.
    pub(super) async fn exact(&mut self, study: &StudyClient) -> Result<(), Failure> {
        if let Some(trial) = self.trial {
            self.parameters = row(study, &trial.to_string()).await?.parameters;
        }
        Ok(())
    }

    /// The result of one trial, without a model.
    pub(super) fn measured(row: Row) -> Self {
        let observed = row.metrics.values().next().copied();
        let trial = Some(row.id);
        Self { parameters: row.parameters, trial, observed, trials: 1, predicted: None, low: None, high: None }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Importances {
    metric: Axis,
    modelled: u64,
    parameters: Vec<Bar>,
    explained_variance: f64,
}

#[derive(Deserialize)]
struct Axis {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bar {
    parameter: String,
    total: f64,
    total_range: [f64; 2],
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Trust {
    nominal_coverage: Vec<f64>,
    observed_coverage: Vec<f64>,
    rank_correlation: Option<f64>,
    best: [Prediction; 3],
}

impl Recommendation {
    pub(super) async fn read(study: &StudyClient, query: &[(&str, &str)]) -> Result<Self, Failure> {
        let mut view: Self = study.view::<View<Self>>("recommended", query).await?.view;
        view.best.exact(study).await?;
        if let Some(recommended) = &mut view.recommended {
            recommended.exact(study).await?;
        }
        Ok(view)
    }
}

/// The view `recommended`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Recommendation {
    pub(super) recommended: Option<Prediction>,
    pub(super) best: Prediction,
    pub(super) best_may_be_lucky: bool,
    is_noisy: bool,
}

impl Trust {
    /// Whether predictions are reliable, and why.
    fn reliability(&self) -> (bool, String) {
        let widest = self.nominal_coverage.iter().zip(&self.observed_coverage).max_by(|a, b| a.0.total_cmp(b.0));
        let inside = widest.map_or(0.0, |(_, observed)| *observed);
        let shown = |share: f64| (share * 100.0).round();
        match self.rank_correlation {
            None => (
                false,
                "all predictions are equal: the results do not depend on the parameters as far as is known".to_owned(),
            ),
            Some(correlation) if correlation < RELIABLE_CORRELATION => (
                false,
                format!(
                    "predictions and results have a rank correlation of {correlation:.2}, below {RELIABLE_CORRELATION}: more trials are needed"
                ),
            ),
            Some(_) if inside < LEAST_COVERAGE => (
                false,
                format!("only {}% of the results are within their 95% bands: intervals are too narrow", shown(inside)),
            ),
            Some(correlation) => (
                true,
                format!(
                    "predictions and results have a rank correlation of {correlation:.2}, and {}% of the results are within their 95% bands",
                    shown(inside)
                ),
            ),
        }
    }
}

async fn explain(context: Context, arguments: Arguments) -> Result<Explanation, Failure> {
    let subject = arguments.of.subject(&context)?;
    let metric = arguments.metric.unwrap_or_default();
    let query: &[(&str, &str)] = if metric.is_empty() { &[] } else { &[("metric", &metric)] };
    let importances: View<Importances> = subject.study.view("importance", query).await?;
    let recommendation = Recommendation::read(&subject.study, query).await?;
    let trust: View<Trust> = subject.study.view("trust", query).await?;
    let sources: SourceStudies = subject.study.view("sourceStudies", &[]).await?;
    let (reliable, why) = trust.view.reliability();
    let Importances { metric, modelled, parameters, explained_variance } = importances.view;
    let Recommendation { recommended, best, best_may_be_lucky, is_noisy } = recommendation;
    let [_, _, mut optimum] = trust.view.best;
    optimum.exact(&subject.study).await?;
    let importance = parameters.into_iter().map(|Bar { parameter, total, total_range: [low, high] }| Importance {
        parameter,
        share: total,
        low,
        high,
    });
    Ok(Explanation {
        metric: metric.name,
        modelled_trials: modelled,
        importance: importance.collect(),
        explained_variance,
        optimum,
        recommended,
        best,
        best_may_be_lucky,
        is_noisy,
        source_studies: sources.sources,
        reliable,
        why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reliability_states_its_reason() {
        let trust = |rank_correlation, inside| {
            let best = || serde_json::from_value::<Prediction>(json!({"parameters": {}, "trials": 0})).unwrap();
            Trust {
                nominal_coverage: vec![0.5, 0.95],
                observed_coverage: vec![0.4, inside],
                rank_correlation,
                best: [best(), best(), best()],
            }
            .reliability()
        };
        assert!(trust(Some(0.9), 0.93).0);
        let (reliable, why) = trust(Some(0.2), 1.0);
        assert!(!reliable && why.contains("0.20, below 0.5"), "{why}");
        let (reliable, why) = trust(Some(0.9), 0.5);
        assert!(!reliable && why.contains("only 50%"), "{why}");
        assert!(!trust(None, 1.0).0);
    }
}
