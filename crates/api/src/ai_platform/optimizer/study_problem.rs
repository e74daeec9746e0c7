//! Conversion of a `StudyConfig` to domain types, reporting all violated rules.

use std::collections::BTreeMap;

use tunesmith_algorithms::problem::{
    Condition, ConstraintSpec, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ProblemStatement, ScaleType,
    SearchSpace,
};

use super::study_additions::as_of_a_job;
use super::study_config::{StudyConfig, StudyParameterSpec, StudyScaleType};
use super::{ParameterNames, PublishedNames};
use crate::ai_platform::algorithm::check_algorithm;
use crate::ai_platform::early_stopping::{SETTINGS, stopping_rule};
use crate::ai_platform::hyperparameter_rules::{check_resolutions, check_reverse_log};
use crate::ai_platform::prior_knowledge_rules::check_prior_knowledge;
use crate::ai_platform::rpc::FieldViolation;
use crate::ai_platform::size_limits;
use crate::ai_platform::study_spec::{initial_points, with_prior};
use crate::ai_platform::study_stopping::check_study_stopping;
use crate::ai_platform::violations::Violations;
use crate::ai_platform::{
    Additions, Algorithm, EarlyStoppingSettings, HyperparameterSpec, Notice, Number, ParameterType, Severity, Violation,
};
use tunesmith_domain::{StoppingRuleKind, StudySpec};

/// Study specified by a `StudyConfig`.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyPlan {
    pub spec: StudySpec,
    /// Seed of all random choices, if given.
    pub seed: Option<u64>,
    /// IDs of related source studies, as given.
    pub prior_studies: Vec<String>,
    /// IDs of continued source studies, as given.
    pub continued_studies: Vec<String>,
    /// Notices about settings without effect.
    pub notices: Vec<Notice>,
}

/// Converts `config` to a study.
///
/// # Errors
/// All violated rules.
pub fn study_plan(config: &StudyConfig) -> Result<StudyPlan, Vec<FieldViolation>> {
    size_limits::check_study(config).map_err(|violation| vec![violation])?;
    let mut reading =
        Reading { names: ParameterNames::of(config), places: Vec::new(), violations: Vec::new(), notices: Vec::new() };
    let metrics = reading.metrics(config);
    let mut parameters = Vec::new();
    let mut path = Vec::new();
    for (index, spec) in config.parameters.iter().enumerate() {
        path.push(index);
        reading.parameter(spec, None, &mut path, &mut parameters);
        path.pop();
    }
    let (stopping_rule, stopping_axis) = reading.stopping(config);
    let additions = &config.tunesmith;
    let positive = |reading: &mut Reading, field: &str, value: Option<i64>| {
        if value.is_some_and(|value| value < 1) {
            reading.refuse(format!("tunesmith.{field}"), "must be at least 1");
        }
        value.map(i64::cast_unsigned)
    };
    let max_trials = positive(&mut reading, "maxTrials", additions.max_trials.map(|count| count.0));
    if additions.trial_lease.is_some_and(|lease| lease.0.is_zero()) {
        reading.refuse("tunesmith.trialLease".to_owned(), "must be longer than 0s");
    }
    reading.check_metrics(config);
    if reading.is_valid() {
        let (as_of_a_job, references) = as_of_a_job(&parameters, config.algorithm, additions);
        reading.check_search(&as_of_a_job, &references, metrics.0.len());
        if !reading.is_valid() {
            return Err(reading.violations);
        }
        let with_priors = (0..).zip(parameters).map(|(index, spec)| with_prior(spec, index, &as_of_a_job, &references));
        match with_priors.collect() {
            Ok(with_priors) => parameters = with_priors,
            // Excluded by the rules above.
            Err(error) => return Err(reading.refused("tunesmith.priors", &error)),
        }
    }
    let problem = if reading.is_valid() { reading.problem(parameters, metrics) } else { None };
    let Some(problem) = problem else { return Err(reading.violations) };
    let problem = problem.with_observation_noise(additions.observation_noise.to_domain());
    let max_trials = additions.study_stopping_config.limit(max_trials);
    let repeated = additions.repeats.as_ref().map(|repeats| repeats.add_to(problem.clone(), max_trials)).transpose();
    let problem = match repeated {
        Ok(repeated) => repeated.unwrap_or(problem),
        Err(error) => return Err(reading.refused("tunesmith.repeats", &error)),
    };
    reading.check_published_names(problem.search_space());
    if !reading.is_valid() {
        return Err(reading.violations);
    }
    let (as_of_a_job, references) = as_of_a_job(problem.search_space().parameters(), config.algorithm, additions);
    let initial_points = match initial_points(&problem, &as_of_a_job, &references) {
        Ok(points) => points,
        Err(error) => return Err(reading.refused("tunesmith.initialTrials", &error)),
    };
    let spec = StudySpec {
        problem,
        initial_points,
        algorithm: config.algorithm.to_domain(&additions.double_resolution),
        stopping_rule,
        stopping_axis,
        study_stopping: additions.study_stopping_config.to_domain(),
        final_measurement: additions.final_measurement.to_domain(),
        max_trials,
        trial_lease: additions.trial_lease.map(|lease| lease.0),
    };
    Ok(StudyPlan {
        spec,
        seed: additions.seed.map(|seed| seed.0.cast_unsigned()),
        prior_studies: additions.prior_studies.clone(),
        continued_studies: additions.continued_studies.clone(),
        notices: reading.notices,
    })
}

