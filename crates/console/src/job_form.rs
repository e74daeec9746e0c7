//! Form beside the text of a new job. The text is authoritative: the form shows the supported values, and each change
//! of the form changes one value in the text.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tunesmith_config::{Edit, EditError, Plain, Step, edit, outline};

const FIELDS: [&str; 5] = ["goal", "hyperparameterMetricTag", "maxTrials", "maxParallelTrials", "algorithm"];

const PARAMETER_FIELDS: [&str; 7] =
    ["parameterName", "type", "minValue", "maxValue", "scaleType", "categoricalValues", "discreteValues"];

const HYPERPARAMETERS: &str = "hyperparameters";
const TRAINING_INPUT: &str = "trainingInput";
const PARAMETERS: &str = "params";
const PACKAGES: &str = "packageUris";
const MAIN: &str = "masterConfig";

/// Keys of a command, which a module replaces.
const COMMAND: [&str; 2] = ["containerCommand", "containerArgs"];

/// Maximum number of parameters in the form, and of listed paths that are only in the text. Above it, only the text can
/// be edited.
const MAX_SHOWN: usize = 200;

#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Form {
    /// Whether the text is parsable.
    pub(crate) is_readable: bool,
    pub(crate) is_study: bool,
    /// Given study values, as written.
    pub(crate) fields: Map<String, Value>,
    /// Paths of study values, including absent ones, as in error messages.
    pub(crate) paths: Map<String, Value>,
    pub(crate) parameters: Vec<Map<String, Value>>,
    pub(crate) parameter_paths: Vec<Map<String, Value>>,
    /// Paths of values that are only in the text.
    pub(crate) not_shown: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Change {
    /// Sets a study value; removes it if empty.
    Field {
        field: String,
        value: String,
    },
    /// Sets a parameter value; removes it if empty. Lists have one item per line.
    Parameter {
        index: usize,
        field: String,
        value: String,
    },
    AddParameter,
    RemoveParameter {
        index: usize,
    },
    /// Turns the job into one with a study.
    AddStudy,
    /// Adds a package to those of the job.
    AddPackage {
        uri: String,
        /// Module to run instead of a command; empty to leave the program as it is.
        #[serde(default)]
        module: String,
    },
}

impl Form {
    /// Truncates the form to the size limit.
    pub(crate) fn limited(mut self) -> Self {
        if self.parameters.len() > MAX_SHOWN {
            return Self::default();
        }
        let omitted = self.not_shown.len().saturating_sub(MAX_SHOWN);
        if omitted > 0 {
            self.not_shown.truncate(MAX_SHOWN);
            self.not_shown.push(format!("{omitted} more"));
        }
        self
    }

    pub(crate) fn of(text: &str) -> Self {
        let Some(Value::Object(file)) = outline(text) else { return Self::default() };
        let is_wrapped = file.contains_key(TRAINING_INPUT);
        let prefix = if is_wrapped { format!("{TRAINING_INPUT}.") } else { String::new() };
        let path = format!("{prefix}{HYPERPARAMETERS}");
        let mut form = Self { is_readable: true, paths: paths_below(&path, &FIELDS), ..Self::default() };
        let input = if is_wrapped {
            form.not_shown.extend(file.keys().filter(|key| *key != TRAINING_INPUT).cloned());
            file.get(TRAINING_INPUT).and_then(Value::as_object)
        } else {
            Some(&file)
        };
        let Some(input) = input else { return form };
        form.not_shown.extend(input.keys().filter(|key| *key != HYPERPARAMETERS).map(|key| format!("{prefix}{key}")));
        let Some(Value::Object(study)) = input.get(HYPERPARAMETERS) else { return form };
        form.is_study = true;
        for (key, value) in study {
            match value {
                Value::String(_) if FIELDS.contains(&key.as_str()) => {
                    form.fields.insert(key.clone(), value.clone());
                }
                Value::Null if FIELDS.contains(&key.as_str()) => {}
                Value::Array(parameters) if key == PARAMETERS => form.add_parameters(&path, parameters),
                Value::Null if key == PARAMETERS => {}
                _ => form.not_shown.push(format!("{path}.{key}")),
            }
        }
        form
    }

