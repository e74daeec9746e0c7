//! Human-readable description of a config: search space table and search settings.

use std::fmt::{self, Write as _};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use tunesmith_algorithms::designers::GridSearch;
use tunesmith_algorithms::problem::{
    Condition, ConstraintSpec, Goal, ObservationNoise, ParameterKind, ParameterPrior, ParameterSpec, Repeats, ScaleType,
};

use super::HptuningConfig;
use super::stopping::{stopping_rule, study_stopping};
use tunesmith_algorithms::rounded::{Rounded, RoundedValue};
use tunesmith_api::ai_platform::{HyperparameterSpec, TuningSpec, inherited_fields};
use tunesmith_domain::{Algorithm, FinalMeasurement};

const MAX_LISTED: usize = 8;

/// Describes the search space of `config` as a table, the search settings, and fields without effect. The text ends
/// with a line break.
pub fn describe(config: &HptuningConfig) -> String {
    let mut text = match (&config.study, &config.training_input.hyperparameters) {
        (Some(study), _) => describe_study(study),
        (None, Some(spec)) => describe_continuation(spec),
        (None, None) => "no hyperparameters: the job runs its program once\n".to_owned(),
    };
    let inherited = inherited_fields(&config.training_input);
    if let (false, Some(spec)) = (inherited.is_empty(), &config.training_input.hyperparameters) {
        line(&mut text, &format!("from job {}", spec.resume_previous_job_id), &inherited.join(", "));
    }
    if !config.without_effect.is_empty() {
        line(&mut text, "no effect here", &config.without_effect.join(", "));
    }
    text
}

/// Describes a job that inherits its search space from the job it continues.
fn describe_continuation(spec: &HyperparameterSpec) -> String {
    let mut text = String::new();
    line(&mut text, "parameters", &format!("those of job {}, which this job continues", spec.resume_previous_job_id));
    let count = |count: Option<i32>| count.filter(|count| *count > 0).unwrap_or(1);
    let trials = format!("{}, {} at once", count(spec.max_trials), count(spec.max_parallel_trials));
    line(&mut text, "trials", &trials);
    text
}

fn describe_study(tuning: &TuningSpec) -> String {
    let study = &tuning.study;
    let (mut text, points) = parameter_table(tuning);
    line(&mut text, "points", &points.to_string());
    line(&mut text, "algorithm", algorithm(&study.algorithm));
    for parameter in study.problem.search_space().parameters() {
        if let Some(prior) = parameter.prior() {
            let unused = without_priors(&study.algorithm).map(|name| format!(" ({name} makes no use of it)"));
            let prior = format!("{} {}{}", parameter.name(), self::prior(prior), unused.unwrap_or_default());
            line(&mut text, "prior", &prior);
        }
    }
    for point in &study.initial_points {
        let values: Vec<String> = point.iter().map(|(name, value)| format!("{name}={}", RoundedValue(value))).collect();
        line(&mut text, "initial trial", &values.join(" "));
    }
    let failed = match tuning.max_failed_trials {
        0 => "the service decides how many may fail".to_owned(),
        limit => format!("the job fails after {limit} failed"),
    };
    let trials = format!("{}, {} at once, {failed}", tuning.max_trials, tuning.max_parallel_trials);
    line(&mut text, "trials", &trials);
    for metric in study.problem.metrics() {
        let goal = if metric.goal == Goal::Maximize { "maximize" } else { "minimize" };
        let which = match study.final_measurement {
            FinalMeasurement::Last => "last",
            FinalMeasurement::Best => "best",
        };
        line(&mut text, "metric", &format!("{goal} {}, the {which} report counts", metric.name));
    }
    for constraint in study.problem.constraints() {
        line(&mut text, "constraint", &self::constraint(constraint));
    }
    match study.problem.observation_noise() {
        ObservationNoise::Auto => {}
        ObservationNoise::Low => line(&mut text, "noise", "low: results can be reproduced"),
        ObservationNoise::High => line(&mut text, "noise", "high: the same parameters may be tried again"),
    }
    if let Some(repeats) = study.problem.repeats() {
        line(&mut text, "repeats", &self::repeats(repeats));
    }
    line(&mut text, "early stopping", &study.stopping_rule.as_ref().map_or_else(|| "off".to_owned(), stopping_rule));
    for rule in study_stopping(&study.study_stopping) {
        line(&mut text, "the job ends", &rule);
    }
    text
}

fn repeats(repeats: &Repeats) -> String {
    let Repeats { parameter, leaders, trials_per_leader, search_trials } = repeats;
    format!(
        "after {search_trials} trials, the best {leaders} are repeated with other values of {parameter}, until each has \
         {trials_per_leader}"
    )
}

/// Table of parameters, and the number of points.
fn parameter_table(tuning: &TuningSpec) -> (String, Points) {
    let study = &tuning.study;
    let resolution = |name: &str| match &study.algorithm {
        Algorithm::GridSearch { double_resolution } => double_resolution.get(name).map(|points| u64::from(*points)),
        _ => None,
    };
    let space = study.problem.search_space();
    let mut header = vec!["PARAMETER", "TYPE", "VALUES", "SCALE", "NUMBER"];
    header.extend(space.is_conditional().then_some("ONLY IF"));
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header);
    let mut points = Points::Some(1);
    for parameter in space.parameters() {
        let count = parameter.cardinality().or_else(|| resolution(parameter.name()));
        points = points.times(count);
        let mut row = vec![
            parameter.name().to_owned(),
            kind(parameter).to_owned(),
            values(parameter),
            scale(parameter).to_owned(),
            count.map_or_else(|| "∞".to_owned(), |count| count.to_string()),
        ];
        if space.is_conditional() {
            row.push(parameter.condition().map(condition).unwrap_or_default());
        }
        table.add_row(row);
    }
    if space.is_conditional() {
        points = points.of_tree(tuning);
    }
    if let Some(column) = table.column_mut(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let table = table.to_string();
    let rows = table.lines().map(|row| row.strip_prefix(' ').unwrap_or(row).trim_end());
    (rows.map(|row| format!("{row}\n")).collect(), points)
}

