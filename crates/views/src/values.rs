//! Plot axes and table values.

use schemars::JsonSchema;
use serde::Serialize;
use tunesmith_algorithms::problem::{ParameterKind, ParameterSpec, ParameterValue, ScaleType};

use super::{Columns, ViewError};

/// Number of trials from which their axis is logarithmic: most improvements are among the first ones.
const MANY_TRIALS: usize = 5000;

/// Integers below it have halves between them.
const MOST_EXACT: f64 = (1_u64 << 51) as f64;

/// What one axis of a plot shows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Axis {
    /// The name of the parameter or metric, or `trial`.
    pub name: String,
    /// The kind of its values.
    pub kind: AxisKind,
    /// Whether the parameter has a logarithmic scale.
    pub is_log: bool,
    /// The levels of a categorical parameter. Values of the axis are their indices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<String>,
}

/// The kind of the values of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AxisKind {
    /// Real numbers.
    Number,
    /// Integers.
    Integer,
    /// Indices of levels.
    Level,
}

impl Axis {
    /// Axis of `count` trials.
    pub(super) fn of_trials(count: usize) -> Self {
        let is_log = count >= MANY_TRIALS;
        Self { name: "trial".to_owned(), kind: AxisKind::Integer, is_log, levels: Vec::new() }
    }

    pub(super) fn of_metric(name: &str) -> Self {
        Self { name: name.to_owned(), kind: AxisKind::Number, is_log: false, levels: Vec::new() }
    }

    pub(super) fn of_parameter(spec: &ParameterSpec) -> Self {
        let (kind, scale, levels) = match spec.kind() {
            ParameterKind::Double { scale, .. } | ParameterKind::Discrete { scale, .. } => {
                (AxisKind::Number, *scale, Vec::new())
            }
            ParameterKind::Integer { scale, .. } => (AxisKind::Integer, *scale, Vec::new()),
            ParameterKind::Categorical { values } => (AxisKind::Level, ScaleType::UnitLinear, values.clone()),
        };
        Self { name: spec.name().to_owned(), kind, is_log: scale == ScaleType::UnitLog, levels }
    }

    /// Edges of at most `most` bins that contain the finite `values`, increasing; one more than bins. Categorical axes
    /// have one bin per level.
    pub(super) fn edges(&self, values: impl Iterator<Item = f64>, most: usize) -> Vec<f64> {
        if self.kind == AxisKind::Level {
            return (0..=self.levels.len()).map(|level| level as f64 - 0.5).collect();
        }
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let is_log = self.is_log && low > 0.0;
        let of_integers = (self.kind == AxisKind::Integer).then(|| integer_edges(low, high, most, is_log)).flatten();
        of_integers.unwrap_or_else(|| even_edges(low, high, most, is_log))
    }
}

/// Edges between integers from `low` to `high`, so that no bin is without one; `None` if there is nothing between
/// adjacent integers.
fn integer_edges(low: f64, high: f64, most: usize, is_log: bool) -> Option<Vec<f64>> {
    if low > high || low.abs().max(high.abs()) >= MOST_EXACT {
        return None;
    }
    let (first, last) = (low.floor() - 0.5, high.ceil() + 0.5);
    let mut edges = match is_log {
        true => even_edges(first, last, most, true).into_iter().map(|edge| (edge - 0.5).round() + 0.5).collect(),
        false => {
            let step = ((last - first) / most.max(1) as f64).ceil();
            let bins = ((last - first) / step).ceil() as usize;
            (0..=bins).map(|bin| (first + bin as f64 * step).min(last)).collect::<Vec<f64>>()
        }
    };
    edges.dedup();
    Some(edges)
}