struct Reading {
    names: ParameterNames,
    /// Path of each parameter, in parameter order.
    places: Vec<String>,
    violations: Vec<FieldViolation>,
    notices: Vec<Notice>,
}

impl Reading {
    fn refuse(&mut self, field: String, description: impl Into<String>) {
        self.violations.push(FieldViolation { field: format!("studyConfig.{field}"), description: description.into() });
    }

    fn is_valid(&self) -> bool {
        self.violations.is_empty()
    }

    /// Returns all violations, ending with the fault `error` of `field`.
    fn refused(mut self, field: &str, error: &dyn std::error::Error) -> Vec<FieldViolation> {
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        self.refuse(field.to_owned(), text);
        self.violations
    }

    /// Adds violations of rules shared with jobs.
    fn add(&mut self, violations: Violations) {
        for violation in violations.into_vec() {
            match violation.severity {
                Severity::Warning => self.notices.push(Notice::of_warning("studyConfig.", violation)),
                Severity::Error => {
                    let Violation { field, message, allowed, .. } = violation;
                    self.refuse(field, format!("{message}; allowed: {allowed}"));
                }
            }
        }
    }

    /// Checks restrictions of several metrics, and the rules that end the study.
    fn check_metrics(&mut self, config: &StudyConfig) {
        if config.metrics.len() > 1 && matches!(config.algorithm, Algorithm::Tpe | Algorithm::CmaEs) {
            let name = config.algorithm.to_domain(&BTreeMap::new()).as_str();
            let reason = format!(
                "{name} optimises one metric, not {}; allowed: ALGORITHM_UNSPECIFIED, GAUSSIAN_PROCESS_BANDIT, \
                 GRID_SEARCH, RANDOM_SEARCH or QUASI_RANDOM_SEARCH, or one metric",
                config.metrics.len()
            );
            self.refuse("algorithm".to_owned(), reason);
        }
        let mut violations = Violations::default();
        let constraints = config.metrics.iter().filter(|metric| metric.safety_config.is_some()).count();
        let metrics = config.metrics.len() - constraints;
        check_study_stopping(&config.tunesmith.study_stopping_config, metrics, constraints, &mut violations);
        self.add(violations);
    }

    /// Checks the algorithm, the grid, the priors, the initial trials and the repeats by the rules of jobs.
    fn check_search(&mut self, spec: &HyperparameterSpec, additions: &Additions, metrics: usize) {
        let mut violations = Violations::default();
        let places = &self.places;
        check_algorithm(spec, additions, |index| places[index].clone(), &mut violations);
        additions.observation_noise.check(spec.algorithm, &mut violations);
        check_resolutions(spec, additions, &mut violations);
        check_prior_knowledge(spec, additions, &mut violations);
        additions.repeats.iter().for_each(|it| it.check(spec, &additions.conditions, metrics, &mut violations));
        self.add(violations);
    }