    fn add_parameters(&mut self, study: &str, parameters: &[Value]) {
        for (index, parameter) in parameters.iter().enumerate() {
            let path = format!("{study}.{PARAMETERS}[{index}]");
            self.parameter_paths.push(paths_below(&path, &PARAMETER_FIELDS));
            let mut shown = Map::new();
            match parameter {
                Value::Object(fields) => {
                    for (key, value) in fields {
                        if PARAMETER_FIELDS.contains(&key.as_str()) && is_shown(value) {
                            shown.insert(key.clone(), value.clone());
                        } else {
                            self.not_shown.push(format!("{path}.{key}"));
                        }
                    }
                }
                _ => self.not_shown.push(path),
            }
            self.parameters.push(shown);
        }
    }
}

fn paths_below(path: &str, fields: &[&str]) -> Map<String, Value> {
    fields.iter().map(|field| ((*field).to_owned(), Value::from(format!("{path}.{field}")))).collect()
}

/// Whether the form supports `value`: a text, or a list of single-line texts.
pub(crate) fn is_shown(value: &Value) -> bool {
    let is_line = |item: &Value| item.as_str().is_some_and(|text| !text.contains('\n') && text.trim() == text);
    match value {
        Value::String(_) => true,
        Value::Array(items) => items.iter().all(is_line),
        _ => false,
    }
}