fn algorithm(algorithm: &Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Automatic => "chosen by the problem, usually Bayesian optimisation (Gaussian process)",
        Algorithm::GaussianProcessBandit => "Bayesian optimisation (Gaussian process)",
        Algorithm::GridSearch { .. } => "grid search",
        Algorithm::RandomSearch => "random search",
        Algorithm::QuasiRandomSearch => "quasi-random search (Sobol sequence)",
        Algorithm::Tpe => "tree-structured Parzen estimator (TPE)",
        Algorithm::CmaEs => "covariance matrix adaptation (CMA-ES)",
    }
}

/// Name of `algorithm` if it ignores priors.
fn without_priors(algorithm: &Algorithm) -> Option<&'static str> {
    match algorithm {
        Algorithm::GridSearch { .. } => Some("grid search"),
        Algorithm::QuasiRandomSearch => Some("quasi-random search"),
        Algorithm::CmaEs => Some("CMA-ES"),
        Algorithm::Automatic | Algorithm::GaussianProcessBandit | Algorithm::Tpe | Algorithm::RandomSearch => None,
    }
}

fn constraint(constraint: &ConstraintSpec) -> String {
    let side = if constraint.goal == Goal::Maximize { "at least" } else { "at most" };
    let mut rule = format!("{} {side} {}", constraint.name, Rounded(constraint.threshold));
    if constraint.min_safe_fraction > 0.0 {
        let _ = write!(rule, ", wanted in a share of {} of the trials", Rounded(constraint.min_safe_fraction));
    }
    rule
}

enum Points {
    Some(u64),
    TooMany,
    Infinite,
}

impl Points {
    fn times(self, count: Option<u64>) -> Self {
        match (self, count) {
            (Self::Infinite, _) | (_, None) => Self::Infinite,
            (Self::Some(product), Some(count)) => product.checked_mul(count).map_or(Self::TooMany, Self::Some),
            (Self::TooMany, Some(_)) => Self::TooMany,
        }
    }
}

impl Points {
    /// Number for a conditional space; `self` is the product over all parameters.
    fn of_tree(self, tuning: &TuningSpec) -> Self {
        let study = &tuning.study;
        let size = match &study.algorithm {
            Algorithm::GridSearch { double_resolution } => {
                GridSearch::new(&study.problem, double_resolution).ok().and_then(|grid| grid.size())
            }
            _ => study.problem.search_space().cardinality().map(u128::from),
        };
        match (self, size) {
            (Self::Infinite, _) => Self::Infinite,
            (_, size) => size.and_then(|size| u64::try_from(size).ok()).map_or(Self::TooMany, Self::Some),
        }
    }
}

impl fmt::Display for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Some(count) => count.fmt(f),
            Self::TooMany => write!(f, "more than {}", u64::MAX),
            Self::Infinite => f.write_str("infinitely many"),
        }
    }
}

fn line(text: &mut String, name: &str, value: &str) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "{name:<15} {value}");
}

fn kind(parameter: &ParameterSpec) -> &'static str {
    match parameter.kind() {
        ParameterKind::Double { .. } => "DOUBLE",
        ParameterKind::Integer { .. } => "INTEGER",
        ParameterKind::Discrete { .. } => "DISCRETE",
        ParameterKind::Categorical { .. } => "CATEGORICAL",
    }
}

fn scale(parameter: &ParameterSpec) -> &'static str {
    match parameter.kind() {
        ParameterKind::Categorical { .. } => "",
        ParameterKind::Double { scale, .. }
        | ParameterKind::Integer { scale, .. }
        | ParameterKind::Discrete { scale, .. } => match scale {
            ScaleType::UnitLinear => "linear",
            ScaleType::UnitLog => "log",
            ScaleType::UnitReverseLog => "reverse log",
        },
    }
}

fn values(parameter: &ParameterSpec) -> String {
    match parameter.kind() {
        ParameterKind::Double { min, max, .. } => format!("{} to {}", Rounded(*min), Rounded(*max)),
        ParameterKind::Integer { min, max, .. } => format!("{min} to {max}"),
        ParameterKind::Discrete { values, .. } => list(values.iter().map(|value| Rounded(*value).to_string())),
        ParameterKind::Categorical { values } => list(values.iter().cloned()),
    }
}

/// Formats as `parent = value` or `parent in values`.
fn condition(condition: &Condition) -> String {
    let relation = if condition.values().len() == 1 { "=" } else { "in" };
    format!("{} {relation} {}", condition.parent(), list(condition.values().iter().map(ToString::to_string)))
}

fn prior(prior: &ParameterPrior) -> String {
    match prior {
        ParameterPrior::Normal { mode, spread } => {
            format!("near {}, give or take {}% of the range", RoundedValue(mode), Rounded(100.0 * spread))
        }
        ParameterPrior::Weights(weights) => {
            list(weights.iter().map(|(value, weight)| format!("{value} with weight {}", Rounded(*weight))))
        }
    }
}

fn list(values: impl ExactSizeIterator<Item = String>) -> String {
    let more = values.len().saturating_sub(MAX_LISTED);
    let mut listed: Vec<String> = values.take(MAX_LISTED).collect();
    if more > 0 {
        listed.push(format!("and {more} more"));
    }
    listed.join(", ")
}
