//! Text of a proposed configuration.

use std::fmt::Write as _;

use tunesmith_algorithms::problem::Goal;

use super::{Condition, Parameter, Scale, Values};

/// Substrings of metric names that are usually minimized.
const LOSSES: [&str; 9] = ["loss", "error", "mse", "mae", "rmse", "perplexity", "regret", "latency", "cost"];

/// Content of the configuration.
pub struct Draft {
    /// Command of the trainer; may be empty.
    pub command: Vec<String>,
    pub metric: String,
    pub goal: Goal,
    pub trials: u32,
    /// Number of concurrent trials.
    pub parallel: u32,
    pub parameters: Vec<Parameter>,
    /// Flags excluded from the search, with the reason.
    pub left_out: Vec<(String, String)>,
}

impl Draft {
    /// The command quoted for a shell, or a placeholder.
    pub fn command_text(&self) -> String {
        if self.command.is_empty() {
            return "COMMAND".to_owned();
        }
        shlex::try_join(self.command.iter().map(String::as_str)).unwrap_or_else(|_| self.command.join(" "))
    }

    /// The configuration as YAML.
    pub fn text(&self) -> String {
        let goal = match self.goal {
            Goal::Maximize => "MAXIMIZE",
            Goal::Minimize => "MINIMIZE",
        };
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "# Configuration for: {command}
# Each trial runs the program with one --<parameterName>=<value> for each parameter.
trainingInput:
  hyperparameters:
    # MAXIMIZE or MINIMIZE.
    goal: {goal}
    # The name under which the trainer reports its metric.
    hyperparameterMetricTag: {metric}
    # The number of points that are tried. Ten for each parameter are a usual start.
    maxTrials: {trials}
    # The number of trials that run at once: at most the number of processors, or of GPUs.
    maxParallelTrials: {parallel}
    # Stops trials that are unlikely to become the best. The trainer has to report several times.
    # enableTrialEarlyStopping: true
    # One parameter for each flag that is searched. UNIT_LOG_SCALE searches most finely near the
    # lower bound, UNIT_REVERSE_LOG_SCALE near the upper bound.
    params:
",
            command = one_line(&self.command_text()),
            metric = quoted(&self.metric),
            trials = self.trials,
            parallel = self.parallel,
        );
        for parameter in &self.parameters {
            text.push_str(&parameter_text(parameter));
        }
        for (name, reason) in &self.left_out {
            let _ = writeln!(text, "    # --{} is left out: {reason}", one_line(name));
        }
        let _ = write!(
            text,
            "  tunesmith:
    # Reads lines such as `{}=0.97 step=3` from standard output. Not needed for trainers that
    # report with the package hypertune, or that write TensorFlow event files under --job-dir.
    metricFromStdout: true
",
            one_line(&self.metric)
        );
        self.write_conditions(&mut text);
        self.write_defaults(&mut text);
        text
    }

    /// Appends the conditions of parameters.
    fn write_conditions(&self, text: &mut String) {
        let conditional =
            self.parameters.iter().filter_map(|parameter| Some((parameter, parameter.condition.as_ref()?)));
        let lines: Vec<String> = conditional
            .map(|(parameter, Condition { parent, values })| {
                let is_text = self
                    .parameters
                    .iter()
                    .any(|other| other.name == *parent && matches!(other.values, Values::Categorical(_)));
                let values: Vec<String> =
                    values.iter().map(|value| if is_text { quoted(value) } else { value.clone() }).collect();
                let (name, parent) = (quoted(&parameter.name), quoted(parent));
                format!("    - {{parameter: {name}, parent: {parent}, values: [{}]}}\n", values.join(", "))
            })
            .collect();
        if !lines.is_empty() {
            text.push_str("    # A parameter is given only in trials in which its parent has one of the values.\n    conditions:\n");
            text.push_str(&lines.concat());
        }
    }

    /// Appends the program's defaults as the first point.
    fn write_defaults(&self, text: &mut String) {
        let default = |name: &str| {
            self.parameters.iter().find(|parameter| parameter.name == name).and_then(Parameter::default_value)
        };
        // A conditional parameter has a value only if its parent's default activates it.
        let is_active = |parameter: &Parameter| {
            let condition = parameter.condition.as_ref();
            condition.is_none_or(|condition| {
                default(&condition.parent).is_some_and(|value| condition.values.contains(&value))
            })
        };
        let values: Vec<String> = self
            .parameters
            .iter()
            .filter(|parameter| is_active(parameter))
            .filter_map(|parameter| {
                let value = parameter.default_value()?;
                let value = if matches!(parameter.values, Values::Categorical(_)) { quoted(&value) } else { value };
                Some(format!("{}: {value}", quoted(&parameter.name)))
            })
            .collect();
        if !values.is_empty() {
            text.push_str("    # The first trial: the defaults of the program, which the others have to beat.\n    initialTrials:\n");
            let _ = writeln!(text, "    - {{{}}}", values.join(", "));
        }
    }
}

