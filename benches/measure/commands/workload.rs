//! The study of a measured server, and the loss of its trials.

use serde_json::{Value, json};

/// An algorithm that computes next to nothing, so that the service itself is measured.
pub(super) const FAST_ALGORITHM: &str = "RANDOM_SEARCH";

/// The algorithm that has a model.
pub(super) const MODEL: &str = "GAUSSIAN_PROCESS_BANDIT";

/// The study that is searched: six parameters of all kinds.
pub(super) fn study_config(algorithm: &str) -> Value {
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
pub(super) fn loss(numbers: &[f64], category: &str) -> f64 {
    let squares = numbers.iter().zip([5.0, 5.0, 0.5, 32.0, 64.0]).map(|(value, scale)| (value / scale - 0.3).powi(2));
    squares.sum::<f64>() + if category == "y" { 0.0 } else { 0.2 }
}
