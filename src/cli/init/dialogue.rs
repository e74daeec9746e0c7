//! Dialogue on standard error and standard input.

use std::io::{self, BufRead, Write};

use anyhow::bail;
use tunesmith_algorithms::rounded::Rounded;

use tunesmith_algorithms::problem::Goal;
use tunesmith_config::proposal::{Condition, Parameter, Scale, Values, parsed};

pub(super) struct Dialogue<'a> {
    input: &'a mut dyn BufRead,
}

impl<'a> Dialogue<'a> {
    pub(super) fn new(input: &'a mut dyn BufRead) -> Self {
        Self { input }
    }

    /// Asks for a text until it is not empty. An empty answer selects the default.
    ///
    /// # Errors
    /// If the input has ended.
    pub(super) fn text(&mut self, question: &str, default: Option<&str>) -> anyhow::Result<String> {
        loop {
            let shown = default.map(|default| format!(" [{default}]")).unwrap_or_default();
            let answer = self.answer(&format!("{question}{shown}: "))?;
            match (answer.is_empty(), default) {
                (false, _) => return Ok(answer),
                (true, Some(default)) => return Ok(default.to_owned()),
                (true, None) => {}
            }
        }
    }

    /// Asks for the goal of `metric`.
    ///
    /// # Errors
    /// If the input has ended.
    pub(super) fn goal(&mut self, metric: &str, usual: Goal) -> anyhow::Result<Goal> {
        let default = if usual == Goal::Maximize { "maximize" } else { "minimize" };
        loop {
            let answer = self.text(&format!("maximize or minimize {metric}"), Some(default))?.to_ascii_lowercase();
            if answer.len() >= 2 && "maximize".starts_with(&answer) {
                return Ok(Goal::Maximize);
            }
            if answer.len() >= 2 && "minimize".starts_with(&answer) {
                return Ok(Goal::Minimize);
            }
        }
    }

    /// Proposes a parameter; accepts it, other values, or `no`.
    ///
    /// # Errors
    /// If the input has ended.
    pub(super) fn confirm(&mut self, proposed: Parameter) -> anyhow::Result<Option<Parameter>> {
        let question = format!("--{} ({}), \"no\" to leave it out", proposed.name, proposed.comment);
        loop {
            let answer = self.text(&question, Some(&values_text(&proposed.values)))?;
            if answer.eq_ignore_ascii_case("no") {
                return Ok(None);
            }
            match parse_values(&answer) {
                Ok(values) => return Ok(Some(Parameter { values, ..proposed })),
                Err(reason) => self.say(&reason)?,
            }
        }
    }

    /// Asks for another parameter; `None` if there is none. The first one is required.
    ///
    /// # Errors
    /// If the input has ended.
    pub(super) fn parameter(&mut self, is_first: bool) -> anyhow::Result<Option<Parameter>> {
        let question = if is_first { "name of a parameter: " } else { "name of another parameter, empty if none: " };
        let name = loop {
            let name = self.answer(question)?.trim_start_matches("--").to_owned();
            if !name.is_empty() || !is_first {
                break name;
            }
        };
        if name.is_empty() {
            return Ok(None);
        }
        loop {
            let answer =
                self.text(&format!("values of {name}, such as \"0.001 to 1 log\", \"1 to 8\" or \"adam, sgd\""), None)?;
            match parse_values(&answer) {
                Ok(values) => return Ok(Some(Parameter::new(&name, values))),
                Err(reason) => self.say(&reason)?,
            }
        }
    }

    /// Confirms detected conditions and asks for others.
    ///
    /// # Errors
    /// If the input has ended.
    pub(super) fn conditions(&mut self, parameters: &mut [Parameter]) -> anyhow::Result<()> {
        for parameter in parameters.iter_mut() {
            let Some(Condition { parent, values }) = &parameter.condition else { continue };
            let question = format!("--{} only if {parent} is {}, yes or no", parameter.name, values.join(" or "));
            if self.text(&question, Some("yes"))?.to_ascii_lowercase().starts_with('n') {
                parameter.condition = None;
            }
        }
        let can_decide = |parameter: &Parameter| !matches!(parameter.values, Values::Double { .. });
        if parameters.len() < 2 || !parameters.iter().any(can_decide) {
            return Ok(());
        }
        loop {
            let answer = self.answer(
                "a parameter that needs a value of another, such as \"momentum if optimizer=sgd\", empty if none: ",
            )?;
            if answer.is_empty() {
                return Ok(());
            }
            match parsed(&answer, parameters) {
                Ok((name, condition)) => {
                    let child = parameters.iter_mut().find(|parameter| parameter.name == name);
                    child.into_iter().for_each(|child| child.condition = Some(condition.clone()));
                }
                Err(reason) => self.say(&reason)?,
            }
        }
    }

    /// Asks for a positive number until it is valid.
    ///
    /// # Errors
    /// If the input has ended.
    pub(super) fn count(&mut self, question: &str, default: u32) -> anyhow::Result<u32> {
        loop {
            let answer = self.text(question, Some(&default.to_string()))?;
            match answer.parse() {
                Ok(count @ 1..) => return Ok(count),
                _ => self.say(&format!("{answer:?}: expected a number from 1"))?,
            }
        }
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        writeln!(io::stderr(), "{text}")
    }