/// Goal suggested by the metric's name.
pub fn usual_goal(metric: &str) -> Goal {
    let name = metric.to_ascii_lowercase();
    if LOSSES.iter().any(|part| name.contains(part)) { Goal::Minimize } else { Goal::Maximize }
}

fn parameter_text(parameter: &Parameter) -> String {
    let mut text = String::new();
    if !parameter.comment.is_empty() {
        let _ = writeln!(text, "    # {}", one_line(&parameter.comment));
    }
    let _ = writeln!(text, "    - parameterName: {}", quoted(&parameter.name));
    let range = |kind: &str, min: String, max: String, scale: Scale| {
        let scale = match scale {
            Scale::Linear => "UNIT_LINEAR_SCALE",
            Scale::Log => "UNIT_LOG_SCALE",
            Scale::ReverseLog => "UNIT_REVERSE_LOG_SCALE",
        };
        format!("      type: {kind}\n      minValue: {min}\n      maxValue: {max}\n      scaleType: {scale}\n")
    };
    text.push_str(&match &parameter.values {
        Values::Double { min, max, scale } => range("DOUBLE", min.to_string(), max.to_string(), *scale),
        Values::Integer { min, max, scale } => range("INTEGER", min.to_string(), max.to_string(), *scale),
        Values::Discrete(values) => {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            format!("      type: DISCRETE\n      discreteValues: [{}]\n", values.join(", "))
        }
        Values::Categorical(values) => {
            let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
            format!("      type: CATEGORICAL\n      categoricalValues: [{}]\n", values.join(", "))
        }
    });
    text
}

/// `text` for a comment, which a line break would end.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || "\u{85}\u{2028}\u{2029}".contains(c) { ' ' } else { c }).collect()
}

/// `text` as a YAML string, quoted if it could be parsed as something else.
fn quoted(text: &str) -> String {
    let is_plain = text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && !["true", "false", "yes", "no", "on", "off", "null", "nan", "inf"]
            .contains(&text.to_ascii_lowercase().as_str());
    // Every JSON string is a YAML string.
    if is_plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draft_is_a_valid_configuration() {
        let parameter = |name: &str, values: Values| Parameter::new(name, values);
        let draft = Draft {
            command: vec!["python3".to_owned(), "my train.py".to_owned(), "a\nmaxTrials: 9".to_owned()],
            metric: "yes: \"loss\" # 1".to_owned(),
            goal: Goal::Minimize,
            trials: 7,
            parallel: 2,
            parameters: vec![
                parameter("rate", Values::Double { min: 1e-7, max: 1.0, scale: Scale::Log }),
                parameter("no", Values::Integer { min: -3, max: 4, scale: Scale::Linear }),
                parameter("batch", Values::Discrete(vec![8.0, 16.0])),
                parameter("kind", Values::Categorical(vec!["true".to_owned(), "a, b]".to_owned(), "x".to_owned()])),
            ],
            left_out: vec![("seed".to_owned(), "a seed".to_owned())],
        };
        let config = crate::parse("draft", &draft.text()).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(config.warnings.len(), 0, "{:?}", config.warnings);
        let study = config.study.unwrap();
        assert_eq!(study.max_trials, 7);
        assert_eq!(study.study.problem.metrics()[0].name, "yes: \"loss\" # 1");
        let names: Vec<&str> = study.study.problem.search_space().parameters().iter().map(|one| one.name()).collect();
        assert_eq!(names, ["rate", "no", "batch", "kind"]);
        assert_eq!(draft.command_text(), "python3 'my train.py' 'a\nmaxTrials: 9'");
    }
}
