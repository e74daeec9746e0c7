//! Published rules of `hyperparameters`.

use std::collections::HashMap;

use super::algorithm::check_algorithm;
use super::argument_rules::check_flag;
use super::condition_rules::check_conditions;
use super::continuation::inherits_parameters;
use super::early_stopping::{SETTINGS, stopping_rule};
use super::metrics::check_metrics;
use super::prior_knowledge_rules::check_prior_knowledge;
use super::study_stopping::check_study_stopping;
use super::violations::Violations;
use super::{
    Additions, Algorithm, Double, HyperparameterSpec, Number, ParameterSpec, ParameterType, RESERVED_METRIC_TAGS,
    ScaleType, is_default,
};
use tunesmith_algorithms::encoding::reverse_log_share_at_upper_end;
use tunesmith_algorithms::problem::MAX_DISCRETE_VALUES;
use tunesmith_algorithms::rounded::Rounded;
use tunesmith_domain::JobId;

/// Share of a scale mapped to one number that triggers a warning. A guess.
const MOST_LOST: f64 = 0.05;

/// Checks `spec` and the additions that refer to it.
pub(super) fn check_hyperparameters(spec: &HyperparameterSpec, additions: &Additions, violations: &mut Violations) {
    if !super::size_limits::check(spec, additions, violations) {
        return;
    }
    check_counts(spec, violations);
    let tag = spec.hyperparameter_metric_tag.as_str();
    if RESERVED_METRIC_TAGS.contains(&tag) {
        violations.error(
            "hyperparameters.hyperparameterMetricTag",
            format_args!("{tag:?} is reserved for the bookkeeping of the hypertune package"),
            format_args!("any tag except {}", RESERVED_METRIC_TAGS.join(", ")),
        );
    }
    check_metrics(spec, additions, violations);
    if !spec.resume_previous_job_id.is_empty()
        && let Err(error) = spec.resume_previous_job_id.parse::<JobId>()
    {
        violations.error(
            "hyperparameters.resumePreviousJobId",
            error,
            "letters, digits and underscores, starting with a letter, at most 128",
        );
    }
    if spec.params.is_empty() && !inherits_parameters(spec) {
        violations.error("hyperparameters.params", "is empty", "at least one parameter");
    }
    let mut first_use: HashMap<&str, usize> = HashMap::new();
    for (index, parameter) in spec.params.iter().enumerate() {
        let path = format!("hyperparameters.params[{index}]");
        check_flag(&path, parameter, violations);
        let first = *first_use.entry(&parameter.parameter_name).or_insert(index);
        if first != index && !parameter.parameter_name.is_empty() {
            violations.error(
                format_args!("{path}.parameterName"),
                format_args!("{:?} is already the name of params[{first}]", parameter.parameter_name),
                "a name that no other parameter has",
            );
        }
        check_parameter(&path, parameter, violations);
    }
    additions.observation_noise.check(spec.algorithm, violations);
    let constraints = additions.metrics.iter().filter(|metric| metric.safety_config.is_some()).count();
    let metrics = 1 + additions.metrics.len() - constraints;
    // References to an earlier job's parameters are checked once those are known.
    if !inherits_parameters(spec) {
        check_algorithm(spec, additions, |index| format!("hyperparameters.params[{index}]"), violations);
        check_resolutions(spec, additions, violations);
        check_conditions(spec, additions, violations);
        check_prior_knowledge(spec, additions, violations);
        if let Some(repeats) = &additions.repeats {
            repeats.check(spec, &additions.conditions, metrics, violations);
        }
    }
    let of_early_stopping = [
        ("tunesmith.earlyStopping", additions.early_stopping.is_some()),
        (SETTINGS, !is_default(&additions.early_stopping_settings)),
        ("tunesmith.continuesFromCheckpoints", additions.continues_from_checkpoints),
    ];
    for (field, is_given) in of_early_stopping {
        if is_given && !spec.enable_trial_early_stopping {
            violations.warning(
                field,
                "has no effect without enableTrialEarlyStopping",
                "only with hyperparameters.enableTrialEarlyStopping: true",
            );
        }
    }
    stopping_rule(additions.early_stopping(), &additions.early_stopping_settings, violations);
    check_study_stopping(&additions.study_stopping_config, metrics, constraints, violations);
}

