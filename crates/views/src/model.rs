//! Insights from the search model: parameter importance and reliability of predictions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tunesmith_algorithms::insight::{
    Estimate, Interval, MetricInsight, PredictedPoint, SuspiciousTrial, fewest_points,
};
use tunesmith_algorithms::problem::{CompletedTrial, Fidelity, TrialId, TrialOutcome};

use super::reduction::sample;
use super::{Axis, Cell, Columns, Rows};

/// The importance of the parameters.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Importances {
    /// The axis of the results.
    pub metric: Axis,
    /// The number of trials that the model was fitted to.
    pub modelled: usize,
    /// The share of the variance in which each parameter takes part, by decreasing share.
    pub parameters: Vec<Bar>,
    /// The share of the variance of the results that the parameters explain.
    pub explained_variance: f64,
    /// The number of refits for the ranges.
    pub refits: usize,
}

/// The importance of a parameter: shares of the variance, from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bar {
    /// The name of the parameter.
    pub parameter: String,
    /// The share with interactions.
    pub total: f64,
    /// Its lowest and highest value over the refits.
    pub total_range: [f64; 2],
    /// The share that the parameter explains alone.
    pub first_order: f64,
    /// Its lowest and highest value over the refits.
    pub first_order_range: [f64; 2],
}

/// How far the model's predictions can be trusted.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trust {
    /// The axis of the results.
    pub metric: Axis,
    /// The number of trials that the model was fitted to.
    pub modelled: usize,
    /// The numbers of trials that were predicted from the others.
    pub trials: Vec<u64>,
    /// Their results.
    pub observed: Vec<f64>,
    /// The medians of the predictions.
    pub predicted: Vec<f64>,
    /// The lower ends of the 95% bands.
    pub lower: Vec<f64>,
    /// The upper ends of the 95% bands.
    pub upper: Vec<f64>,
    /// The expected shares of results within a band.
    pub nominal_coverage: Vec<f64>,
    /// The observed shares.
    pub observed_coverage: Vec<f64>,
    /// Spearman's correlation of predictions and results; null if all predictions are equal.
    pub rank_correlation: Option<f64>,
    /// The mean log density of the results under the predictions; a prediction of the mean alone has -1.42.
    pub log_predictive_density: f64,
    /// The noise variance of a trial divided by the variance that the parameters cause.
    pub noise_to_signal: f64,
    /// The trials with results too good to be true, best first. The search and the model ignore them.
    pub suspicious: Vec<SuspiciousResult>,
    /// The best measured point, the measured point with the best prediction, and the point of the whole space with the best
    /// prediction, where the search would look next.
    pub best: [Prediction; 3],
}

/// A result that is too good to be true, frequently that of an error in the program. A trial nearby with a similar result
/// confirms it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuspiciousResult {
    /// The number of the trial.
    pub trial: u64,
    /// Its result.
    pub value: f64,
    /// The distance to the best of the other results, divided by their range.
    pub ranges: f64,
}

/// The trial to use: under noise the best result is also the luckiest.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recommendation {
    /// The axis of the results.
    pub metric: Axis,
    /// The number of trials that the model was fitted to.
    pub modelled: usize,
    /// The measured point with the best prediction; null if there are too few different points for a choice by the model.
    /// Trials that violate a constraint, and trials that were stopped early, are left out if there are others.
    pub recommended: Option<Prediction>,
    /// The best measured point.
    pub best: Prediction,
    /// Whether the best measured point may owe its place to luck: the model expects it to be worse than `recommended` with a
    /// probability above 95%.
    pub best_may_be_lucky: bool,
    /// Whether there is evidence of noise: trials with the same parameters would have different results. `repeats` in the
    /// configuration then gives a result that one can trust.
    pub is_noisy: bool,
}

/// A point with its prediction.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Prediction {
    /// The values by parameter.
    pub parameters: BTreeMap<String, Cell>,
    /// The trial; null if the point was not tried.
    pub trial: Option<u64>,
    /// Its result; the mean of all trials at the point.
    pub observed: Option<f64>,
    /// The number of trials in that mean; 0 if the point was not tried.
    pub trials: usize,
    /// The standard error of that mean; null with fewer than two trials.
    pub standard_error: Option<f64>,
    /// The median of the prediction.
    pub predicted: f64,
    /// The lower end of its 95% band.
    pub lower: f64,
    /// The upper end.
    pub upper: f64,
}

