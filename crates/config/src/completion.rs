//! Training input fields from the command line.

use serde_json::{Map, Value};

use super::conversion::Locations;
use super::diagnostic::Finding;
use tunesmith_api::ai_platform::proto_json::{self, MessageError};
use tunesmith_api::ai_platform::{Severity, TrainingInput, Violation};

/// Fields of a training input that a command line sets or can set.
///
/// They are merged with the file before validation, so that a file and its flags complete each other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Completion {
    /// Given fields as JSON; they take precedence over the file.
    pub input: Map<String, Value>,
    /// Path and flag of each field that can be set.
    pub flags: &'static [(&'static str, &'static str)],
    /// Whether another command may still set them. Missing fields that it can add are then only warnings.
    pub is_open: bool,
}

impl Completion {
    /// Adds the given fields to `file`, a training input as JSON. Reports and omits invalid ones.
    pub(super) fn apply(&self, file: &mut Value, findings: &mut Vec<Finding>) {
        match proto_json::from_object::<TrainingInput>(self.input.clone()) {
            Ok(_) => merge(file, &Value::Object(self.input.clone())),
            Err(error) => {
                let field = match &error {
                    MessageError::Field { field, .. } => field.as_str(),
                    MessageError::Syntax(_) | MessageError::Whole(_) => "",
                };
                let message = match &error {
                    MessageError::Field { description, .. } => description.clone(),
                    MessageError::Syntax(_) | MessageError::Whole(_) => error.to_string(),
                };
                let flag = self.flag(field).unwrap_or("the command line");
                findings.push(Finding { is_flag: true, ..Finding::error(flag, 0..0, message, "") });
            }
        }
    }

    /// Finding for `violation` of the completed training input. `prefix` is its path in the file.
    pub(super) fn finding(&self, violation: Violation, prefix: &str, locations: &Locations) -> Finding {
        let Violation { field, severity, message, allowed, help, missing } = violation;
        let flag = self.flag(&field).filter(|_| self.gives(&field));
        let other_way = missing.as_deref().and_then(|missing| self.flag(missing));
        let severity = match other_way {
            Some(_) if self.is_open => Severity::Warning,
            _ => severity,
        };
        let help = help.or_else(|| {
            let (missing, flag) = (missing.as_deref()?, other_way?);
            let moment = if self.is_open {
                "the command that submits the job can give it"
            } else {
                "the command can also give it"
            };
            Some(format!("{moment}, as {flag} ({missing})"))
        });
        let place = format!("{prefix}{field}");
        let (field, span) = match flag {
            Some(flag) => (flag.to_owned(), 0..0),
            None => (place.clone(), locations.span(&place)),
        };
        Finding { severity, field, span, message, allowed, help, is_flag: flag.is_some() }
    }

    /// Whether the command line sets `field` or an enclosing message.
    fn gives(&self, field: &str) -> bool {
        let mut value: Option<&Value> = None;
        for name in field.split('.') {
            let fields = match value {
                None => &self.input,
                Some(Value::Object(fields)) => fields,
                Some(_) => return true,
            };
            match fields.get(name.split('[').next().unwrap_or_default()) {
                Some(inner) => value = Some(inner),
                None => return false,
            }
        }
        value.is_some()
    }

    /// Flag that sets `field` or an enclosing message.
    fn flag(&self, field: &str) -> Option<&'static str> {
        let contains =
            |outer: &str| field.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        self.flags.iter().find(|(outer, _)| contains(outer)).map(|(_, flag)| *flag)
    }
}

fn merge(target: &mut Value, given: &Value) {
    match (target, given) {
        (Value::Object(fields), Value::Object(given)) => {
            for (name, value) in given {
                merge(fields.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (target, given) => *target = given.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{parse, parse_completed};

    const FLAGS: &[(&str, &str)] = &[
        ("scaleTier", "--scale-tier"),
        ("masterType", "--master-machine-type"),
        ("workerType", "--worker-machine-type"),
        ("workerCount", "--worker-count"),
        ("runtimeVersion", "--runtime-version"),
        ("masterConfig.imageUri", "--master-image-uri"),
        ("scheduling.maxWaitTime", "--max-wait-time"),
    ];

    fn flags(input: Value) -> Completion {
        let Value::Object(input) = input else { panic!("{input} is no object") };
        Completion { input, flags: FLAGS, is_open: false }
    }

    #[test]
    fn rules_are_checked_after_flags_have_completed_the_file() {
        let completed = [
            ("scaleTier: CUSTOM\n", json!({"masterType": "m"})),
            ("scaleTier: CUSTOM\nmasterType: m\nworkerCount: 2\n", json!({"workerType": "w"})),
            ("masterType: m\nworkerType: w\nworkerCount: 2\nscaleTier: BASIC\n", json!({"scaleTier": "CUSTOM"})),
            ("masterConfig: {containerArgs: [a]}\n", json!({"masterConfig": {"imageUri": "i"}})),
            ("trainingInput: {scaleTier: CUSTOM}\n", json!({"masterType": "m"})),
            ("scheduling: {maxWaitTime: 5s}\n", json!({"scheduling": {"maxWaitTime": "3600s"}})),
        ];
        for (file, given) in completed {
            assert!(parse("c.yaml", file).is_err(), "{file}");
            let config = parse_completed("c.yaml", file, &flags(given)).unwrap_or_else(|errors| panic!("{errors}"));
            assert_eq!(config.warnings, [], "{file}");
        }
    }

    #[test]
    fn messages_point_into_the_file_or_name_the_flag() {
        let missing = parse_completed("c.yaml", "region: r\nscaleTier: CUSTOM\n", &flags(json!({}))).unwrap_err();
        let [error] = missing.diagnostics() else { panic!("{missing}") };
        assert_eq!((error.field.as_str(), error.line), ("masterType", 1));
        assert!(error.help.as_ref().is_some_and(|help| help.contains("--master-machine-type")), "{missing}");
        let both = parse_completed(
            "c.yaml",
            "region: r\nruntimeVersion: '2.1'\n",
            &flags(json!({"masterConfig": {"imageUri": "i"}})),
        );
        let both = both.unwrap_err();
        assert_eq!((both.diagnostics()[0].field.as_str(), both.diagnostics()[0].line), ("runtimeVersion", 2));
        for (file, given, flag) in [
            ("masterConfig: {imageUri: i}\n", json!({"runtimeVersion": "2.1"}), "--runtime-version"),
            ("scaleTier: BASIC\n", json!({"workerCount": "2"}), "--worker-count"),
            ("region: r\n", json!({"scaleTier": "HUGE"}), "--scale-tier"),
            ("region: r\n", json!({"scheduling": {"maxWaitTime": "5s"}}), "--max-wait-time"),
        ] {
            let errors = parse_completed("c.yaml", file, &flags(given)).unwrap_err();
            assert!(errors.to_string().starts_with(&format!("error: {flag}: ")), "{errors}");
        }
    }

    #[test]
    fn what_another_command_can_add_is_a_warning() {
        let open = Completion { is_open: true, ..flags(json!({})) };
        let config =
            parse_completed("c.yaml", "scaleTier: CUSTOM\n", &open).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(config.warnings.len(), 1);
        assert!(config.warnings[0].to_string().contains("--master-machine-type"), "{}", config.warnings[0]);
        // No flag gives the machine type of evaluators.
        assert!(parse_completed("c.yaml", "scaleTier: CUSTOM\nmasterType: m\nevaluatorCount: 1\n", &open).is_err());
    }
}