fn check_counts(spec: &HyperparameterSpec, violations: &mut Violations) {
    let counts = [
        ("maxTrials", spec.max_trials, "1"),
        ("maxParallelTrials", spec.max_parallel_trials, "1"),
        ("maxFailedTrials", spec.max_failed_trials, ""),
    ];
    for (field, count, default) in counts {
        let field = format!("hyperparameters.{field}");
        match count {
            Some(count @ ..0) => {
                let min = if default.is_empty() { 0 } else { 1 };
                let allowed = format_args!("a whole number from {min} to {}", i32::MAX);
                violations.error(field, format_args!("{count} is below the minimum"), allowed);
            }
            // proto3 does not distinguish 0 from an absent field.
            Some(0) if !default.is_empty() => violations.warning(
                field,
                format_args!("0 means that it is not set: the default, {default}, is used"),
                "a whole number from 1",
            ),
            _ => {}
        }
    }
    let given = |count: Option<i32>| count.filter(|count| *count != 0).unwrap_or(1);
    let (parallel, total) = (given(spec.max_parallel_trials), given(spec.max_trials));
    if parallel > total && total >= 1 {
        violations.warning(
            "hyperparameters.maxParallelTrials",
            format_args!("{parallel} trials at once, but there are only {total} in all"),
            "more than maxTrials has no effect",
        );
    }
}

fn check_parameter(path: &str, parameter: &ParameterSpec, violations: &mut Violations) {
    let kind = parameter.parameter_type;
    let bounds = [("minValue", parameter.min_value), ("maxValue", parameter.max_value)];
    match kind {
        ParameterType::ParameterTypeUnspecified => {
            violations.error(
                format_args!("{path}.type"),
                "is not given",
                "one of DOUBLE, INTEGER, CATEGORICAL, DISCRETE",
            );
            return;
        }
        ParameterType::Double | ParameterType::Integer => check_range(path, parameter, violations),
        ParameterType::Categorical => {
            for (field, bound) in bounds {
                if let Some(bound) = bound {
                    let allowed = "unset for a CATEGORICAL parameter";
                    violations.error(format_args!("{path}.{field}"), format_args!("{bound} is given"), allowed);
                }
            }
            if parameter.scale_type != ScaleType::None {
                violations.error(
                    format_args!("{path}.scaleType"),
                    "a scale is given",
                    "unset for a CATEGORICAL parameter, whose values have no order",
                );
            }
            check_levels(path, &parameter.categorical_values, violations);
        }
        ParameterType::Discrete => {
            for (field, bound) in bounds {
                if let Some(bound) = bound {
                    violations.warning(
                        format_args!("{path}.{field}"),
                        format_args!("{bound} is ignored for a DISCRETE parameter"),
                        "discreteValues alone define the allowed values",
                    );
                }
            }
            check_points(path, &parameter.discrete_values, parameter.scale_type, violations);
        }
    }
    if kind != ParameterType::Categorical && !parameter.categorical_values.is_empty() {
        violations.warning(
            format_args!("{path}.categoricalValues"),
            "is ignored: the parameter is not CATEGORICAL",
            "only for type CATEGORICAL",
        );
    }
    if kind != ParameterType::Discrete && !parameter.discrete_values.is_empty() {
        violations.warning(
            format_args!("{path}.discreteValues"),
            "is ignored: the parameter is not DISCRETE",
            "only for type DISCRETE",
        );
    }
}

fn check_range(path: &str, parameter: &ParameterSpec, violations: &mut Violations) {
    let integer = parameter.parameter_type == ParameterType::Integer;
    let kind = if integer { "INTEGER" } else { "DOUBLE" };
    let mut usable = true;
    for (field, bound) in [("minValue", parameter.min_value), ("maxValue", parameter.max_value)] {
        let field = format!("{path}.{field}");
        let Some(bound) = bound else {
            if parameter.bounds().is_some() {
                violations.warning(&field, "is missing and defaults to 0", format_args!("a bound of the {kind}"));
            } else if parameter.max_value.is_none() {
                violations.error(&field, "is missing", format_args!("required for {kind}"));
            }
            continue;
        };
        let problem = if !bound.0.is_finite() {
            Some(("is not a finite number", "a finite number"))
        } else if integer && bound.0.fract() != 0.0 {
            Some(("is not a whole number", "a whole number for INTEGER"))
        } else if integer && bound.is_too_large() {
            Some(("is too large to be exact", "a whole number from -2^53 to 2^53"))
        } else {
            None
        };
        if let Some((problem, allowed)) = problem {
            violations.error(&field, format_args!("{bound} {problem}"), allowed);
            usable = false;
        }
    }
    let (Some((min, max)), true) = (parameter.bounds(), usable) else { return };
    if min > max {
        violations.error(
            format_args!("{path}.maxValue"),
            format_args!("{max} is below minValue {min}"),
            "minValue or more",
        );
    }
    let (min, max) = (*min, *max);
    check_width(&format!("{path}.maxValue"), min, max, violations);
    check_scale(path, "minValue", parameter.scale_type, min, violations);
    if !integer && parameter.scale_type == ScaleType::UnitReverseLogScale && 0.0 < min.0 && min < max {
        check_reverse_log(path, min.0, max.0, violations);
    }
}