/// Trials of `rows` for fitting the model of a metric: at most `limit`, the best and others evenly by result.
pub fn modelled(columns: &Columns, rows: &Rows, metric: usize, limit: usize) -> Vec<CompletedTrial> {
    let (metrics, constraints) = (columns.problem().metrics().len(), columns.problem().constraints().len());
    let limit = limit.max(fewest_points(columns.problem().search_space().parameters().len()));
    let mut chosen = sample(columns, rows, metric, limit).rows;
    chosen.sort_unstable();
    let completed = |row: usize| CompletedTrial {
        id: TrialId(columns.number(row)),
        parameters: columns.parameters(row),
        outcome: TrialOutcome::Measured {
            values: (0..metrics)
                .map(|metric| columns.metric(metric, row).unwrap_or(f64::NAN))
                .chain((0..constraints).map(|constraint| columns.constraint(constraint, row).unwrap_or(f64::NAN)))
                .collect(),
            fidelity: if columns.stopped_early(row) { Fidelity::Partial } else { Fidelity::Full },
        },
    };
    chosen.into_iter().map(|row| completed(row as usize)).collect()
}

pub fn importances(insight: &MetricInsight) -> Importances {
    let range = |interval: Interval| [interval.lower, interval.upper];
    let bars = insight.importance.parameters.iter().map(|parameter| Bar {
        parameter: parameter.parameter.clone(),
        total: parameter.total,
        total_range: range(parameter.total_interval),
        first_order: parameter.first_order,
        first_order_range: range(parameter.first_order_interval),
    });
    Importances {
        metric: Axis::of_metric(&insight.metric),
        modelled: insight.points,
        parameters: bars.collect(),
        explained_variance: insight.importance.explained_variance,
        refits: insight.importance.refits,
    }
}

pub fn trust(insight: &MetricInsight) -> Trust {
    let calibration = &insight.calibration;
    let points = &calibration.points;
    let of_estimate = |value: fn(&Estimate) -> f64| points.iter().map(|point| value(&point.predicted)).collect();
    let best = &insight.optimum;
    Trust {
        metric: Axis::of_metric(&insight.metric),
        modelled: insight.points,
        trials: points.iter().map(|point| point.trial.0).collect(),
        observed: points.iter().map(|point| point.observed).collect(),
        predicted: of_estimate(|estimate| estimate.median),
        lower: of_estimate(|estimate| estimate.lower),
        upper: of_estimate(|estimate| estimate.upper),
        nominal_coverage: calibration.coverage.iter().map(|band| band.nominal).collect(),
        observed_coverage: calibration.coverage.iter().map(|band| band.observed).collect(),
        rank_correlation: calibration.rank_correlation,
        log_predictive_density: calibration.log_predictive_density,
        noise_to_signal: insight.noise_to_signal,
        suspicious: insight.suspicious_trials.iter().map(suspicious_result).collect(),
        best: [&best.best_observed, &best.best_measured_by_model, &best.predicted].map(prediction),
    }
}

pub fn recommendation(insight: &MetricInsight) -> Recommendation {
    let optimum = &insight.optimum;
    Recommendation {
        metric: Axis::of_metric(&insight.metric),
        modelled: insight.points,
        recommended: optimum.is_recommended.then(|| prediction(&optimum.best_measured_by_model)),
        best: prediction(&optimum.best_observed),
        best_may_be_lucky: optimum.best_may_be_lucky,
        is_noisy: insight.is_noisy,
    }
}

fn suspicious_result(found: &SuspiciousTrial) -> SuspiciousResult {
    let SuspiciousTrial { trial, value, ranges } = *found;
    SuspiciousResult { trial: trial.0, value, ranges }
}

fn prediction(point: &PredictedPoint) -> Prediction {
    let parameters = point.parameters.iter().map(|(name, value)| (name.clone(), value.clone().into()));
    Prediction {
        parameters: parameters.collect(),
        trial: point.trial.map(|trial| trial.0),
        observed: point.observed,
        trials: point.trials,
        standard_error: point.standard_error,
        predicted: point.predicted.median,
        lower: point.predicted.lower,
        upper: point.predicted.upper,
    }
}