pub(crate) fn changed(text: &str, change: &Change) -> Result<String, EditError> {
    let file = outline(text).ok_or(EditError::Unreadable)?;
    let mut root = Vec::new();
    if file.get(TRAINING_INPUT).is_some() {
        root.push(Step::Key(TRAINING_INPUT));
    }
    let study: Vec<Step<'_>> = root.iter().copied().chain([Step::Key(HYPERPARAMETERS)]).collect();
    let below = |more: &[Step<'static>]| -> Vec<Step<'static>> { study.iter().chain(more).copied().collect() };
    match change {
        Change::Field { field, value } => {
            let field = known(&FIELDS, field)?;
            set(text, &below(&[Step::Key(field)]), value)
        }
        Change::Parameter { index, field, value } => {
            let parameter = below(&[Step::Key(PARAMETERS), Step::Item(*index)]);
            let field = known(&PARAMETER_FIELDS, field)?;
            let path = |field: &'static str| -> Vec<Step<'static>> {
                parameter.iter().copied().chain([Step::Key(field)]).collect()
            };
            if field == "type" { set_type(text, path, value) } else { set(text, &path(field), value) }
        }
        Change::AddParameter => {
            let list = below(&[Step::Key(PARAMETERS)]);
            let count = Form::of(text).parameters.len();
            let parameter = new_parameter(&format!("parameter_{}", count + 1));
            let appended = edit(text, &list, &Edit::Append(parameter.clone()));
            if count > 0 {
                appended
            } else {
                appended.or_else(|_| edit(text, &list, &Edit::Set(Plain::List(vec![parameter]))))
            }
        }
        Change::RemoveParameter { index } => {
            edit(text, &below(&[Step::Key(PARAMETERS), Step::Item(*index)]), &Edit::Remove)
        }
        Change::AddStudy => {
            let pair = |key: &str, value: &str| (key.to_owned(), Plain::Scalar(value.to_owned()));
            let study_of = vec![
                pair("goal", "MINIMIZE"),
                pair("hyperparameterMetricTag", "loss"),
                pair("maxTrials", "20"),
                pair("maxParallelTrials", "2"),
                (PARAMETERS.to_owned(), Plain::List(vec![new_parameter("parameter_1")])),
            ];
            edit(text, &study, &Edit::Set(Plain::Mapping(study_of)))
        }
        Change::AddPackage { uri, module } => {
            let at = |key: &'static str| -> Vec<Step<'_>> { root.iter().copied().chain([Step::Key(key)]).collect() };
            let input = if root.is_empty() { Some(&file) } else { file.get(TRAINING_INPUT) };
            let uri = Plain::Scalar(uri.clone());
            let added = match input.and_then(|input| input.get(PACKAGES)) {
                None => edit(text, &at(PACKAGES), &Edit::Set(Plain::List(vec![uri]))),
                Some(_) => edit(text, &at(PACKAGES), &Edit::Append(uri)),
            }?;
            if module.is_empty() {
                return Ok(added);
            }
            // The module replaces a command.
            let main = input.and_then(|input| input.get(MAIN)).and_then(Value::as_object);
            let has_more = main.is_some_and(|main| main.keys().any(|key| !COMMAND.contains(&key.as_str())));
            let mut changed = added;
            if has_more {
                for key in COMMAND {
                    let path: Vec<Step<'_>> = at(MAIN).into_iter().chain([Step::Key(key)]).collect();
                    changed = edit(&changed, &path, &Edit::Remove)?;
                }
            } else {
                changed = edit(&changed, &at(MAIN), &Edit::Remove)?;
            }
            edit(&changed, &at("pythonModule"), &Edit::Set(Plain::Scalar(module.clone())))
        }
    }
}

pub(crate) fn known(fields: &[&'static str], field: &str) -> Result<&'static str, EditError> {
    fields.iter().copied().find(|known| *known == field).ok_or(EditError::Unsupported)
}

/// Sets the value at `path`; removes it if empty.
fn set(text: &str, path: &[Step<'_>], value: &str) -> Result<String, EditError> {
    let value = value.trim();
    if value.is_empty() {
        return edit(text, path, &Edit::Remove);
    }
    let is_list = matches!(path.last(), Some(Step::Key("categoricalValues" | "discreteValues")));
    let plain = if is_list { lines_of(value) } else { Plain::Scalar(value.to_owned()) };
    edit(text, path, &Edit::Set(plain))
}

/// List with one item per line of `text`.
pub(crate) fn lines_of(text: &str) -> Plain {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Plain::List(lines.map(|line| Plain::Scalar(line.to_owned())).collect())
}

/// Sets the type of the parameter at `path` and removes values that the type does not have.
fn set_type(text: &str, path: impl Fn(&'static str) -> Vec<Step<'static>>, value: &str) -> Result<String, EditError> {
    let mut text = set(text, &path("type"), value)?;
    let (removed, list): (&[&'static str], _) = match value {
        "CATEGORICAL" => (&["minValue", "maxValue", "scaleType", "discreteValues"], Some("categoricalValues")),
        "DISCRETE" => (&["minValue", "maxValue", "categoricalValues"], Some("discreteValues")),
        "DOUBLE" | "INTEGER" => (&["categoricalValues", "discreteValues"], None),
        _ => (&[], None),
    };
    for field in removed {
        text = edit(&text, &path(field), &Edit::Remove)?;
    }
    let Some(list) = list else { return Ok(text) };
    let examples = if value == "CATEGORICAL" { ["a", "b"] } else { ["1", "2"] };
    let examples = Edit::Set(Plain::List(examples.map(|text| Plain::Scalar(text.to_owned())).to_vec()));
    let of_list = path(list);
    let is_given = |value: &Value| {
        of_list
            .iter()
            .try_fold(value, |value, step| match step {
                Step::Key(key) => value.get(key),
                Step::Item(index) => value.get(index),
            })
            .is_some()
    };
    if outline(&text).is_some_and(|tree| is_given(&tree)) { Ok(text) } else { edit(&text, &of_list, &examples) }
}

fn new_parameter(name: &str) -> Plain {
    let pair = |key: &str, value: &str| (key.to_owned(), Plain::Scalar(value.to_owned()));
    Plain::Mapping(vec![
        pair("parameterName", name),
        pair("type", "DOUBLE"),
        pair("minValue", "0"),
        pair("maxValue", "1"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "trainingInput:\n  hyperparameters:\n    goal: MINIMIZE # less\n    enableTrialEarlyStopping: true\n    \
                        params:\n    - {parameterName: x, type: DOUBLE, minValue: 1e-5, maxValue: 1}\n  masterConfig: {}\nlabels: {a: b}\n";

    #[test]
    fn form_shows_what_it_can_and_names_the_rest() {
        let form = Form::of(TEXT);
        assert!(form.is_readable && form.is_study);
        assert_eq!(form.fields["goal"], "MINIMIZE");
        assert_eq!(form.parameters[0]["minValue"], "1e-5");
        let mut not_shown = form.not_shown;
        not_shown.sort();
        let expected =
            ["labels", "trainingInput.hyperparameters.enableTrialEarlyStopping", "trainingInput.masterConfig"];
        assert_eq!(not_shown, expected);
        let plain = Form::of("masterConfig: {containerCommand: [echo]}");
        assert!(plain.is_readable && !plain.is_study);
        assert_eq!(plain.not_shown, ["masterConfig"]);
        assert_eq!(Form::of("a: ["), Form::default());
    }

    #[test]
    fn changes_of_the_form_change_the_text() {
        let change = |text: &str, change: Change| changed(text, &change).unwrap();
        let field = |field: &str, value: &str| Change::Field { field: field.to_owned(), value: value.to_owned() };
        let parameter =
            |field: &str, value: &str| Change::Parameter { index: 0, field: field.to_owned(), value: value.to_owned() };
        assert!(change(TEXT, field("goal", "MAXIMIZE")).contains("goal: MAXIMIZE # less\n"));
        assert!(change(TEXT, field("maxTrials", "7")).contains("\n    maxTrials: 7\n"));
        assert!(!change(TEXT, field("goal", "")).contains("goal"));
        let categorical = change(TEXT, parameter("type", "CATEGORICAL"));
        assert!(
            categorical.contains("- {parameterName: x, type: CATEGORICAL, categoricalValues: [a, b]}\n"),
            "{categorical}"
        );
        let named = change(&categorical, parameter("categoricalValues", "relu\n\n two words \n"));
        assert!(named.contains("categoricalValues: [relu, \"two words\"]"), "{named}");
        let double = change(&named, parameter("type", "DOUBLE"));
        assert!(double.contains("- {parameterName: x, type: DOUBLE}\n"), "{double}");
        let two = change(TEXT, Change::AddParameter);
        assert_eq!(Form::of(&two).parameters[1]["parameterName"], "parameter_2");
        assert_eq!(change(&two, Change::RemoveParameter { index: 1 }), TEXT);
        let study = change("trainingInput:\n  region: x\n", Change::AddStudy);
        assert_eq!(Form::of(&study).parameters[0]["type"], "DOUBLE");
        let package = |uri: &str| Change::AddPackage { uri: uri.to_owned(), module: String::new() };
        let one = change("trainingInput:\n  pythonModule: a.b\n", package("tunesmith://p/1/a.whl"));
        let two = change(&one, package("tunesmith://p/2/b.whl"));
        let packages = outline(&two).unwrap()["trainingInput"]["packageUris"].clone();
        assert_eq!(packages, serde_json::json!(["tunesmith://p/1/a.whl", "tunesmith://p/2/b.whl"]), "{two}");
        let script = |text: &str| {
            let uri = "tunesmith://p/1/train-0-py3-none-any.whl".to_owned();
            outline(&change(text, Change::AddPackage { uri, module: "train".to_owned() })).unwrap()["trainingInput"]
                .clone()
        };
        let plain = "trainingInput:\n  masterConfig:\n    # a comment\n    containerCommand: [python3, train.py]\n  region: r\n";
        let packages = serde_json::json!(["tunesmith://p/1/train-0-py3-none-any.whl"]);
        let expected = serde_json::json!({"region": "r", "packageUris": packages, "pythonModule": "train"});
        assert_eq!(script(plain), expected);
        let with_type = plain.replace("  region", "    acceleratorConfig: {type: v100}\n  region");
        assert_eq!(script(&with_type)["masterConfig"], serde_json::json!({"acceleratorConfig": {"type": "v100"}}));
        let unknown = changed(TEXT, &field("seed", "7"));
        assert_eq!(unknown, Err(EditError::Unsupported));
    }
}