/// Edges of `bins` bins from `low` to `high`, of equal width or ratio. A single value has one bin around it.
pub(super) fn even_edges(low: f64, high: f64, bins: usize, is_log: bool) -> Vec<f64> {
    if low > high {
        return vec![0.0, 1.0];
    }
    if low == high || bins < 2 {
        let margin = (low.abs() * 1e-3).max(1e-9);
        return vec![(low - margin).max(f64::MIN), (high + margin).min(f64::MAX)];
    }
    let at = |share: f64| {
        if is_log { (low.ln() + share * (high.ln() - low.ln())).exp() } else { low * (1.0 - share) + high * share }
    };
    let mut edges: Vec<f64> = (0..=bins).map(|bin| at(bin as f64 / bins as f64)).collect();
    // The ends are exact, so that every value is within.
    edges[0] = low;
    edges[bins] = high;
    edges.iter_mut().for_each(|edge| *edge = edge.clamp(low, high));
    edges.sort_by(f64::total_cmp);
    // Adjacent numbers have none between them.
    edges.dedup();
    edges
}

/// Bin of `value`; values outside `edges` belong to the first or last bin.
pub(super) fn bin(edges: &[f64], value: f64) -> usize {
    edges.partition_point(|edge| *edge <= value).saturating_sub(1).min(edges.len().saturating_sub(2))
}

/// A value of a table.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Cell {
    /// A number; null if it is not finite.
    Number(f64),
    /// An integer.
    Integer(i64),
    /// A text.
    Text(String),
}

impl From<ParameterValue> for Cell {
    fn from(value: ParameterValue) -> Self {
        match value {
            ParameterValue::Double(value) | ParameterValue::Discrete(value) => Self::Number(value),
            ParameterValue::Integer(value) => Self::Integer(value),
            ParameterValue::Categorical(value) => Self::Text(value),
        }
    }
}

impl Columns {
    /// Metric index by name; 0 if the name is empty.
    ///
    /// # Errors
    /// If there is none.
    pub fn metric_named(&self, name: &str, field: &'static str) -> Result<usize, ViewError> {
        let metrics = self.problem().metrics();
        let found = metrics.iter().position(|metric| name.is_empty() || metric.name == name);
        found.ok_or_else(|| {
            let names: Vec<String> = metrics.iter().map(|metric| format!("{:?}", metric.name)).collect();
            ViewError {
                field,
                message: format!("{name:?} is not a metric of the study; allowed: {}", names.join(", ")),
            }
        })
    }

    /// Parameter index by name; `default` if the name is empty.
    ///
    /// # Errors
    /// If there is none.
    pub fn parameter_named(&self, name: &str, default: usize, field: &'static str) -> Result<usize, ViewError> {
        let parameters = self.problem().search_space().parameters();
        let found = match name {
            "" => Some(default).filter(|index| *index < parameters.len()),
            name => parameters.iter().position(|parameter| parameter.name() == name),
        };
        found.ok_or_else(|| {
            let names: Vec<String> = parameters.iter().take(20).map(|spec| format!("{:?}", spec.name())).collect();
            let more = if parameters.len() > names.len() { ", and others" } else { "" };
            let message = format!("{name:?} is not a parameter of the study; allowed: {}{more}", names.join(", "));
            ViewError { field, message }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bin_of_integers_contains_one() {
        let axis = |is_log| Axis { name: "i".to_owned(), kind: AxisKind::Integer, is_log, levels: Vec::new() };
        let ends = |low: f64, high: f64| [low, high].into_iter();
        assert_eq!(axis(false).edges(ends(1.0, 4.0), 40), [0.5, 1.5, 2.5, 3.5, 4.5]);
        assert_eq!(axis(false).edges(ends(1.0, 10.0), 4), [0.5, 3.5, 6.5, 9.5, 10.5]);
        assert_eq!(axis(false).edges(ends(7.0, 7.0), 4), [6.5, 7.5]);
        for (is_log, low, high) in [(true, 1.0, 20_000.0), (true, 8.0, 512.0), (false, -3.0, 1000.0)] {
            let edges = axis(is_log).edges(ends(low, high), 40);
            assert!(edges.len() <= 41 && edges[0] == low - 0.5 && edges[edges.len() - 1] == high + 0.5, "{edges:?}");
            assert!(edges.windows(2).all(|pair| pair[1] - pair[0] >= 1.0 && pair[0].fract().abs() == 0.5), "{edges:?}");
        }
        let far = [9.007_199_254_740_991e15, 9.007_199_254_740_993e15];
        assert!(axis(false).edges(far.into_iter(), 4).windows(2).all(|pair| pair[0] < pair[1]));
    }
}