    fn metrics(&mut self, config: &StudyConfig) -> (Vec<MetricSpec>, Vec<ConstraintSpec>) {
        if config.metrics.is_empty() {
            self.refuse("metrics".to_owned(), "at least one metric is needed");
        } else if config.metrics.iter().all(|metric| metric.safety_config.is_some()) {
            self.refuse("metrics".to_owned(), "at least one metric without safetyConfig is needed: it is optimised");
        }
        for (index, metric) in config.metrics.iter().enumerate() {
            let field = format!("metrics[{index}].metric");
            if metric.metric.is_empty() {
                self.refuse(field, "a metric needs a name");
            } else if config.metrics[..index].iter().any(|earlier| earlier.metric == metric.metric) {
                self.refuse(field, format!("{:?} is given twice", metric.metric));
            }
            if let Some(safety) = &metric.safety_config {
                let mut violations = Violations::default();
                safety.check(&format!("metrics[{index}]"), &mut violations);
                self.add(violations);
            }
        }
        let (mut metrics, mut constraints) = (Vec::new(), Vec::new());
        for metric in &config.metrics {
            match &metric.safety_config {
                None => metrics.push(MetricSpec { name: metric.metric.clone(), goal: metric.goal.to_domain() }),
                Some(safety) => constraints.push(safety.constraint(&metric.metric, metric.goal)),
            }
        }
        (metrics, constraints)
    }

    /// Adds `spec` and its children to `parameters`. `path` is the index path of `spec` in the configuration.
    fn parameter(
        &mut self,
        spec: &StudyParameterSpec,
        parent: Option<(&StudyParameterSpec, &str)>,
        path: &mut Vec<usize>,
        parameters: &mut Vec<ParameterSpec>,
    ) {
        let field = path_text(path);
        if spec.parameter.is_empty() {
            self.refuse(format!("{field}.parameter"), "a parameter needs a name");
        }
        self.check_shape(spec, &field);
        let condition = parent.and_then(|(parent, name)| self.condition(spec, parent, name, &field));
        let name = self.names.internal(path).to_owned();
        if let Some(kind) = self.kind(spec, &field) {
            match ParameterSpec::new(&*name, kind) {
                Err(error) if !spec.parameter.is_empty() => self.refuse(field.clone(), error.to_string()),
                Err(_) => {}
                Ok(parameter) => {
                    if let ParameterKind::Double { min, max, scale: ScaleType::UnitReverseLog } = parameter.kind()
                        && min < max
                    {
                        let mut violations = Violations::default();
                        check_reverse_log(&field, *min, *max, &mut violations);
                        self.add(violations);
                    }
                    self.places.push(field);
                    parameters.push(match condition {
                        Some(condition) => parameter.with_condition(condition),
                        None => parameter,
                    });
                }
            }
        }
        self.check_disjoint(spec, &path_text(path));
        for (index, child) in spec.child_parameter_specs.iter().enumerate() {
            path.push(index);
            self.parameter(child, Some((spec, &name)), path, parameters);
            path.pop();
        }
    }

    /// Reports children of the same name that are active for the same value of `parent`, at path `field`.
    fn check_disjoint(&mut self, parent: &StudyParameterSpec, field: &str) {
        let children = &parent.child_parameter_specs;
        for (index, child) in children.iter().enumerate() {
            let earlier = children[..index].iter().enumerate().filter(|(_, other)| other.parameter == child.parameter);
            let shared = earlier.filter_map(|(first, other)| Some((first, shared_parent_value(other, child)?))).next();
            if let Some((first, (values, value))) = shared {
                let reason = format!(
                    "{value} is also a parent value of childParameterSpecs[{first}], which has the same name, {:?}: a trial \
                     with this value would have both; allowed: values that no other child of the name has",
                    child.parameter
                );
                self.refuse(format!("{field}.childParameterSpecs[{index}].{values}"), reason);
            }
        }
    }

    /// Reports missing and superfluous value specs, and conditions of parameters without a parent.
    fn check_shape(&mut self, spec: &StudyParameterSpec, field: &str) {
        let specs = [
            ("doubleValueSpec", ParameterType::Double, spec.double_value_spec.is_some()),
            ("integerValueSpec", ParameterType::Integer, spec.integer_value_spec.is_some()),
            ("categoricalValueSpec", ParameterType::Categorical, spec.categorical_value_spec.is_some()),
            ("discreteValueSpec", ParameterType::Discrete, spec.discrete_value_spec.is_some()),
        ];
        if spec.parameter_type == ParameterType::ParameterTypeUnspecified {
            self.refuse(format!("{field}.type"), "must be DOUBLE, INTEGER, CATEGORICAL or DISCRETE");
            return;
        }
        for (name, of, is_there) in specs {
            if of == spec.parameter_type && !is_there {
                self.refuse(format!("{field}.{name}"), "is required for this type");
            } else if of != spec.parameter_type && is_there {
                self.refuse(format!("{field}.{name}"), "does not belong to this type");
            }
        }
        if spec.parameter_type == ParameterType::Categorical && spec.scale_type != StudyScaleType::ScaleTypeUnspecified
        {
            self.refuse(format!("{field}.scaleType"), "must be unset for CATEGORICAL");
        }
    }