    fn answer(&mut self, question: &str) -> anyhow::Result<String> {
        let mut errors = io::stderr().lock();
        write!(errors, "{question}")?;
        errors.flush()?;
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            writeln!(errors)?;
            bail!("the input ended before all questions were answered");
        }
        Ok(line.trim().to_owned())
    }
}

/// Formats values for [`parse_values`].
fn values_text(values: &Values) -> String {
    let scaled = |min: String, max: String, scale: Scale| match scale {
        Scale::Linear => format!("{min} to {max}"),
        Scale::Log => format!("{min} to {max} log"),
        Scale::ReverseLog => format!("{min} to {max} reverse log"),
    };
    match values {
        // A decimal point distinguishes a double from an integer.
        Values::Double { min, max, scale } => scaled(format!("{min:?}"), format!("{max:?}"), *scale),
        Values::Integer { min, max, scale } => scaled(min.to_string(), max.to_string(), *scale),
        Values::Discrete(values) => {
            values.iter().map(|value| Rounded(*value).to_string()).collect::<Vec<_>>().join(", ")
        }
        Values::Categorical(values) => values.join(", "),
    }
}

/// Parses `MIN to MAX`, optionally followed by `log` or `reverse log`, or comma-separated values. Bounds without a
/// decimal point or exponent are integers.
fn parse_values(text: &str) -> Result<Values, String> {
    let expected =
        || format!("{text:?}: expected a range such as \"0.001 to 1 log\", or several values separated by commas");
    if let Some((min, rest)) = text.split_once(" to ") {
        let mut words = rest.split_whitespace();
        let max = words.next().ok_or_else(expected)?;
        let scale = match words.collect::<Vec<_>>()[..] {
            [] | ["linear"] => Scale::Linear,
            ["log"] => Scale::Log,
            ["reverse", "log"] => Scale::ReverseLog,
            _ => return Err(expected()),
        };
        let min = min.trim();
        if let (Ok(min), Ok(max)) = (min.parse::<i64>(), max.parse::<i64>()) {
            check_range(min as f64, max as f64, scale)?;
            return Ok(Values::Integer { min, max, scale });
        }
        let (Ok(min), Ok(max)) = (min.parse::<f64>(), max.parse::<f64>()) else { return Err(expected()) };
        check_range(min, max, scale)?;
        return Ok(Values::Double { min, max, scale });
    }
    let mut words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    if words.len() < 2 {
        return Err(expected());
    }
    let numbers: Option<Vec<f64>> =
        words.iter().map(|word| word.parse().ok().filter(|n: &f64| n.is_finite())).collect();
    if let Some(mut numbers) = numbers {
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        return Ok(Values::Discrete(numbers));
    }
    let mut seen = std::collections::BTreeSet::new();
    words.retain(|word| seen.insert(*word));
    Ok(Values::Categorical(words.into_iter().map(str::to_owned).collect()))
}

fn check_range(min: f64, max: f64, scale: Scale) -> Result<(), String> {
    if !(min.is_finite() && max.is_finite() && min <= max) {
        return Err(format!("{min} to {max}: the second number must not be below the first"));
    }
    if scale != Scale::Linear && min <= 0.0 {
        return Err(format!("{min} to {max}: a logarithmic scale needs numbers above 0"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_values_are_parsed_to_the_same_values() {
        for values in [
            Values::Double { min: 1.0, max: 1e7, scale: Scale::Log },
            Values::Double { min: -0.5, max: 0.999, scale: Scale::Linear },
            Values::Double { min: 0.5, max: 0.999, scale: Scale::ReverseLog },
            Values::Integer { min: -3, max: 8, scale: Scale::Linear },
            Values::Discrete(vec![8.0, 16.0]),
            Values::Categorical(vec!["adam".to_owned(), "sgd".to_owned()]),
        ] {
            assert_eq!(parse_values(&values_text(&values)), Ok(values));
        }
        for (text, part) in [
            ("5", "expected a range"),
            ("a to b", "expected a range"),
            ("2 to 1", "must not be below"),
            ("0 to 1 log", "needs numbers above 0"),
            ("1 to 2 exp", "expected a range"),
        ] {
            assert!(parse_values(text).unwrap_err().contains(part), "{text}");
        }
    }

    #[test]
    fn answers_are_asked_again_until_they_are_valid() {
        let mut input = io::Cursor::new("\nmaxi\nx\n1 to 2\nno\n--depth\nfoo\n1 to 8\n\n");
        let mut dialogue = Dialogue::new(&mut input);
        assert_eq!(dialogue.text("metric", Some("accuracy")).unwrap(), "accuracy");
        assert_eq!(dialogue.goal("accuracy", Goal::Minimize).unwrap(), Goal::Maximize);
        let proposed = Parameter {
            comment: "default 0.5".to_owned(),
            ..Parameter::new("rate", Values::Double { min: 0.1, max: 1.0, scale: Scale::Log })
        };
        let confirmed = dialogue.confirm(proposed.clone()).unwrap().unwrap();
        assert_eq!(confirmed.values, Values::Integer { min: 1, max: 2, scale: Scale::Linear });
        assert_eq!(dialogue.confirm(proposed).unwrap(), None);
        let added = dialogue.parameter(true).unwrap().unwrap();
        assert_eq!(
            (added.name.as_str(), added.values),
            ("depth", Values::Integer { min: 1, max: 8, scale: Scale::Linear })
        );
        assert_eq!(dialogue.parameter(false).unwrap(), None);
        assert!(dialogue.text("more", None).is_err());
    }
}
