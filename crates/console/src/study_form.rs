//! Form beside the text of a new study, like the job form: fields have the same names, at other paths in the text.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::job_form::{Change, Form, known, lines_of};
use tunesmith_config::{Edit, EditError, Plain, Step, edit, outline};

const STUDY_CONFIG: &str = "studyConfig";
const PARAMETERS: &str = "parameters";

const FIELDS: [&str; 4] = ["goal", "hyperparameterMetricTag", "maxTrials", "algorithm"];

const PARAMETER_FIELDS: [&str; 7] =
    ["parameterName", "type", "minValue", "maxValue", "scaleType", "categoricalValues", "discreteValues"];

/// Key that contains the values of each type.
const SPECS: [(&str, &str); 4] = [
    ("DOUBLE", "doubleValueSpec"),
    ("INTEGER", "integerValueSpec"),
    ("CATEGORICAL", "categoricalValueSpec"),
    ("DISCRETE", "discreteValueSpec"),
];

type Path = Vec<Step<'static>>;

pub(crate) fn form_of(text: &str) -> Form {
    let Some(file @ Value::Object(_)) = outline(text) else { return Form::default() };
    let root = root_of(&file);
    let mut form = Form { is_readable: true, is_study: true, ..Form::default() };
    let mut shown = BTreeSet::new();
    for field in FIELDS {
        let path = [root.as_slice(), &place(field)].concat();
        form.paths.insert(field.to_owned(), name_of(&path).into());
        if let Some(value @ Value::String(_)) = at(&file, &path) {
            form.fields.insert(field.to_owned(), value.clone());
            shown.insert(name_of(&path));
        }
    }
    let list = [root.as_slice(), &[Step::Key(PARAMETERS)]].concat();
    let count = at(&file, &list).and_then(Value::as_array).map_or(0, Vec::len);
    for index in 0..count {
        let (mut values, mut paths) = (Map::new(), Map::new());
        for field in PARAMETER_FIELDS {
            let Some(path) = place_of_parameter(&file, &root, index, field) else { continue };
            paths.insert(field.to_owned(), name_of(&path).into());
            if let Some(value) = at(&file, &path).filter(|value| super::job_form::is_shown(value)) {
                values.insert(field.to_owned(), value.clone());
                shown.insert(name_of(&path));
            }
        }
        form.parameters.push(values);
        form.parameter_paths.push(paths);
    }
    add_rest(&file, "", &shown, &mut form.not_shown);
    form
}

pub(crate) fn changed(text: &str, change: &Change) -> Result<String, EditError> {
    let file = outline(text).ok_or(EditError::Unreadable)?;
    let root = root_of(&file);
    let list = [root.as_slice(), &[Step::Key(PARAMETERS)]].concat();
    match change {
        Change::Field { field, value } => {
            let path = [root.as_slice(), &place(known(&FIELDS, field)?)].concat();
            set(text, &path, value, false)
        }
        Change::Parameter { index, field, value } if field == "type" => set_type(text, &root, *index, value),
        Change::Parameter { index, field, value } => {
            let field = known(&PARAMETER_FIELDS, field)?;
            let path = place_of_parameter(&file, &root, *index, field).ok_or(EditError::Unsupported)?;
            set(text, &path, value, matches!(field, "categoricalValues" | "discreteValues"))
        }
        Change::AddParameter => {
            let count = at(&file, &list).and_then(Value::as_array).map_or(0, Vec::len);
            let parameter = Plain::Mapping(vec![
                ("parameter".to_owned(), Plain::Scalar(format!("parameter_{}", count + 1))),
                ("type".to_owned(), Plain::Scalar("DOUBLE".to_owned())),
                ("doubleValueSpec".to_owned(), range("0", "1")),
            ]);
            if count > 0 {
                edit(text, &list, &Edit::Append(parameter))
            } else {
                edit(text, &list, &Edit::Set(Plain::List(vec![parameter])))
            }
        }
        Change::RemoveParameter { index } => {
            edit(text, &[list.as_slice(), &[Step::Item(*index)]].concat(), &Edit::Remove)
        }
        Change::AddStudy | Change::AddPackage { .. } => Err(EditError::Unsupported),
    }
}

fn root_of(file: &Value) -> Path {
    if file.get(STUDY_CONFIG).is_some() { vec![Step::Key(STUDY_CONFIG)] } else { Vec::new() }
}

