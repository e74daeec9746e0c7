//! Size limits on the lists of a job or study. Some rules compare list entries pairwise.

use super::optimizer::FieldViolation;
use super::optimizer::{StudyConfig, StudyParameterSpec};
use super::violations::Violations;
use super::{Additions, HyperparameterSpec};

/// Maximum parameters, including conditional ones.
pub const MAX_PARAMETERS: usize = 10_000;

/// Maximum values per parameter.
const MAX_VALUES: usize = 10_000;

const MAX_METRICS: usize = 1_000;

/// Maximum conditions per job.
const MAX_CONDITIONS: usize = 1_000;

/// Checks a job's list sizes, and returns whether to check the other rules.
pub(super) fn check(spec: &HyperparameterSpec, additions: &Additions, violations: &mut Violations) -> bool {
    let mut is_valid = true;
    let mut at_most = |field: &str, count: usize, most: usize| {
        if count > most {
            violations.error(field, format_args!("has {count} entries"), format_args!("at most {most}"));
            is_valid = false;
        }
    };
    at_most("hyperparameters.params", spec.params.len(), MAX_PARAMETERS);
    at_most("tunesmith.metrics", additions.metrics.len(), MAX_METRICS);
    at_most("tunesmith.conditions", additions.conditions.len(), MAX_CONDITIONS);
    for (index, condition) in additions.conditions.iter().enumerate() {
        at_most(&format!("tunesmith.conditions[{index}].values"), condition.values.len(), MAX_VALUES);
    }
    for (index, parameter) in spec.params.iter().enumerate() {
        let path = format!("hyperparameters.params[{index}]");
        at_most(&format!("{path}.categoricalValues"), parameter.categorical_values.len(), MAX_VALUES);
        at_most(&format!("{path}.discreteValues"), parameter.discrete_values.len(), MAX_VALUES);
    }
    is_valid
}

/// Checks a study's list sizes.
///
/// # Errors
/// The first list that is too long.
pub fn check_study(config: &StudyConfig) -> Result<(), FieldViolation> {
    at_most("studyConfig.metrics", config.metrics.len(), MAX_METRICS)?;
    let mut parameters = 0;
    check_parameters(&config.parameters, "studyConfig.parameters", &mut parameters)
}

/// Checks `specs` at `path`, after `parameters` earlier ones.
fn check_parameters(specs: &[StudyParameterSpec], path: &str, parameters: &mut usize) -> Result<(), FieldViolation> {
    *parameters += specs.len();
    at_most(path, *parameters, MAX_PARAMETERS)?;
    for (index, spec) in specs.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let lists = [
            ("categoricalValueSpec", spec.categorical_value_spec.as_ref().map(|list| list.values.len())),
            ("discreteValueSpec", spec.discrete_value_spec.as_ref().map(|list| list.values.len())),
            ("parentCategoricalValues", spec.parent_categorical_values.as_ref().map(|list| list.values.len())),
            ("parentDiscreteValues", spec.parent_discrete_values.as_ref().map(|list| list.values.len())),
            ("parentIntValues", spec.parent_int_values.as_ref().map(|list| list.values.len())),
        ];
        for (field, count) in lists {
            at_most(&format!("{path}.{field}.values"), count.unwrap_or_default(), MAX_VALUES)?;
        }
        check_parameters(&spec.child_parameter_specs, &format!("{path}.childParameterSpecs"), parameters)?;
    }
    Ok(())
}

fn at_most(field: &str, count: usize, most: usize) -> Result<(), FieldViolation> {
    if count <= most {
        return Ok(());
    }
    let description = format!("has {count} entries; at most {most} are allowed");
    Err(FieldViolation { field: field.to_owned(), description })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn lists_of_jobs_are_limited() {
        let fields = |spec: Value, additions: Value| {
            let mut violations = Violations::default();
            let spec: HyperparameterSpec = serde_json::from_value(spec).unwrap();
            let is_valid = check(&spec, &serde_json::from_value(additions).unwrap(), &mut violations);
            let fields: Vec<String> = violations.into_vec().into_iter().map(|violation| violation.field).collect();
            assert_eq!(is_valid, fields.is_empty());
            fields
        };
        let levels = |count| json!({"params": [{"categoricalValues": vec!["a"; count]}]});
        assert_eq!(fields(levels(MAX_VALUES), json!({})), [""; 0]);
        assert_eq!(fields(levels(MAX_VALUES + 1), json!({})), ["hyperparameters.params[0].categoricalValues"]);
        assert_eq!(
            fields(json!({"params": vec![json!({}); MAX_PARAMETERS + 1]}), json!({})),
            ["hyperparameters.params"]
        );
        let metrics = json!({"metrics": vec![json!({"metric": "a"}); MAX_METRICS + 1]});
        assert_eq!(fields(json!({}), metrics), ["tunesmith.metrics"]);
    }

    #[test]
    fn lists_of_studies_are_limited() {
        let refused = |config: Value| check_study(&serde_json::from_value(config).unwrap()).unwrap_err();
        let metrics = refused(json!({"metrics": vec![json!({"metric": "a"}); MAX_METRICS + 1]}));
        assert_eq!(metrics.field, "studyConfig.metrics");
        assert_eq!(metrics.description, "has 1001 entries; at most 1000 are allowed");
        let parameter = json!({"parameter": "x", "type": "DOUBLE"});
        let with_children = |count: usize| {
            let children = vec![parameter.clone(); count];
            json!({"parameters": [{"parameter": "p", "type": "DISCRETE", "childParameterSpecs": children}]})
        };
        let children = refused(with_children(MAX_PARAMETERS));
        assert_eq!(children.field, "studyConfig.parameters[0].childParameterSpecs");
        check_study(&serde_json::from_value(with_children(MAX_PARAMETERS - 1)).unwrap()).unwrap();
    }
}
