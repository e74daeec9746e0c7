//! Distributions of parameters, as JSON text: their form, and whether two of them may have one name in a study.

use crate::json::{Json, JsonError};

/// Difference that rules out one name in a study. Ranges and steps may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Difference {
    Class,
    Scale,
    Choices,
}

impl Difference {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Class => "another class",
            Self::Scale => "another scale (log)",
            Self::Choices => "other choices, or the same in another order",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DistributionError {
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("not a distribution: {0}")]
    Form(&'static str),
}

#[derive(Debug)]
pub(crate) struct Distribution<'a> {
    class: &'a str,
    is_log: bool,
    choices: Option<Json<'a>>,
}

impl<'a> Distribution<'a> {
    /// Parses `{"name": CLASS, "attributes": {...}}`.
    ///
    /// # Errors
    /// [`DistributionError`] if `text` has another form.
    pub(crate) fn parse(text: &'a str) -> Result<Self, DistributionError> {
        let json = Json::parse(text)?;
        let Some(Json::Text(class)) = json.member("name") else {
            return Err(DistributionError::Form("its name is missing"));
        };
        let Some(attributes @ Json::Object(_)) = json.member("attributes") else {
            return Err(DistributionError::Form("its attributes are missing"));
        };
        let choices = match attributes.member("choices") {
            None => None,
            Some(choices @ Json::List(_)) => Some(choices.clone()),
            Some(_) => return Err(DistributionError::Form("its choices are no list")),
        };
        let is_log = match attributes.member("log") {
            None => false,
            Some(Json::Bool(is_log)) => *is_log,
            Some(_) => return Err(DistributionError::Form("log is neither true nor false")),
        };
        Ok(Self { class, is_log, choices })
    }

    /// Difference to `other` that rules out one name in a study, if any.
    pub(crate) fn difference(&self, other: &Distribution<'_>) -> Option<Difference> {
        if self.class != other.class {
            return Some(Difference::Class);
        }
        if self.is_log != other.is_log {
            return Some(Difference::Scale);
        }
        let same_choices = match (&self.choices, &other.choices) {
            (Some(one), Some(two)) => one.equals(two),
            (None, None) => true,
            _ => false,
        };
        (!same_choices).then_some(Difference::Choices)
    }
}

#[cfg(test)]
mod tests {
    use super::{Difference, Distribution, DistributionError};

    fn float(low: f64, log: bool) -> String {
        format!(
            r#"{{"name": "FloatDistribution", "attributes": {{"step": null, "low": {low}, "high": 9.0, "log": {log}}}}}"#
        )
    }

    fn choices(list: &str) -> String {
        format!(r#"{{"name": "CategoricalDistribution", "attributes": {{"choices": {list}}}}}"#)
    }

    #[test]
    fn class_scale_and_choices_must_agree() {
        let difference =
            |one: &str, two: &str| Distribution::parse(one).unwrap().difference(&Distribution::parse(two).unwrap());
        assert_eq!(difference(&float(1.0, false), &float(2.0, false)), None);
        assert_eq!(difference(&float(1.0, false), &float(1.0, true)), Some(Difference::Scale));
        assert_eq!(difference(&float(1.0, false), &choices("[1]")), Some(Difference::Class));
        assert_eq!(difference(&choices("[NaN, null]"), &choices("[NaN, null]")), None);
        assert_eq!(difference(&choices(r#"["a", "b"]"#), &choices(r#"["b", "a"]"#)), Some(Difference::Choices));
        assert_eq!(difference(&choices(r#"["a"]"#), &choices(r#"["a", "b"]"#)), Some(Difference::Choices));
    }

    #[test]
    fn other_json_is_no_distribution() {
        for (text, reason) in [
            ("{}", "its name is missing"),
            (r#"{"name": "X"}"#, "its attributes are missing"),
            (r#"{"name": "X", "attributes": {"choices": 1}}"#, "its choices are no list"),
            (r#"{"name": "X", "attributes": {"log": 1}}"#, "log is neither true nor false"),
        ] {
            assert_eq!(Distribution::parse(text).unwrap_err(), DistributionError::Form(reason), "{text}");
        }
        assert!(matches!(Distribution::parse("{"), Err(DistributionError::Json(_))));
    }
}