/// Warns about a reverse logarithmic scale of doubles from `min`, above 0, to `max` that double precision cannot
/// resolve: near `max`, adjacent doubles differ by a relative 2^-53.
pub(super) fn check_reverse_log(path: &str, min: f64, max: f64, violations: &mut Violations) {
    let lost = reverse_log_share_at_upper_end(min, max);
    if lost < MOST_LOST {
        return;
    }
    violations.warning(
        format_args!("{path}.scaleType"),
        format_args!(
            "UNIT_REVERSE_LOG_SCALE from {} to {}: {:.0}% of the scale rounds to its upper end, so that many trials get {}",
            Rounded(min),
            Rounded(max),
            100.0 * lost,
            Rounded(max)
        ),
        "fewer than 15 decades, or UNIT_LOG_SCALE, which is finest near minValue",
    );
}

/// Checks for overflow: encodings compute the width of a range and the sum of its bounds.
fn check_width(field: &str, min: Double, max: Double, violations: &mut Violations) {
    if min.0.is_finite() && max.0.is_finite() && !((max.0 - min.0).is_finite() && (max.0 + min.0).is_finite()) {
        violations.error(
            field,
            format_args!("the range from {min} to {max} is too wide for double precision"),
            "difference and sum of the bounds within 1.8e308",
        );
    }
}

fn check_scale(path: &str, field: &str, scale: ScaleType, min: Double, violations: &mut Violations) {
    let name = match scale {
        ScaleType::None | ScaleType::UnitLinearScale => return,
        ScaleType::UnitLogScale => "UNIT_LOG_SCALE",
        ScaleType::UnitReverseLogScale => "UNIT_REVERSE_LOG_SCALE",
    };
    if min.0 <= 0.0 {
        violations.error(
            format_args!("{path}.{field}"),
            format_args!("{min} is not possible on a logarithmic scale"),
            format_args!("above 0 with {name}"),
        );
    }
}

fn check_levels(path: &str, levels: &[String], violations: &mut Violations) {
    if levels.is_empty() {
        violations.error(format_args!("{path}.categoricalValues"), "is missing or empty", "required for CATEGORICAL");
    }
    let mut first_use: HashMap<&str, usize> = HashMap::new();
    for (index, level) in levels.iter().enumerate() {
        let first = *first_use.entry(level).or_insert(index);
        if first != index {
            violations.error(
                format_args!("{path}.categoricalValues[{index}]"),
                format_args!("{level:?} is listed twice, first at index {first}"),
                "different values",
            );
        }
    }
}

fn check_points(path: &str, points: &[Number], scale: ScaleType, violations: &mut Violations) {
    let field = format!("{path}.discreteValues");
    let Some(first) = points.first() else {
        violations.error(&field, "is missing or empty", "required for DISCRETE");
        return;
    };
    if points.len() > MAX_DISCRETE_VALUES {
        violations.error(
            &field,
            format_args!("{} values are given", points.len()),
            format_args!("at most {MAX_DISCRETE_VALUES}"),
        );
    }
    for (index, point) in points.iter().enumerate() {
        if !point.0.is_finite() {
            violations.error(
                format_args!("{field}[{index}]"),
                format_args!("{point} is not a finite number"),
                "finite numbers",
            );
        }
        if point.is_too_large() {
            let message = format_args!("{point} is too large to be exact");
            violations.error(format_args!("{field}[{index}]"), message, "whole numbers from -2^53 to 2^53");
        }
        if let Some(before) = index.checked_sub(1).map(|before| points[before]).filter(|before| point <= before) {
            violations.error(
                format_args!("{field}[{index}]"),
                format_args!("{point} follows {before}"),
                "strictly increasing values",
            );
        }
    }
    if let Some(last) = points.last() {
        check_width(&field, **first, **last, violations);
    }
    check_scale(path, "discreteValues[0]", scale, **first, violations);
}

pub(super) fn check_resolutions(spec: &HyperparameterSpec, additions: &Additions, violations: &mut Violations) {
    let doubles: Vec<&str> = spec
        .params
        .iter()
        .filter(|parameter| parameter.parameter_type == ParameterType::Double)
        .map(|parameter| parameter.parameter_name.as_str())
        .collect();
    for name in additions.double_resolution.keys() {
        let field = format!("tunesmith.doubleResolution.{name}");
        if !doubles.contains(&name.as_str()) {
            let listed = if doubles.is_empty() { "there are none".to_owned() } else { doubles.join(", ") };
            violations.error_with_help(
                &field,
                format_args!("{name:?} is not a DOUBLE parameter of this config"),
                format_args!("names of DOUBLE parameters: {listed}"),
                super::nearest(name, doubles.iter().copied()).map(|name| format!("did you mean `{name}`?")),
            );
        }
    }
    if !additions.double_resolution.is_empty() && spec.algorithm != Algorithm::GridSearch {
        violations.warning(
            "tunesmith.doubleResolution",
            "has no effect without algorithm GRID_SEARCH",
            "only with GRID_SEARCH",
        );
    }
}
