//! Predictions along each parameter, through the best measured point.

use nalgebra::DMatrix;
use serde::Serialize;

use super::model::InsightModel;
use super::value::{Estimate, serialize_value};
use crate::encoding::FeatureKind;
use crate::problem::ParameterValue;

/// Number of points of a slice along a parameter with more values, not counting the best point's own value. A guess.
const RESOLUTION: usize = 33;

/// Predictions for varying one parameter while the others stay at the best measured point.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Slice {
    /// Name of the varying parameter.
    pub parameter: String,
    /// Whether its values have an order; false for a categorical parameter.
    pub ordered: bool,
    /// Predictions by increasing value (levels by name), evenly spaced on the parameter's scale. Contains all values if
    /// there are at most 33, and always the best point's own value.
    pub points: Vec<SlicePoint>,
}

/// Point of a slice.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlicePoint {
    /// Value of the parameter.
    #[serde(serialize_with = "serialize_value")]
    pub value: ParameterValue,
    /// Whether it is the value of the best measured point.
    pub is_best: bool,
    /// Prediction at this value.
    pub predicted: Estimate,
}

impl InsightModel {
    /// One slice per parameter with more than one value, by name.
    pub fn slices(&self) -> Vec<Slice> {
        let best = &self.rows[self.best_row()].point;
        (0..self.encoding.dimensions()).map(|feature| self.slice(feature, best)).collect()
    }

    fn slice(&self, feature: usize, best: &[f64]) -> Slice {
        let spec = &self.encoding.features()[feature];
        let even = |count: usize| (0..count).map(move |step| step as f64 / (count - 1) as f64);
        let mut coordinates: Vec<f64> = match &spec.kind {
            FeatureKind::Continuous | FeatureKind::LargeGrid => even(RESOLUTION).collect(),
            FeatureKind::Grid { points } if points.len() > RESOLUTION => even(RESOLUTION).collect(),
            FeatureKind::Grid { points } => points.clone(),
            FeatureKind::Categorical { levels } => (0..*levels).map(|level| level as f64).collect(),
        };
        let moved = |u: f64| -> Vec<f64> {
            let mut point = best.to_vec();
            point[feature] = u;
            // The other coordinates are already feasible and do not change.
            self.encoding.snap(&mut point);
            point
        };
        coordinates.iter_mut().for_each(|u| *u = moved(*u)[feature]);
        coordinates.push(best[feature]);
        coordinates.sort_by(f64::total_cmp);
        coordinates.dedup();
        let points: Vec<Vec<f64>> = coordinates.iter().map(|u| moved(*u)).collect();
        let matrix = DMatrix::from_fn(points.len(), best.len(), |row, j| points[row][j]);
        let predictions = self.posterior.predict(&matrix);
        let point = |(row, point): (usize, &Vec<f64>)| {
            let predicted =
                Estimate::new(&self.warp, self.goal, predictions.means[(0, row)], predictions.deviations[row]);
            let value = self.parameters(point).remove(&spec.name)?;
            Some(SlicePoint { value, is_best: point[feature] == best[feature], predicted })
        };
        Slice {
            parameter: spec.name.clone(),
            ordered: !spec.kind.is_categorical(),
            points: points.iter().enumerate().filter_map(point).collect(),
        }
    }
}