    fn kind(&mut self, spec: &StudyParameterSpec, field: &str) -> Option<ParameterKind> {
        let scale = match spec.scale_type {
            StudyScaleType::ScaleTypeUnspecified | StudyScaleType::UnitLinearScale => ScaleType::UnitLinear,
            StudyScaleType::UnitLogScale => ScaleType::UnitLog,
            StudyScaleType::UnitReverseLogScale => ScaleType::UnitReverseLog,
        };
        Some(match spec.parameter_type {
            ParameterType::ParameterTypeUnspecified => return None,
            ParameterType::Double => {
                let range = spec.double_value_spec.as_ref()?;
                ParameterKind::Double { min: range.min_value.0, max: range.max_value.0, scale }
            }
            ParameterType::Integer => {
                let range = spec.integer_value_spec.as_ref()?;
                for (name, bound) in [("minValue", range.min_value), ("maxValue", range.max_value)] {
                    let number = Number::from(i128::from(bound.0));
                    if number.as_exact_integer().is_none() {
                        let reason =
                            format!("{bound} is too large to be exact; allowed: a whole number from -2^53 to 2^53");
                        self.refuse(format!("{field}.integerValueSpec.{name}"), reason);
                    }
                }
                ParameterKind::Integer { min: range.min_value.0, max: range.max_value.0, scale }
            }
            ParameterType::Categorical => {
                ParameterKind::Categorical { values: spec.categorical_value_spec.as_ref()?.values.clone() }
            }
            ParameterType::Discrete => {
                let written = &spec.discrete_value_spec.as_ref()?.values;
                self.check_exact(written, &format!("{field}.discreteValueSpec.values"));
                let values: Vec<f64> = written.iter().map(|value| value.0).collect();
                if values.windows(2).any(|pair| pair[0] >= pair[1]) {
                    self.refuse(format!("{field}.discreteValueSpec.values"), "must be strictly increasing");
                    return None;
                }
                ParameterKind::Discrete { values, scale }
            }
        })
    }

    /// Reports each of `values`, at path `field`, that is too large to be exact.
    fn check_exact(&mut self, values: &[Number], field: &str) {
        for (index, value) in values.iter().enumerate().filter(|(_, value)| value.is_too_large()) {
            let reason = format!("{value} is too large to be exact; allowed: whole numbers from -2^53 to 2^53");
            self.refuse(format!("{field}[{index}]"), reason);
        }
    }

    fn condition(
        &mut self,
        child: &StudyParameterSpec,
        parent: &StudyParameterSpec,
        parent_name: &str,
        field: &str,
    ) -> Option<Condition> {
        let categorical = child.parent_categorical_values.as_ref().map(|values| {
            let values = values.values.iter().map(|value| ParameterValue::Categorical(value.clone())).collect();
            ("parentCategoricalValues", ParameterType::Categorical, values)
        });
        if let Some(values) = &child.parent_discrete_values {
            self.check_exact(&values.values, &format!("{field}.parentDiscreteValues.values"));
        }
        let discrete = child.parent_discrete_values.as_ref().map(|values| {
            let values = values.values.iter().map(|value| ParameterValue::Discrete(value.0)).collect();
            ("parentDiscreteValues", ParameterType::Discrete, values)
        });
        let integer = child.parent_int_values.as_ref().map(|values| {
            let values = values.values.iter().map(|value| ParameterValue::Integer(value.0)).collect();
            ("parentIntValues", ParameterType::Integer, values)
        });
        let given: Vec<(&str, ParameterType, Vec<ParameterValue>)> =
            [categorical, discrete, integer].into_iter().flatten().collect();
        let Ok([(name, of, values)]) = <[_; 1]>::try_from(given) else {
            let description = "a child needs exactly one of parentCategoricalValues, parentDiscreteValues and \
                               parentIntValues";
            self.refuse(field.to_owned(), description);
            return None;
        };
        if of != parent.parameter_type {
            let parent = &parent.parameter;
            self.refuse(format!("{field}.{name}"), format!("the parent {parent:?} is of another type"));
            return None;
        }
        Some(Condition::new(parent_name, values))
    }

