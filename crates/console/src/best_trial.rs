//! Parameters of the best trial of a wide study, one per line, with their positions in their ranges.

use std::fmt;

use askama::filters::HtmlSafe;

use super::format::{Number, Value};
use tunesmith_algorithms::problem::{ParameterKind, ParameterSpec, ParameterValue, ScaleType};
use tunesmith_domain::{Study, Trial};

/// Number of parameters from which a table with one row per trial is too wide.
pub(crate) const WIDE: usize = 30;

pub(crate) struct ParameterLine {
    pub(crate) name: String,
    pub(crate) value: Value,
    pub(crate) low: Option<Number>,
    pub(crate) high: Option<Number>,
    pub(crate) position: Option<Position>,
}

/// Position in a range on its scale, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Position(f64);

impl HtmlSafe for Position {}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (percent, x) = ((self.0 * 100.0).round(), 4.0 + self.0 * 112.0);
        write!(
            f,
            r#"<svg class="range" viewBox="0 0 120 12" width="120" height="12" role="img" aria-label="{percent} % of the range"><path d="M4 6H116"/><circle cx="{x:.1}" cy="6" r="4"/></svg>"#
        )
    }
}

/// Lines of the parameters that `trial` has, in the order of the configuration.
pub(crate) fn lines(study: &Study, trial: &Trial) -> Vec<ParameterLine> {
    let parameters = study.problem.search_space().parameters().iter();
    let line = |spec: &ParameterSpec| {
        let value = trial.parameters.get(spec.name())?;
        let range = range(spec.kind());
        Some(ParameterLine {
            name: spec.name().to_owned(),
            value: Value(value.clone()),
            low: range.map(|(low, _, _)| Number(low)),
            high: range.map(|(_, high, _)| Number(high)),
            position: range.and_then(|range| position(value, range)).map(Position),
        })
    };
    parameters.filter_map(line).collect()
}

/// Ends and scale of a numeric range.
fn range(kind: &ParameterKind) -> Option<(f64, f64, ScaleType)> {
    match kind {
        ParameterKind::Double { min, max, scale } => Some((*min, *max, *scale)),
        ParameterKind::Integer { min, max, scale } => Some((*min as f64, *max as f64, *scale)),
        ParameterKind::Discrete { values, scale } => Some((*values.first()?, *values.last()?, *scale)),
        ParameterKind::Categorical { .. } => None,
    }
}

/// Share of the range below `value`; `None` for a range of one point.
fn position(value: &ParameterValue, (low, high, scale): (f64, f64, ScaleType)) -> Option<f64> {
    let value = match value {
        ParameterValue::Double(value) | ParameterValue::Discrete(value) => *value,
        ParameterValue::Integer(value) => *value as f64,
        ParameterValue::Categorical(_) => return None,
    };
    let share = |from: f64, to: f64, at: f64| (at / 2.0 - from / 2.0) / (to / 2.0 - from / 2.0);
    let position = match scale {
        ScaleType::UnitLinear => share(low, high, value),
        ScaleType::UnitLog => share(low.ln(), high.ln(), value.ln()),
        ScaleType::UnitReverseLog => 1.0 - share(low.ln(), high.ln(), (low + high - value).ln()),
    };
    position.is_finite().then(|| position.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_follows_the_scale() {
        let rounded = |share: f64| (share * 1e9).round() / 1e9;
        let at = |value, scale| position(&ParameterValue::Double(value), (0.01, 100.0, scale)).map(rounded);
        assert_eq!(at(1.0, ScaleType::UnitLog), Some(0.5));
        assert_eq!(at(100.0, ScaleType::UnitLinear), Some(1.0));
        assert_eq!(at(99.01, ScaleType::UnitReverseLog), Some(0.5));
        assert_eq!(position(&ParameterValue::Integer(3), (3.0, 3.0, ScaleType::UnitLinear)), None);
        let wide = (f64::MIN, f64::MAX, ScaleType::UnitLinear);
        assert_eq!(position(&ParameterValue::Double(0.0), wide), Some(0.5));
        assert_eq!(position(&ParameterValue::Categorical("a".to_owned()), wide), None);
    }

    #[test]
    fn drawing_states_the_position() {
        let drawn = Position(0.5).to_string();
        assert!(drawn.contains("50 % of the range") && drawn.contains("cx=\"60.0\""), "{drawn}");
    }
}