/// Path of a study value below the configuration.
fn place(field: &str) -> Path {
    let metric = |key| vec![Step::Key("metrics"), Step::Item(0), Step::Key(key)];
    match field {
        "goal" => metric("goal"),
        "hyperparameterMetricTag" => metric("metric"),
        "maxTrials" => vec![Step::Key("tunesmith"), Step::Key("maxTrials")],
        _ => vec![Step::Key("algorithm")],
    }
}

/// Path of a parameter value; `None` if its type has none.
fn place_of_parameter(file: &Value, root: &[Step<'static>], index: usize, field: &str) -> Option<Path> {
    let mut path = [root, &[Step::Key(PARAMETERS), Step::Item(index)]].concat();
    let kind = at(file, &[path.as_slice(), &[Step::Key("type")]].concat()).and_then(Value::as_str).unwrap_or_default();
    let spec = |kind: &str| SPECS.iter().find(|(known, _)| *known == kind).map(|(_, spec)| Step::Key(spec));
    match field {
        "parameterName" => path.push(Step::Key("parameter")),
        "type" => path.push(Step::Key("type")),
        "scaleType" => path.push(Step::Key("scaleType")),
        "minValue" | "maxValue" => {
            path.push(spec(kind).filter(|_| matches!(kind, "DOUBLE" | "INTEGER"))?);
            path.push(Step::Key(if field == "minValue" { "minValue" } else { "maxValue" }));
        }
        "categoricalValues" => path.extend([spec("CATEGORICAL")?, Step::Key("values")]),
        _ => path.extend([spec("DISCRETE")?, Step::Key("values")]),
    }
    Some(path)
}

/// Sets the value at `path`, adding missing parents; removes it if empty.
fn set(text: &str, path: &[Step<'_>], value: &str, is_list: bool) -> Result<String, EditError> {
    let value = value.trim();
    if value.is_empty() {
        return edit(text, path, &Edit::Remove);
    }
    let plain = if is_list { lines_of(value) } else { Plain::Scalar(value.to_owned()) };
    set_plain(text, path, plain)
}

fn set_plain(text: &str, path: &[Step<'_>], plain: Plain) -> Result<String, EditError> {
    let file = outline(text).ok_or(EditError::Unreadable)?;
    let exists = |length: &usize| at(&file, &path[..*length]).is_some_and(|value| !value.is_null());
    // Shortest missing path, excluding the value itself.
    let missing = (1..path.len()).find(|length| !exists(length)).unwrap_or(path.len());
    let inner = path[missing..].iter().rev().fold(plain, |inner, step| match step {
        Step::Key(key) => Plain::Mapping(vec![((*key).to_owned(), inner)]),
        Step::Item(_) => Plain::List(vec![inner]),
    });
    edit(text, &path[..missing], &Edit::Set(inner))
}

/// Sets the type of a parameter, replacing the values of the previous type by examples.
fn set_type(text: &str, root: &[Step<'static>], index: usize, value: &str) -> Result<String, EditError> {
    let parameter = [root, &[Step::Key(PARAMETERS), Step::Item(index)]].concat();
    let key = |key: &'static str| [parameter.as_slice(), &[Step::Key(key)]].concat();
    let file = outline(text).ok_or(EditError::Unreadable)?;
    let former = |end: &str, default: &str| {
        let specs = ["doubleValueSpec", "integerValueSpec"].into_iter();
        let found = specs.filter_map(|spec| at(&file, &key(spec))?.get(end)?.as_str().map(str::to_owned)).next();
        found.unwrap_or_else(|| default.to_owned())
    };
    let mut text = set(text, &key("type"), value, false)?;
    for (kind, spec) in SPECS {
        if kind != value {
            text = edit(&text, &key(spec), &Edit::Remove)?;
        }
    }
    if value == "CATEGORICAL" {
        text = edit(&text, &key("scaleType"), &Edit::Remove)?;
    }
    let Some((_, spec)) = SPECS.into_iter().find(|(kind, _)| *kind == value) else { return Ok(text) };
    if outline(&text).is_some_and(|file| at(&file, &key(spec)).is_some()) {
        return Ok(text);
    }
    let example = match value {
        "CATEGORICAL" => Plain::Mapping(vec![("values".to_owned(), lines_of("a\nb"))]),
        "DISCRETE" => Plain::Mapping(vec![("values".to_owned(), lines_of("1\n2"))]),
        _ => range(&former("minValue", "0"), &former("maxValue", "1")),
    };
    set_plain(&text, &key(spec), example)
}

fn range(low: &str, high: &str) -> Plain {
    let end = |key: &str, value: &str| (key.to_owned(), Plain::Scalar(value.to_owned()));
    Plain::Mapping(vec![end("minValue", low), end("maxValue", high)])
}

fn at<'a>(file: &'a Value, path: &[Step<'_>]) -> Option<&'a Value> {
    path.iter().try_fold(file, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Item(index) => value.get(index),
    })
}

fn name_of(path: &[Step<'_>]) -> String {
    path.iter().fold(String::new(), |name, step| match step {
        Step::Key(key) if name.is_empty() => (*key).to_owned(),
        Step::Key(key) => format!("{name}.{key}"),
        Step::Item(index) => format!("{name}[{index}]"),
    })
}

/// Adds paths of values below `value` that are not in `shown`.
fn add_rest(value: &Value, path: &str, shown: &BTreeSet<String>, rest: &mut Vec<String>) {
    if shown.contains(path) || value.is_null() {
        return;
    }
    let starts = |path: String| shown.range(path.clone()..).next().is_some_and(|shown| shown.starts_with(&path));
    let is_above_shown = |path: &str| starts(format!("{path}.")) || starts(format!("{path}["));
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) if path.is_empty() => fields.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (format!("{path}.{key}"), value)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| (format!("{path}[{index}]"), item)).collect()
        }
        _ => Vec::new(),
    };
    if path.is_empty() || is_above_shown(path) {
        children.into_iter().for_each(|(path, value)| add_rest(value, &path, shown, rest));
    } else {
        rest.push(path.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "metrics: [{metric: loss, goal: MINIMIZE}] # less\nparameters:\n\
                        - {parameter: x, type: DOUBLE, doubleValueSpec: {minValue: 1e-5, maxValue: 1}}\n\
                        automatedStoppingConfig: {medianAutomatedStoppingConfig: {}}\n";

    #[test]
    fn form_shows_what_it_can_and_names_the_rest() {
        let form = form_of(TEXT);
        assert!(form.is_readable && form.is_study);
        assert_eq!(
            (&form.fields["goal"], &form.fields["hyperparameterMetricTag"]),
            (&"MINIMIZE".into(), &"loss".into())
        );
        assert_eq!(form.parameters[0]["minValue"], "1e-5");
        assert_eq!(form.parameter_paths[0]["minValue"], "parameters[0].doubleValueSpec.minValue");
        assert_eq!(form.paths["maxTrials"], "tunesmith.maxTrials");
        assert_eq!(form.not_shown, ["automatedStoppingConfig"]);
        let children = TEXT.replace("type: DOUBLE", "type: DOUBLE, childParameterSpecs: []");
        assert_eq!(form_of(&children).not_shown, ["automatedStoppingConfig", "parameters[0].childParameterSpecs"]);
        assert_eq!(form_of("a: ["), Form::default());
    }

    #[test]
    fn changes_of_the_form_change_the_text() {
        let change = |text: &str, change: Change| changed(text, &change).unwrap();
        let field = |field: &str, value: &str| Change::Field { field: field.to_owned(), value: value.to_owned() };
        let parameter =
            |field: &str, value: &str| Change::Parameter { index: 0, field: field.to_owned(), value: value.to_owned() };
        assert!(change(TEXT, field("goal", "MAXIMIZE")).contains("goal: MAXIMIZE}] # less\n"));
        let limited = change(TEXT, field("maxTrials", "7"));
        assert_eq!(form_of(&limited).fields["maxTrials"], "7", "{limited}");
        let integer = change(TEXT, parameter("type", "INTEGER"));
        assert!(integer.contains("integerValueSpec: {minValue: 1e-5, maxValue: 1}"), "{integer}");
        let category = change(&integer, parameter("type", "CATEGORICAL"));
        assert!(
            category.contains("{parameter: x, type: CATEGORICAL, categoricalValueSpec: {values: [a, b]}}"),
            "{category}"
        );
        let named = change(&category, parameter("categoricalValues", "relu\ntwo words"));
        assert!(named.contains("values: [relu, \"two words\"]"), "{named}");
        let two = change(TEXT, Change::AddParameter);
        assert_eq!(form_of(&two).parameters[1]["parameterName"], "parameter_2");
        assert_eq!(change(&two, Change::RemoveParameter { index: 1 }), TEXT);
        let wrapped = change("studyConfig:\n  algorithm: TPE\n", field("hyperparameterMetricTag", "loss"));
        assert_eq!(form_of(&wrapped).fields["hyperparameterMetricTag"], "loss", "{wrapped}");
        let first = change(&wrapped, Change::AddParameter);
        assert_eq!(form_of(&first).parameters[0]["maxValue"], "1", "{first}");
    }
}
