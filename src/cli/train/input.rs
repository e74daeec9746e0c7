//! Training inputs of `tunesmith train`: arguments, and the search space.
//!
//! The space follows that of Vertex AI's tabular workflow for XGBoost, within ranges that suit small data: 10 to 300 rounds
//! instead of 1 to 20, learning rates from 0.01 instead of 0.0001, depths from 1 to 10, samples from one half.

use std::path::Path;

use anyhow::bail;
use serde_json::{Value, json};

use super::data::Data;
use super::{Algorithm, Goal};
use tunesmith_api::ai_platform::nearest;

/// Metrics of the linear learner.
const LINEAR_METRICS: [&str; 8] = ["accuracy", "loss", "average_loss", "auc", "precision", "recall", "rmse", "mae"];

/// Metrics that are better if larger.
const LARGE: [&str; 9] = ["accuracy", "auc", "aucpr", "map", "ndcg", "pre", "precision", "recall", "cox-cindex"];

/// Metrics that boosted trees report without being asked: the published ones of the objectives used here, and the share of
/// right classes.
const REPORTED: [&str; 4] = ["accuracy", "error", "merror", "rmse"];

/// Metric of the search.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Metric {
    name: String,
    goal: Goal,
}

/// Extent of the search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tuning {
    pub(super) trials: i32,
    pub(super) parallel: u64,
}

impl Metric {
    /// # Errors
    /// If the linear learner does not report the metric.
    pub(super) fn new(
        algorithm: Algorithm,
        data: &Data,
        name: Option<&str>,
        goal: Option<Goal>,
    ) -> anyhow::Result<Self> {
        let name = name.unwrap_or(if data.classes > 0 { "accuracy" } else { "rmse" });
        if algorithm == Algorithm::LinearLearner && !LINEAR_METRICS.contains(&name) {
            let hint = nearest(name, LINEAR_METRICS.into_iter());
            let hint = hint.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
            bail!("--metric {name}: linear_learner reports {}{hint}", LINEAR_METRICS.join(", "));
        }
        let plain = name.split('@').next().unwrap_or_default();
        let usual = if LARGE.contains(&plain) { Goal::Maximize } else { Goal::Minimize };
        Ok(Self { name: name.to_owned(), goal: goal.unwrap_or(usual) })
    }
}

/// Training input of `algorithm`, as in a file for `tunesmith run`. `given` are arguments of the user, which replace
/// others. The models go below `folder`.
pub(super) fn training_input(
    algorithm: Algorithm,
    data: &Data,
    metric: &Metric,
    tuning: Option<Tuning>,
    seed: u64,
    given: &[String],
    folder: &Path,
) -> Value {
    let is_given = |name: &str| {
        given.iter().filter_map(|word| word.strip_prefix("--")).any(|word| word.split('=').next() == Some(name))
    };
    let mut args = vec![
        ("preprocess", None),
        ("training_data_path", Some(data.path.display().to_string())),
        ("seed", Some(seed.to_string())),
    ];
    args.extend(match algorithm {
        Algorithm::BoostedTrees => boosted_trees_arguments(data, metric),
        Algorithm::LinearLearner => {
            let kind = if data.classes > 0 { "classification" } else { "regression" };
            vec![("model_type", Some(kind.to_owned()))]
        }
    });
    let args = args.into_iter().filter(|(name, _)| !is_given(name)).map(|(name, value)| match value {
        Some(value) => format!("--{name}={value}"),
        None => format!("--{name}"),
    });
    let mut input = json!({
        "masterConfig": {"imageUri": algorithm.built_in().image()},
        "args": args.chain(given.iter().cloned()).collect::<Vec<_>>(),
        "jobDir": if tuning.is_some() { folder.join("trials") } else { folder.to_owned() },
    });
    if let Some(Tuning { trials, parallel }) = tuning {
        let space = match algorithm {
            Algorithm::BoostedTrees => boosted_trees_space(),
            Algorithm::LinearLearner => linear_space(),
        };
        let params = space.into_iter().filter(|parameter| !is_given(parameter["parameterName"].as_str().unwrap_or("")));
        input["hyperparameters"] = json!({
            "goal": match metric.goal { Goal::Maximize => "MAXIMIZE", Goal::Minimize => "MINIMIZE" },
            "hyperparameterMetricTag": metric.name,
            "maxTrials": trials,
            "maxParallelTrials": parallel,
            "params": params.collect::<Vec<_>>(),
        });
    }
    input
}

fn boosted_trees_arguments(data: &Data, metric: &Metric) -> Vec<(&'static str, Option<String>)> {
    let objective = match data.classes {
        0 => "reg:squarederror",
        2 => "binary:logistic",
        _ => "multi:softmax",
    };
    let mut args = vec![("objective", Some(objective.to_owned()))];
    if data.classes > 2 {
        args.push(("num_class", Some(data.classes.to_string())));
    }
    if !REPORTED.contains(&metric.name.as_str()) {
        args.push(("eval_metric", Some(metric.name.clone())));
    }
    args
}

fn boosted_trees_space() -> Vec<Value> {
    vec![
        range("num_boost_round", "INTEGER", 10.0, 300.0, LOG),
        range("eta", "DOUBLE", 0.01, 1.0, LOG),
        range("max_depth", "INTEGER", 1.0, 10.0, LINEAR),
        range("min_child_weight", "DOUBLE", 0.0, 10.0, LINEAR),
        range("subsample", "DOUBLE", 0.5, 1.0, LINEAR),
        range("colsample_bytree", "DOUBLE", 0.5, 1.0, LINEAR),
        range("lambda", "DOUBLE", 1e-4, 10.0, LOG),
        range("alpha", "DOUBLE", 1e-4, 1.0, LOG),
    ]
}

fn linear_space() -> Vec<Value> {
    vec![
        range("learning_rate", "DOUBLE", 1e-4, 1.0, LOG),
        range("max_steps", "INTEGER", 100.0, 5000.0, LOG),
        json!({"parameterName": "batch_size", "type": "DISCRETE", "discreteValues": [16, 32, 64, 128, 256]}),
    ]
}

const LINEAR: &str = "UNIT_LINEAR_SCALE";
const LOG: &str = "UNIT_LOG_SCALE";

fn range(name: &str, kind: &str, min: f64, max: f64, scale: &str) -> Value {
    json!({"parameterName": name, "type": kind, "minValue": min, "maxValue": max, "scaleType": scale})
}
