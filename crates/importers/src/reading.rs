//! Reading of a file field by field, so that none is missed.

use serde_json::Value;
use tunesmith_api::ai_platform::{Number, ParameterSpec, ParameterType, ScaleType};

use crate::About;

/// Maximum number of values of a `DISCRETE` parameter.
pub(crate) const MAX_VALUES: usize = 1000;

/// Errors, losses and notes collected while a file is read.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) errors: Vec<About>,
    pub(crate) losses: Vec<About>,
    pub(crate) notes: Vec<String>,
}

impl Findings {
    pub(crate) fn error(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.errors.push((path.into(), text.into()));
    }

    pub(crate) fn loss(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.losses.push((path.into(), text.into()));
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

/// Fields of a mapping that are not read yet.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    path: String,
    left: Vec<(&'a str, &'a Value)>,
}

impl<'a> Fields<'a> {
    /// Fields of `value` at `path`; none, after an error, if it is no mapping.
    pub(crate) fn of(value: &'a Value, path: &str, found: &mut Findings) -> Self {
        let fields = value.as_object();
        if fields.is_none() && !value.is_null() {
            found.error(path, format!("{value} is not a mapping; allowed: fields and their values"));
        }
        let fields = fields.into_iter().flatten();
        let left = fields.map(|(name, value)| (name.as_str(), value)).collect();
        Self { path: path.to_owned(), left }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Takes the field `name`; `None` if it is absent or null.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'a Value> {
        let index = self.left.iter().position(|(known, _)| *known == name)?;
        Some(self.left.swap_remove(index).1).filter(|value| !value.is_null())
    }

    /// Takes the text `name`.
    pub(crate) fn text(&mut self, name: &str, found: &mut Findings) -> Option<&'a str> {
        let value = self.take(name)?;
        let text = value.as_str();
        if text.is_none() {
            found.error(self.path(name), format!("{value} is not a text"));
        }
        text
    }

    /// Takes the number `name`, which may be text: `1e-4` is text in YAML 1.1.
    pub(crate) fn number(&mut self, name: &str, found: &mut Findings) -> Option<f64> {
        let value = self.take(name)?;
        let number = number(value);
        if number.is_none() {
            found.error(self.path(name), format!("{value} is not a number"));
        }
        number
    }

    /// Takes the whole number `name`, from `least` on.
    pub(crate) fn count(&mut self, name: &str, least: u32, found: &mut Findings) -> Option<i32> {
        let value = self.take(name)?;
        let count = value.as_i64().or_else(|| value.as_str()?.parse().ok());
        let count = count.filter(|count| *count >= i64::from(least)).and_then(|count| i32::try_from(count).ok());
        if count.is_none() {
            found.error(self.path(name), format!("{value} is not valid; allowed: whole numbers from {least} on"));
        }
        count
    }

    /// Takes the list `name`.
    pub(crate) fn list(&mut self, name: &str, found: &mut Findings) -> &'a [Value] {
        let Some(value) = self.take(name) else { return &[] };
        let list = value.as_array();
        if list.is_none() {
            found.error(self.path(name), format!("{value} is not a list"));
        }
        list.map_or(&[], Vec::as_slice)
    }

    /// Takes the fields below `name`.
    pub(crate) fn fields(&mut self, name: &str, found: &mut Findings) -> Fields<'a> {
        static NULL: Value = Value::Null;
        Fields::of(self.take(name).unwrap_or(&NULL), &self.path(name), found)
    }

    /// Takes the fields `names`, which are not mapped but change nothing, and notes their values.
    pub(crate) fn noted(&mut self, names: &[&str], found: &mut Findings) {
        for name in names {
            if let Some(value) = self.take(name) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                found.note(format!("{}: {}", self.path(name), text.lines().next().unwrap_or_default()));
            }
        }
    }

    /// Takes the fields `names`, whose loss changes the job as `text` states.
    pub(crate) fn lost(&mut self, names: &[&str], text: &str, found: &mut Findings) {
        for name in names {
            if self.take(name).is_some() {
                found.loss(self.path(name), text);
            }
        }
    }

    /// Refuses what was not taken.
    pub(crate) fn end(self, found: &mut Findings) {
        for (name, _) in &self.left {
            found.error(self.path(name), "has no counterpart here");
        }
    }
}

/// A number, also as text.
pub(crate) fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok()).filter(|number: &f64| number.is_finite())
}

pub(crate) fn double(name: &str, (min, max): (f64, f64), scale: ScaleType) -> ParameterSpec {
    ParameterSpec {
        parameter_name: name.to_owned(),
        parameter_type: ParameterType::Double,
        min_value: Some(Number::from(min)),
        max_value: Some(Number::from(max)),
        scale_type: scale,
        ..ParameterSpec::default()
    }
}

pub(crate) fn integer(name: &str, (min, max): (f64, f64), scale: ScaleType) -> ParameterSpec {
    ParameterSpec { parameter_type: ParameterType::Integer, ..double(name, (min, max), scale) }
}

/// A `DISCRETE` parameter, whose values are sorted.
pub(crate) fn discrete(name: &str, mut values: Vec<f64>, scale: ScaleType) -> ParameterSpec {
    values.sort_by(f64::total_cmp);
    values.dedup();
    ParameterSpec {
        parameter_name: name.to_owned(),
        parameter_type: ParameterType::Discrete,
        discrete_values: values.into_iter().map(Number::from).collect(),
        scale_type: scale,
        ..ParameterSpec::default()
    }
}

pub(crate) fn categorical(name: &str, values: Vec<String>) -> ParameterSpec {
    ParameterSpec {
        parameter_name: name.to_owned(),
        parameter_type: ParameterType::Categorical,
        categorical_values: values,
        ..ParameterSpec::default()
    }
}

/// Multiples of `step` from `min` to `max`; `None` if there are more than [`MAX_VALUES`].
pub(crate) fn steps(min: f64, max: f64, step: f64) -> Option<Vec<f64>> {
    let count = ((max - min) / step + 1e-9).floor();
    if !(step > 0.0 && (0.0..MAX_VALUES as f64).contains(&count)) {
        return None;
    }
    // Decimal steps stay as written: 0.1, not 0.1000000001.
    let round = |value: f64| format!("{value:.12}").parse().unwrap_or(value);
    Some((0..=count as u32).map(|index| round(min + f64::from(index) * step)).collect())
}
