//! Conditions stated in a program's help: `momentum`, "only for sgd".

use super::{Parameter, Values};

/// Values of a parent for which a parameter is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Name of the parent.
    pub parent: String,
    /// Values as written.
    pub values: Vec<String>,
}

/// Words that introduce the parent's values.
const RESTRICTING: [&str; 4] = ["only", "if", "when", "unless"];
/// Words that negate a condition.
const NEGATING: [&str; 4] = ["not", "except", "ignored", "unused"];

/// Condition stated in the help of `parameter`, if it names values of exactly one of `others`.
pub(super) fn detected(parameter: &Parameter, others: &[Parameter]) -> Option<Condition> {
    let help = parameter.help.as_deref()?.to_lowercase();
    let is_part = |c: char| !(c.is_alphanumeric() || c == '_' || c == '-' || c == '.');
    let words: Vec<&str> =
        help.split(is_part).map(|word| word.trim_matches(['-', '.'])).filter(|word| !word.is_empty()).collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    if !has(&RESTRICTING) || (has(&NEGATING) && !has(&["unless"])) {
        return None;
    }
    let of = |other: &Parameter| {
        let Values::Categorical(levels) = &other.values else { return None };
        let named = levels.iter().filter(|level| words.contains(&level.to_lowercase().as_str()));
        let values: Vec<String> = named.cloned().collect();
        let is_some = !values.is_empty() && values.len() < levels.len() && other.name != parameter.name;
        is_some.then(|| Condition { parent: other.name.clone(), values })
    };
    let mut found: Vec<Condition> = others.iter().filter_map(of).collect();
    if found.len() > 1 {
        found.retain(|condition| words.contains(&condition.parent.to_lowercase().as_str()));
    }
    (found.len() == 1).then(|| found.remove(0))
}

/// Drops conditions on removed parents or parent values.
pub fn drop_impossible(parameters: &mut [Parameter]) {
    let all = parameters.to_vec();
    for parameter in parameters {
        parameter.condition.take_if(|Condition { parent, values }| {
            let parent = all.iter().find(|other| other.name == *parent);
            !parent.is_some_and(|parent| values.iter().all(|value| has_value(parent, value)))
        });
    }
}

fn has_value(parameter: &Parameter, value: &String) -> bool {
    match &parameter.values {
        Values::Categorical(levels) => levels.contains(value),
        Values::Discrete(numbers) => value.parse().is_ok_and(|value| numbers.contains(&value)),
        Values::Integer { min, max, .. } => value.parse().is_ok_and(|value: i64| (*min..=*max).contains(&value)),
        Values::Double { .. } => false,
    }
}

/// Parses `momentum if optimizer=sgd`, with comma-separated values, into a parameter name and its condition.
///
/// # Errors
/// If the text is malformed, or names an unknown parameter or value.
pub fn parsed(text: &str, parameters: &[Parameter]) -> Result<(String, Condition), String> {
    let expected = || format!("{text:?}: expected a condition such as \"momentum if optimizer=sgd\"");
    let (name, rest) = text.split_once(" if ").ok_or_else(expected)?;
    let (parent, values) = rest.split_once('=').ok_or_else(expected)?;
    let find = |name: &str| {
        let name = name.trim().trim_start_matches("--");
        let known: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let found = parameters.iter().find(|parameter| parameter.name == name);
        found.ok_or_else(|| format!("{name:?} is no parameter; the parameters are {}", known.join(", ")))
    };
    let (child, parent) = (find(name)?, find(parent)?);
    if child.name == parent.name || parent.condition.is_some() {
        return Err(format!(
            "{:?} cannot decide on {:?}: it is the same one, or has a condition itself",
            parent.name, child.name
        ));
    }
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    match values.iter().find(|value| !has_value(parent, value)) {
        Some(unknown) => Err(format!("{unknown:?} is not one of the values of {}", parent.name)),
        None => Ok((child.name.clone(), Condition { parent: parent.name.clone(), values })),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;

    fn parameter(name: &str, help: &str, values: Values) -> Parameter {
        Parameter { name: name.to_owned(), help: Some(help.to_owned()), ..Parameter::new(name, values) }
    }

    fn rate(help: &str) -> Parameter {
        parameter("momentum", help, Values::Double { min: 0.5, max: 0.9, scale: Scale::Linear })
    }

    fn others() -> Vec<Parameter> {
        let levels = |levels: &[&str]| Values::Categorical(levels.iter().map(|level| (*level).to_owned()).collect());
        vec![
            parameter("optimizer", "", levels(&["adam", "SGD"])),
            parameter("schedule", "", levels(&["step", "cosine"])),
            parameter("warmup", "", levels(&["step", "linear"])),
        ]
    }

    #[test]
    fn help_texts_name_conditions() {
        let sgd = Some(Condition { parent: "optimizer".to_owned(), values: vec!["SGD".to_owned()] });
        for help in [
            "Momentum, only for sgd",
            "momentum (SGD only).",
            "used if --optimizer is sgd",
            "ignored unless optimizer=sgd",
        ] {
            assert_eq!(detected(&rate(help), &others()), sgd, "{help}");
        }
        for help in [
            "momentum of sgd",
            "not used if optimizer is sgd",
            "only for the brave",
            "only for step",
            "only for adam or sgd",
            "",
        ] {
            assert_eq!(detected(&rate(help), &others()), None, "{help}");
        }
        let of_warmup = detected(&rate("only with warmup step"), &others()).unwrap();
        assert_eq!((of_warmup.parent.as_str(), of_warmup.values), ("warmup", vec!["step".to_owned()]));
    }

    #[test]
    fn conditions_are_parsed() {
        let mut parameters = others();
        parameters.push(rate(""));
        let (name, condition) = parsed("momentum if --optimizer = SGD", &parameters).unwrap();
        assert_eq!(
            (name.as_str(), condition.parent.as_str(), condition.values),
            ("momentum", "optimizer", vec!["SGD".to_owned()])
        );
        for (text, part) in [
            ("momentum", "expected a condition"),
            ("momentum if optimizer=rms", "is not one of the values of optimizer"),
            ("depth if optimizer=adam", "is no parameter; the parameters are optimizer"),
            ("optimizer if optimizer=adam", "cannot decide on"),
            ("optimizer if momentum=0.5", "is not one of the values"),
        ] {
            assert!(parsed(text, &parameters).unwrap_err().contains(part), "{text}");
        }
    }
}