    fn stopping(
        &mut self,
        config: &StudyConfig,
    ) -> (Option<tunesmith_domain::StoppingRule>, tunesmith_domain::CurveAxis) {
        let automated = config.automated_stopping_config.as_ref();
        let (mut kind, mut axis) = (config.tunesmith.early_stopping, tunesmith_domain::CurveAxis::Step);
        let field = if kind.is_some() { "tunesmith.earlyStopping" } else { "automatedStoppingConfig" };
        let published = [
            (StoppingRuleKind::DecayCurve, automated.and_then(|rules| rules.decay_curve_stopping_config.as_ref())),
            (StoppingRuleKind::Median, automated.and_then(|rules| rules.median_automated_stopping_config.as_ref())),
        ];
        for (rule, config) in published {
            let Some(config) = config else { continue };
            if kind.is_some_and(|kind| kind != rule || field != "automatedStoppingConfig") {
                let reason = if field == "automatedStoppingConfig" {
                    "only one rule may be set"
                } else {
                    "the rule is given as tunesmith.earlyStopping; allowed: one of them"
                };
                self.refuse("automatedStoppingConfig".to_owned(), reason);
                return (None, axis);
            }
            kind = Some(rule);
            if config.use_elapsed_time {
                axis = tunesmith_domain::CurveAxis::ElapsedTime;
            }
        }
        let settings = &config.tunesmith.early_stopping_settings;
        let mut violations = Violations::default();
        let Some(kind) = kind else {
            if *settings != EarlyStoppingSettings::default() {
                let allowed = "only with automatedStoppingConfig or tunesmith.earlyStopping";
                violations.warning(SETTINGS, "has no effect without a rule of early stopping", allowed);
                self.add(violations);
            }
            return (None, axis);
        };
        // Constraints are not compared.
        if config.metrics.iter().filter(|metric| metric.safety_config.is_none()).count() > 1 {
            self.refuse(field.to_owned(), "is only for studies with one metric besides constraints");
        }
        let rule = stopping_rule(kind, settings, &mut violations);
        self.add(violations);
        (rule, axis)
    }

    /// Reports names that would be published as others: `x#2` beside `x`, both children of one parent.
    fn check_published_names(&mut self, space: &SearchSpace) {
        let published = PublishedNames::of(space);
        let misread = self.names.stored().filter(|(stored, given)| published.published(stored) != *given);
        let misread: Vec<String> = misread.map(|(stored, _)| stored.to_owned()).collect();
        for name in misread {
            let reason = format!("{name:?} is reserved for a second parameter of the name before the number sign");
            self.refuse("parameters".to_owned(), reason);
        }
    }

    fn problem(
        &mut self,
        parameters: Vec<ParameterSpec>,
        (metrics, constraints): (Vec<MetricSpec>, Vec<ConstraintSpec>),
    ) -> Option<ProblemStatement> {
        let space = match SearchSpace::new(parameters) {
            Ok(space) => space,
            Err(error) => {
                self.refuse("parameters".to_owned(), error.to_string());
                return None;
            }
        };
        match ProblemStatement::new(space, metrics).and_then(|problem| problem.with_constraints(constraints)) {
            Ok(problem) => Some(problem),
            Err(error) => {
                self.refuse("metrics".to_owned(), error.to_string());
                None
            }
        }
    }
}

/// First parent value for which both children are active, with the name of its field.
fn shared_parent_value(
    first: &StudyParameterSpec,
    second: &StudyParameterSpec,
) -> Option<(&'static str, ParameterValue)> {
    fn shared<T: PartialEq>(first: &[T], second: &[T]) -> Option<usize> {
        second.iter().position(|value| first.contains(value))
    }
    if let (Some(first), Some(second)) = (&first.parent_categorical_values, &second.parent_categorical_values) {
        let value = second.values[shared(&first.values, &second.values)?].clone();
        return Some(("parentCategoricalValues.values", ParameterValue::Categorical(value)));
    }
    if let (Some(first), Some(second)) = (&first.parent_discrete_values, &second.parent_discrete_values) {
        let value = second.values[shared(&first.values, &second.values)?].0;
        return Some(("parentDiscreteValues.values", ParameterValue::Discrete(value)));
    }
    let (first, second) = (first.parent_int_values.as_ref()?, second.parent_int_values.as_ref()?);
    let value = second.values[shared(&first.values, &second.values)?].0;
    Some(("parentIntValues.values", ParameterValue::Integer(value)))
}

/// Formats `[0, 2]` as `parameters[0].childParameterSpecs[2]`.
fn path_text(path: &[usize]) -> String {
    let parts = path.iter().enumerate().map(|(depth, index)| match depth {
        0 => format!("parameters[{index}]"),
        _ => format!(".childParameterSpecs[{index}]"),
    });
    parts.collect()
}

#[cfg(test)]
mod tests;
