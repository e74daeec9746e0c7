//! Search spaces proposed from the flags of a trainer.

mod argparse;
mod condition;
mod draft;
mod flag;

use serde_json::Value;
use tunesmith_algorithms::rounded::Rounded;

pub use argparse::{MAX_SCRIPT_BYTES, parse_script};
use condition::detected;
pub use condition::{Condition, drop_impossible, parsed};
pub use draft::{Draft, usual_goal};
pub use flag::{Flag, parse_help};

#[derive(Debug, Clone, PartialEq)]
pub enum Proposal {
    Parameter(Parameter),
    /// A flag excluded from the search.
    LeftOut {
        name: String,
        reason: String,
    },
}

/// A parameter of the search space.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    pub name: String,
    pub values: Values,
    /// Comment on the proposal.
    pub comment: String,
    pub help: Option<String>,
    pub default: Option<Value>,
    /// Condition for the parameter; always active if absent.
    pub condition: Option<Condition>,
}

impl Parameter {
    /// Creates a parameter known only by its values.
    pub fn new(name: &str, values: Values) -> Self {
        Self { name: name.to_owned(), values, comment: String::new(), help: None, default: None, condition: None }
    }

    /// The program's default as text, if it is one of the values.
    pub fn default_value(&self) -> Option<String> {
        let default = self.default.as_ref()?;
        // A default may be text that the parser converts.
        let number = number(default).or_else(|| default.as_str()?.parse().ok());
        let is_allowed = match (&self.values, number) {
            (Values::Double { min, max, .. }, Some(number)) => (*min..=*max).contains(&number),
            (Values::Integer { min, max, .. }, Some(number)) => {
                number.fract() == 0.0 && (*min as f64..=*max as f64).contains(&number)
            }
            (Values::Discrete(values), Some(number)) => values.contains(&number),
            (Values::Categorical(values), _) => return Some(exact_text(default)).filter(|text| values.contains(text)),
            (_, None) => false,
        };
        number.filter(|_| is_allowed).map(|number| number.to_string())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    Double { min: f64, max: f64, scale: Scale },
    Integer { min: i64, max: i64, scale: Scale },
    Discrete(Vec<f64>),
    Categorical(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Linear,
    Log,
    ReverseLog,
}

/// Words in flags that do not change the model, or that determine the cost of a trial.
const NOT_SEARCHED: [(&[&str], &str); 5] = [
    (&["seed", "random_state"], "a seed: with it as a parameter, the search would fit noise"),
    (
        &["epochs", "epoch", "steps", "iterations", "num_epochs", "max_iter"],
        "it sets the cost of a trial; give it in args",
    ),
    (
        &["workers", "num_workers", "threads", "num_threads", "jobs", "gpus", "devices"],
        "it sets the speed, not the model",
    ),
    (
        &["verbose", "verbosity", "log_level", "port", "rank", "local_rank", "version", "help"],
        "it does not change the model",
    ),
    (&["dir", "path", "file", "folder", "output", "input", "data", "checkpoint", "url", "name"], "a place or a name"),
];

/// Proposes a range for each flag, in order.
pub fn propose(flags: &[Flag]) -> Vec<Proposal> {
    let mut proposals: Vec<Proposal> =
        flags.iter().filter_map(|flag| Some(one(flag.name()?, flag))).filter(|proposal| !is_help(proposal)).collect();
    let searched = proposals.iter().filter_map(|proposal| match proposal {
        Proposal::Parameter(parameter) => Some(parameter.clone()),
        Proposal::LeftOut { .. } => None,
    });
    let searched: Vec<Parameter> = searched.collect();
    for proposal in &mut proposals {
        if let Proposal::Parameter(parameter) = proposal {
            parameter.condition = detected(parameter, &searched);
        }
    }
    proposals
}

fn is_help(proposal: &Proposal) -> bool {
    matches!(proposal, Proposal::LeftOut { name, .. } if name == "help" || name == "version")
}

fn one(name: &str, flag: &Flag) -> Proposal {
    let left_out = |reason: &str| Proposal::LeftOut { name: name.to_owned(), reason: reason.to_owned() };
    let plain = name.to_ascii_lowercase().replace('-', "_");
    if plain == "job_dir" {
        return left_out("tunesmith passes it to each trial if --job-dir is given");
    }
    for (words, reason) in NOT_SEARCHED {
        if words.iter().any(|word| plain == *word || plain.ends_with(&format!("_{word}"))) {
            return left_out(reason);
        }
    }
    if !flag.takes_one_value {
        return left_out("it takes no value, or several; parameters are passed as --name=value");
    }
    let Some(values) = values(&plain, flag) else {
        return left_out("it takes a text; to search it, list its values as categoricalValues");
    };
    let mut comment: Vec<String> =
        flag.help.iter().map(|help| help.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    match &flag.default {
        Some(default) if !default.is_null() => comment.push(format!("default {}", plain_text(default))),
        _ => comment.push("no default: check the range".to_owned()),
    }
    Proposal::Parameter(Parameter {
        comment: comment.join("; "),
        help: flag.help.clone(),
        default: flag.default.clone().filter(|default| !default.is_null()),
        ..Parameter::new(name, values)
    })
}

fn values(name: &str, flag: &Flag) -> Option<Values> {
    if let Some(choices) = flag.choices.as_ref().filter(|choices| !choices.is_empty()) {
        let numbers: Option<Vec<f64>> =
            choices.iter().map(|text| text.parse().ok().filter(|n: &f64| n.is_finite())).collect();
        return Some(match numbers {
            Some(mut numbers) => {
                numbers.sort_by(f64::total_cmp);
                numbers.dedup();
                Values::Discrete(numbers)
            }
            None => Values::Categorical(choices.clone()),
        });
    }
    let default = flag.default.as_ref().and_then(number);
    match flag.kind.as_deref() {
        Some("int") => Some(integer(name, default)),
        Some("float") => Some(double(name, default)),
        // A parser without a type returns text; a numeric default reveals the type.
        None if flag.default.as_ref().is_some_and(Value::is_i64) => Some(integer(name, default)),
        None if flag.default.as_ref().is_some_and(Value::is_f64) => Some(double(name, default)),
        _ => None,
    }
}

fn integer(name: &str, default: Option<f64>) -> Values {
    // Ignores defaults beyond the integer range.
    let default = default.filter(|number| number.abs() < 1e15).map(|number| number as i64);
    match default {
        Some(default) if default >= 2 && name.contains("batch") => {
            let around = [default / 4, default / 2, default, default * 2, default * 4];
            Values::Discrete(around.into_iter().filter(|value| *value > 0).map(|value| value as f64).collect())
        }
        Some(default) if default >= 8 => Values::Integer { min: default / 4, max: default * 4, scale: Scale::Log },
        Some(default) if default >= 1 => Values::Integer { min: 1, max: default * 4, scale: Scale::Linear },
        Some(0) => Values::Integer { min: 0, max: 10, scale: Scale::Linear },
        Some(default) => Values::Integer { min: default * 4, max: 0, scale: Scale::Linear },
        None => Values::Integer { min: 1, max: 100, scale: Scale::Log },
    }
}

fn double(name: &str, default: Option<f64>) -> Values {
    let is_about = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let is_rate = is_about(&["learning_rate", "lr"]);
    match default {
        Some(default) if (0.5..0.999).contains(&default) && is_about(&["momentum", "beta", "gamma", "decay"]) => {
            Values::Double { min: 0.5, max: 0.999, scale: Scale::ReverseLog }
        }
        _ if is_about(&["dropout"]) => Values::Double { min: 0.0, max: 0.7, scale: Scale::Linear },
        Some(default) if default > 0.0 => {
            let factor = if is_rate { 100.0 } else { 10.0 };
            let max = if is_rate { (default * factor).min(1.0).max(default * 2.0) } else { default * factor };
            Values::Double { min: round(default / factor), max: round(max), scale: Scale::Log }
        }
        Some(default) if default < 0.0 => Values::Double { min: round(default * 10.0), max: 0.0, scale: Scale::Linear },
        None if is_rate => Values::Double { min: 1e-5, max: 1.0, scale: Scale::Log },
        Some(_) | None => Values::Double { min: 0.0, max: 1.0, scale: Scale::Linear },
    }
}

/// Rounds a bound to a number that a person would write.
fn round(number: f64) -> f64 {
    Rounded(number).to_string().parse().unwrap_or(number)
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}

fn exact_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(_) => number(value).map_or_else(|| value.to_string(), |number| Rounded(number).to_string()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flag(name: &str, kind: Option<&str>, default: Value) -> Flag {
        Flag {
            flags: vec![format!("--{name}")],
            kind: kind.map(str::to_owned),
            default: Some(default).filter(|default| !default.is_null()),
            choices: None,
            takes_one_value: true,
            required: false,
            help: None,
        }
    }

    fn proposed(flag: Flag) -> Option<Values> {
        match propose(&[flag]).remove(0) {
            Proposal::Parameter(parameter) => Some(parameter.values),
            Proposal::LeftOut { .. } => None,
        }
    }

    #[test]
    fn ranges_contain_the_default() {
        let double = |name: &str, default: Value| proposed(flag(name, Some("float"), default)).unwrap();
        assert_eq!(double("learning-rate", json!(0.01)), Values::Double { min: 0.0001, max: 1.0, scale: Scale::Log });
        assert_eq!(double("lr", json!(5.0)), Values::Double { min: 0.05, max: 10.0, scale: Scale::Log });
        assert_eq!(double("penalty", json!(1e-4)), Values::Double { min: 1e-5, max: 0.001, scale: Scale::Log });
        assert_eq!(double("momentum", json!(0.9)), Values::Double { min: 0.5, max: 0.999, scale: Scale::ReverseLog });
        assert_eq!(double("shift", json!(-2.0)), Values::Double { min: -20.0, max: 0.0, scale: Scale::Linear });
        assert_eq!(double("x", Value::Null), Values::Double { min: 0.0, max: 1.0, scale: Scale::Linear });
        let integer = |name: &str, default: Value| proposed(flag(name, Some("int"), default)).unwrap();
        assert_eq!(integer("hidden-units", json!(32)), Values::Integer { min: 8, max: 128, scale: Scale::Log });
        assert_eq!(integer("degree", json!(1)), Values::Integer { min: 1, max: 4, scale: Scale::Linear });
        assert_eq!(integer("batch_size", json!(2)), Values::Discrete(vec![1.0, 2.0, 4.0, 8.0]));
        assert_eq!(integer("skip", json!(-3)), Values::Integer { min: -12, max: 0, scale: Scale::Linear });
        assert_eq!(integer("depth", Value::Null), Values::Integer { min: 1, max: 100, scale: Scale::Log });
    }

    #[test]
    fn defaults_are_values_of_their_parameters() {
        let of = |values: Values, default: Value| {
            Parameter { default: Some(default), ..Parameter::new("x", values) }.default_value()
        };
        let range = || Values::Double { min: 1e-5, max: 1.0, scale: Scale::Log };
        assert_eq!(of(range(), json!(0.01)).as_deref(), Some("0.01"));
        assert_eq!(of(range(), json!("0.01")).as_deref(), Some("0.01"));
        assert_eq!(of(range(), json!(2.0)), None);
        let depth = || Values::Integer { min: 1, max: 8, scale: Scale::Linear };
        assert_eq!(of(depth(), json!(2)).as_deref(), Some("2"));
        assert_eq!(of(depth(), json!(2.5)), None);
        assert_eq!(of(Values::Discrete(vec![8.0, 16.0]), json!(16)).as_deref(), Some("16"));
        let kinds = || Values::Categorical(vec!["adam".to_owned(), "True".to_owned()]);
        assert_eq!(of(kinds(), json!("adam")).as_deref(), Some("adam"));
        assert_eq!(of(kinds(), json!("sgd")), None);
    }

    #[test]
    fn choices_are_kept_and_places_seeds_and_switches_left_out() {
        let mut choices = flag("optimizer", None, json!("adam"));
        choices.choices = Some(vec!["sgd".to_owned(), "adam".to_owned()]);
        assert_eq!(proposed(choices.clone()), Some(Values::Categorical(vec!["sgd".to_owned(), "adam".to_owned()])));
        choices.choices = Some(vec!["10".to_owned(), "2".to_owned()]);
        assert_eq!(proposed(choices), Some(Values::Discrete(vec![2.0, 10.0])));
        for name in ["job-dir", "seed", "epochs", "train-data", "num_workers"] {
            assert_eq!(proposed(flag(name, Some("int"), json!(3))), None, "{name}");
        }
        let mut switch = flag("nesterov", None, json!(false));
        switch.takes_one_value = false;
        assert_eq!(proposed(switch), None);
        assert_eq!(proposed(flag("note", None, Value::Null)), None);
        assert_eq!(propose(&[flag("help", None, Value::Null)]), []);
    }
}
