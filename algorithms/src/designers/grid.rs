//! Grid search: every combination of values, once.
//!
//! The points are numbered ([`PointNumbering`]), the last parameter by name varying fastest, and never listed in
//! memory. The values of conditional parameters are combined only while they are active, and vary faster than their
//! parent. Trial number `t` gets point `t - 1`, independent of the results of other trials; if that point is already
//! used (by a user-supplied trial, or one copied from another study), the next unused one, cyclically.

use std::collections::BTreeMap;

use super::UsedPoints;
use crate::designer::{Capabilities, Designer, DesignerError, History, PointDesigner, SuggestRequest};
use crate::encoding::{Encoding, EncodingError, PointNumbering};
use crate::interruption::Interruption;
use crate::problem::{
    AlgorithmName, Origin, ParameterKind, ParameterValue, ParameterValues, ProblemStatement, TrialSuggestion,
};

/// Maximum number of points of a double; they are listed in memory. A guess, far above practical needs.
pub const MAX_DOUBLE_RESOLUTION: u32 = 1 << 20;

const ALGORITHM: &str = "grid search";

/// Designer that suggests every combination of values, in order.
#[derive(Debug, Clone)]
pub struct GridSearch {
    encoding: Encoding,
    /// One per feature.
    axes: Vec<Axis>,
    numbering: PointNumbering,
    accepts_doubles: bool,
}

#[derive(Debug, Clone)]
enum Axis {
    Every,
    /// Given values of a double, strictly increasing.
    Points(Vec<f64>),
}

impl GridSearch {
    /// Creates the grid over `problem`'s space, with `double_resolution[name]` points for each double `name`: evenly
    /// spaced on its scale, both ends included. A single point is the middle. Doubles too narrow for distinct points
    /// have fewer.
    ///
    /// # Errors
    /// [`DesignerError::Unsupported`] for a double without resolution, and for a resolution that is 0, above
    /// [`MAX_DOUBLE_RESOLUTION`], or of a parameter that is not a double.
    pub fn new(problem: &ProblemStatement, double_resolution: &BTreeMap<String, u32>) -> Result<Self, DesignerError> {
        let unsupported = |reason: String| DesignerError::Unsupported { algorithm: ALGORITHM, reason };
        let encoding = Encoding::new(problem.search_space());
        let is_double = |name: &str| {
            let mut parameters = problem.search_space().parameters().iter();
            parameters.any(|spec| spec.name() == name && matches!(spec.kind(), ParameterKind::Double { .. }))
        };
        if let Some(name) = double_resolution.keys().find(|name| !is_double(name)) {
            return Err(unsupported(format!("{name:?} has a resolution but is not a parameter of kind double")));
        }
        let mut axes = Vec::with_capacity(encoding.dimensions());
        let mut radices = Vec::with_capacity(encoding.dimensions());
        for (index, feature) in encoding.features().iter().enumerate() {
            let name = &feature.name;
            if let (Some(cardinality), false) = (encoding.feature_cardinality(index), is_double(name)) {
                radices.push(cardinality);
                axes.push(Axis::Every);
                continue;
            }
            let resolution = match double_resolution.get(name) {
                None => return Err(unsupported(format!("parameter {name:?} is a double and has no resolution"))),
                Some(&count) if !(1..=MAX_DOUBLE_RESOLUTION).contains(&count) => {
                    let limits = format!("not between 1 and {MAX_DOUBLE_RESOLUTION}");
                    return Err(unsupported(format!("the resolution {count} of parameter {name:?} is {limits}")));
                }
                Some(&count) => count,
            };
            let points = double_points(&encoding, index, resolution);
            radices.push(points.len() as u128);
            axes.push(Axis::Points(points));
        }
        let accepts_doubles = !double_resolution.is_empty();
        let numbering = encoding.grid_numbering(radices);
        Ok(Self { encoding, axes, numbering, accepts_doubles })
    }

    /// Number of points; `None` from `u128::MAX` on.
    pub fn size(&self) -> Option<u128> {
        self.numbering.size()
    }

    fn point(&self, index: u128) -> ParameterValues {
        let digits = self.numbering.ordinals(index);
        let mut values = self.encoding.point_at(&digits);
        for ((feature, axis), &digit) in self.encoding.features().iter().zip(&self.axes).zip(&digits) {
            if let (Axis::Points(points), Some(value)) = (axis, values.get_mut(&feature.name)) {
                *value = ParameterValue::Double(points[digit as usize]);
            }
        }
        values
    }

    /// Number of a point; `None` if it is not on the grid or its number is above `u128::MAX`, which no trial reaches.
    fn index(&self, ordinals: &[u64], values: &ParameterValues) -> Option<u128> {
        let mut digits = ordinals.to_vec();
        for ((feature, axis), digit) in self.encoding.features().iter().zip(&self.axes).zip(&mut digits) {
            if let (Axis::Points(points), Some(ParameterValue::Double(value))) = (axis, values.get(&feature.name)) {
                *digit = points.binary_search_by(|point| point.total_cmp(value)).ok()? as u64;
            }
        }
        self.numbering.index(&digits)
    }
}

impl Designer for GridSearch {
    fn capabilities(&self) -> Capabilities {
        Capabilities { doubles: self.accepts_doubles, ..Capabilities::any_problem(false) }
    }

    fn suggest_until(
        &self,
        history: History<'_>,
        request: SuggestRequest,
        _: &Interruption,
    ) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let mut used = UsedPoints::default();
        used.add_history(history, |parameters| self.number(parameters))?;
        Ok(self.suggest_unused(&mut used, request))
    }

    fn by_points(&self) -> Option<&dyn PointDesigner> {
        Some(self)
    }
}

impl PointDesigner for GridSearch {
    fn is_finite(&self) -> bool {
        true
    }

    fn number(&self, parameters: &ParameterValues) -> Result<Option<u128>, EncodingError> {
        Ok(self.index(self.encoding.key(parameters)?.ordinals(), parameters))
    }

    fn suggest_unused(&self, used: &mut UsedPoints, request: SuggestRequest) -> Vec<TrialSuggestion> {
        let size = self.numbering.size().unwrap_or(u128::MAX);
        let mut suggestions = Vec::new();
        let mut index = u128::from(request.first_trial_id.0.saturating_sub(1)) % size;
        while suggestions.len() < request.count.get() && (used.len() as u128) < size {
            if !used.contains(index) {
                used.insert(index);
                suggestions.push(TrialSuggestion {
                    parameters: self.point(index),
                    origin: Origin::of(AlgorithmName::GridSearch),
                });
            }
            index = (index + 1) % size;
        }
        suggestions
    }
}

/// `resolution` values of the double with feature index `index`, evenly spaced on its scale and strictly increasing.
fn double_points(encoding: &Encoding, index: usize, resolution: u32) -> Vec<f64> {
    let mut points = Vec::with_capacity(resolution as usize);
    for place in 0..resolution {
        let coordinate = if resolution == 1 { 0.5 } else { f64::from(place) / f64::from(resolution - 1) };
        if let ParameterValue::Double(value) = encoding.value(index, coordinate) {
            points.push(value);
        }
    }
    points.dedup();
    points
}

#[cfg(test)]
mod tests;
