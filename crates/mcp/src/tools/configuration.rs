//! Configurations: proposed from a script, and checked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tunesmith_algorithms::problem::Goal;
use tunesmith_config::proposal::{
    Draft, MAX_SCRIPT_BYTES, Proposal, drop_impossible, parse_help, parse_script, propose, usual_goal,
};
use tunesmith_config::{Completion, HptuningConfig, describe, hints, parse_completed};

use crate::context::Context;
use crate::failure::{Failure, Problem};
use crate::subject::bounded;
use crate::tool::{Effects, Tool};

/// Trials per parameter of a proposal.
const TRIALS_PER_PARAMETER: usize = 10;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            ("mcp.propose_config", "Propose a configuration"),
            "Proposes a configuration with a search space from the argparse flags of a training script. The script is read, not \
             run. Check the ranges before you submit it.",
            Effects::Reads,
            json!({"script": "parser.add_argument('--lr', type=float, default=0.01)", "metric": "accuracy"}),
            propose_config,
        ),
        Tool::new(
            ("mcp.validate_config", "Validate a configuration"),
            "Checks a configuration and describes its search space. Problems have line and column. See the resource \
             tunesmith://docs/configuration-schema.",
            Effects::Reads,
            json!({"config": "hyperparameters: {goal: MAXIMIZE, maxTrials: 3, params: [{parameterName: x, type: INTEGER, minValue: 1, maxValue: 9}]}"}),
            validate_config,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct ProposeArguments {
    /// Source of a Python script with calls of argparse's add_argument; this or `help`.
    script: Option<String>,
    /// Output of the program's --help; this or `script`.
    help: Option<String>,
    /// Name of the metric that the program reports, as a line `name=0.5` on standard output.
    metric: String,
    /// MAXIMIZE or MINIMIZE; by default MINIMIZE for names such as loss or error.
    goal: Option<String>,
    /// Number of trials; default 10 per parameter.
    max_trials: Option<u64>,
    /// Trials at once; default 1.
    max_parallel_trials: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Proposed {
    /// Configuration as YAML. Its first trial has the defaults of the program: the baseline.
    config: String,
    parameters: Vec<String>,
    /// Flags that are not searched.
    left_out: Vec<LeftOut>,
    /// Calls of add_argument that could not be read.
    unread_flags: usize,
}

#[derive(Serialize, JsonSchema)]
struct LeftOut {
    flag: String,
    reason: String,
}

async fn propose_config(context: Context, arguments: ProposeArguments) -> Result<Proposed, Failure> {
    context.compute(move || proposed(&arguments)).await
}

fn proposed(arguments: &ProposeArguments) -> Result<Proposed, Failure> {
    let (flags, unread_flags) = match (&arguments.script, &arguments.help) {
        (Some(text), None) | (None, Some(text)) if text.len() > MAX_SCRIPT_BYTES => {
            let field = if arguments.script.is_some() { "script" } else { "help" };
            return Err(Failure::argument(field, "is too long", format!("at most {MAX_SCRIPT_BYTES} bytes")));
        }
        (Some(script), None) => parse_script(script),
        (None, Some(help)) => (parse_help(help), 0),
        _ => return Err(Failure::argument("script", "give script or help", "exactly one of them")),
    };
    let goal = match arguments.goal.as_deref() {
        None => usual_goal(&arguments.metric),
        Some("MAXIMIZE") => Goal::Maximize,
        Some("MINIMIZE") => Goal::Minimize,
        Some(_) => return Err(Failure::argument("goal", "is not a goal", "MAXIMIZE, MINIMIZE")),
    };
    let (mut parameters, mut left_out) = (Vec::new(), Vec::new());
    for proposal in propose(&flags) {
        match proposal {
            Proposal::Parameter(parameter) => parameters.push(parameter),
            Proposal::LeftOut { name, reason } => left_out.push((name, reason)),
        }
    }
    drop_impossible(&mut parameters);
    if parameters.is_empty() {
        let reasons: Vec<String> = left_out.iter().map(|(name, reason)| format!("--{name}: {reason}")).collect();
        let text = format!("no flag has a range to search ({})", reasons.join("; "));
        return Err(Failure::argument("script", text, "flags with a type int or float, or with choices"));
    }
    let count = |name, value, default| {
        bounded(name, value, default, (1, 10_000)).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
    };
    let draft = Draft {
        command: Vec::new(),
        metric: arguments.metric.clone(),
        goal,
        trials: count(
            "max_trials",
            arguments.max_trials,
            (TRIALS_PER_PARAMETER * parameters.len()).min(10_000) as u64,
        )?,
        parallel: count("max_parallel_trials", arguments.max_parallel_trials, 1)?,
        parameters,
        left_out,
    };
    let config = draft.text();
    parsed(&config)?;
    Ok(Proposed {
        config,
        parameters: draft.parameters.into_iter().map(|parameter| parameter.name).collect(),
        left_out: draft.left_out.into_iter().map(|(flag, reason)| LeftOut { flag, reason }).collect(),
        unread_flags,
    })
}

#[derive(Deserialize, JsonSchema)]
struct ValidateArguments {
    /// hptuning_config.yaml, in YAML or JSON.
    config: String,
}

#[derive(Serialize, JsonSchema)]
struct Validated {
    valid: bool,
    problems: Vec<ConfigProblem>,
    /// Search space, algorithm, number of trials and fields without effect, as a table.
    description: String,
    /// Number of points of a finite search space, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    points: Option<String>,
    /// Warnings, and hints about settings that are probably not intended.
    notes: Vec<String>,
}

/// A field that is not valid.
#[derive(Serialize, JsonSchema)]
struct ConfigProblem {
    line: usize,
    column: usize,
    field: String,
    message: String,
    allowed: String,
}

impl From<Problem> for ConfigProblem {
    fn from(problem: Problem) -> Self {
        Self {
            line: problem.line.unwrap_or(1),
            column: problem.column.unwrap_or(1),
            field: problem.field,
            message: problem.message,
            allowed: problem.allowed.unwrap_or_default(),
        }
    }
}

async fn validate_config(context: Context, arguments: ValidateArguments) -> Result<Validated, Failure> {
    context.compute(move || Ok(validated(&arguments.config))).await
}

fn validated(config: &str) -> Validated {
    // A command that submits the job may add its program.
    let completion = Completion { is_open: true, ..Completion::default() };
    match parse_completed("config", config, &completion) {
        Ok(config) => {
            let warnings = config.warnings.iter().map(|warning| format!("{}: {}", warning.field, warning.message));
            let points = config.study.as_ref().and_then(|tuning| tuning.study.problem.search_space().cardinality());
            Validated {
                valid: true,
                problems: Vec::new(),
                description: describe(&config),
                points: points.map(|points| points.to_string()),
                notes: warnings.chain(hints(&config, usize::MAX, None)).collect(),
            }
        }
        Err(errors) => Validated {
            valid: false,
            problems: errors.diagnostics().iter().map(|one| Problem::from(one).into()).collect(),
            description: String::new(),
            points: None,
            notes: Vec::new(),
        },
    }
}

/// Parses a configuration whose program may be given beside it.
pub(super) fn parsed(config: &str) -> Result<HptuningConfig, Failure> {
    let completion = Completion { is_open: true, ..Completion::default() };
    parse_completed("config", config, &completion).map_err(|errors| Failure::configuration(errors.diagnostics()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposals_are_valid_configurations() {
        let arguments = ProposeArguments {
            script: Some(
                "p.add_argument('--lr', type=float, default=0.1)\np.add_argument('--seed', type=int)".to_owned(),
            ),
            help: None,
            metric: "loss".to_owned(),
            goal: None,
            max_trials: None,
            max_parallel_trials: Some(2),
        };
        let found = proposed(&arguments).unwrap_or_else(|failure| panic!("{failure:?}"));
        assert_eq!(found.parameters, ["lr"]);
        assert_eq!(found.left_out[0].flag, "seed");
        let validated = validated(&found.config);
        assert!(validated.valid && validated.notes.is_empty(), "{:?}", validated.notes);
        assert!(validated.description.contains("10, 2 at once"), "{}", validated.description);
        let none = ProposeArguments { script: Some(String::new()), ..arguments };
        assert!(
            proposed(&none).is_err_and(|failure| failure.to_json()["error"]["message"]
                .to_string()
                .contains("no flag has a range"))
        );
    }

    #[test]
    fn problems_have_their_place() {
        let found = validated("hyperparameters:\n  goal: UP\n  params: []\n");
        let places: Vec<_> = found.problems.iter().map(|one| (one.line, one.field.as_str())).collect();
        assert_eq!(places, [(2, "hyperparameters.goal"), (3, "hyperparameters.params")]);
        assert!(found.problems[0].allowed.contains("MAXIMIZE"));
    }
}
