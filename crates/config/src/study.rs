//! Configuration of a study without a job, as sent to the API, with every error located in the text.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::{Schema, json_schema};
use serde_json::{Value, json};

use super::conversion::Conversion;
use super::diagnostic::{ConfigErrors, Diagnostic, Finding, Source, diagnostics};
use super::shape::Shape;
use super::yaml;
use tunesmith_api::ai_platform::Severity;
use tunesmith_api::ai_platform::optimizer::{StudyConfig, study_plan};

const STUDY_CONFIG: &str = "studyConfig";

static PLAIN: LazyLock<Shape> =
    LazyLock::new(|| Shape::of(&SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<StudyConfig>()));

/// JSON Schema (draft 2020-12) of a study configuration: a `studyConfig`, plain or under its key.
pub fn study_json_schema() -> Schema {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let plain = generator.subschema_for::<StudyConfig>();
    let definitions = generator.take_definitions(true);
    json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": STUDY_CONFIG,
        "if": { "required": [STUDY_CONFIG] },
        "then": { "type": "object", "additionalProperties": false, "properties": { STUDY_CONFIG: plain } },
        "else": plain,
        "$defs": definitions,
    })
}

static WRAPPED: LazyLock<Shape> = LazyLock::new(|| Shape::Message {
    fields: [(STUDY_CONFIG.to_owned(), PLAIN.clone())].into(),
    required: vec![STUDY_CONFIG.to_owned()],
    instead: None,
});

#[derive(Debug, Clone, PartialEq)]
pub struct StudyDraft {
    /// Body of the create request.
    pub request: Value,
    /// Warnings about settings without effect, in text order.
    pub warnings: Vec<Diagnostic>,
}

/// Parses a study configuration: a `studyConfig`, plain or under its key. Messages refer to the file as `name`.
///
/// # Errors
/// [`ConfigErrors`] with all errors of the first failing step: the text, its shape, the rules of studies.
pub fn parse_study(name: &str, text: &str) -> Result<StudyDraft, ConfigErrors> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source::new(name, text);
    let (tree, mut findings) = yaml::compose(text);
    let Some(tree) = tree else { return Err(ConfigErrors::new(&source, findings)) };
    let is_wrapped = tree.has_key(STUDY_CONFIG);
    let shape: &'static Shape = if is_wrapped { &WRAPPED } else { &PLAIN };
    let (mut value, locations) = Conversion::of_shape(&mut findings, shape).file(&tree);
    if !findings.is_empty() {
        return Err(ConfigErrors::new(&source, findings));
    }
    let config = if is_wrapped { value[STUDY_CONFIG].take() } else { value };
    let plan = match serde_json::from_value::<StudyConfig>(config.clone()) {
        Ok(config) => study_plan(&config),
        Err(error) => {
            findings.push(Finding::error("", tree.span.clone(), error.to_string(), "a studyConfig"));
            return Err(ConfigErrors::new(&source, findings));
        }
    };
    // Rules name fields relative to `studyConfig`.
    let place = |field: &str| {
        let below = field.strip_prefix(STUDY_CONFIG).map_or(field, |rest| rest.trim_start_matches('.'));
        let field = if is_wrapped { format!("{STUDY_CONFIG}.{below}") } else { below.to_owned() };
        (locations.span(&field), field)
    };
    let (request, notices) = match plan {
        Ok(plan) => (json!({ STUDY_CONFIG: config }), plan.notices),
        Err(violations) => {
            findings.extend(violations.into_iter().map(|violation| {
                let (span, field) = place(&violation.field);
                Finding::error(field, span, violation.description, "")
            }));
            return Err(ConfigErrors::new(&source, findings));
        }
    };
    findings.extend(notices.into_iter().map(|notice| {
        let (span, field) = place(&notice.field);
        Finding { severity: Severity::Warning, ..Finding::error(field, span, notice.description, "") }
    }));
    Ok(StudyDraft { request, warnings: diagnostics(&source, findings) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "studyConfig:
  metrics: [{metric: loss, goal: MINIMIZE}]
  parameters:
  - {parameter: rate, type: DOUBLE, doubleValueSpec: {minValue: 1e-5, maxValue: 1}, scaleType: UNIT_LOG_SCALE}
  - parameter: optimizer
    type: CATEGORICAL
    categoricalValueSpec: {values: [adam, sgd]}
    childParameterSpecs:
    - {parameter: momentum, type: DISCRETE, discreteValueSpec: {values: [0.5, 0.9]}, parentCategoricalValues: {values: [sgd]}}
  tunesmith: {maxTrials: 20}
";

    fn errors(text: &str) -> Vec<(usize, String, String)> {
        let errors = parse_study("study", text).unwrap_err();
        errors.diagnostics().iter().map(|one| (one.line, one.field.clone(), one.message.clone())).collect()
    }

    #[test]
    fn study_is_read_plain_and_under_its_key() {
        let draft = parse_study("study", TEXT).unwrap();
        assert_eq!(draft.warnings, []);
        assert_eq!(draft.request["studyConfig"]["parameters"][0]["doubleValueSpec"]["minValue"], 1e-5);
        let plain: String = TEXT.lines().skip(1).flat_map(|line| [line.strip_prefix("  ").unwrap(), "\n"]).collect();
        assert_eq!(parse_study("study", &plain).unwrap(), draft);
    }

    #[test]
    fn errors_have_their_line_in_shape_and_rules() {
        let unknown = errors(&TEXT.replace("maxTrials", "maxTrails"));
        assert_eq!(unknown, [(10, "studyConfig.tunesmith.maxTrails".to_owned(), "unknown field".to_owned())]);
        let text = errors(&TEXT.replace("maxTrials: 20", "maxTrials: many"));
        assert_eq!((text[0].0, text[0].1.as_str()), (10, "studyConfig.tunesmith.maxTrials"));
        let nested = errors(&TEXT.replace("values: [sgd]}}", "values: [sgdx]}}"));
        assert_eq!((nested[0].0, nested[0].1.as_str()), (3, "studyConfig.parameters"), "{nested:?}");
        let empty = errors(&TEXT.replace("maxValue: 1}", "maxValue: 1e-6}"));
        assert_eq!(empty[0].0, 4, "{empty:?}");
        assert!(empty[0].1.starts_with("studyConfig.parameters[0]"), "{empty:?}");
        assert_eq!(errors("metrics: [")[0].1, "");
    }
}
