//! Page with the keys of a configuration, from its JSON schema.

use askama::Template;
use axum::response::Response;
use serde_json::Value;

use super::console::{Console, rendered};
use super::errors::PageError;
use super::frame::{Frame, Section};
use super::visit::Visit;

/// Definition of a whole configuration.
const ROOT: &str = "ConfigFile";

#[derive(Template)]
#[template(path = "keys.html")]
struct KeysPage {
    frame: Frame,
    groups: Vec<Group>,
}

/// Keys of one object of the configuration.
#[derive(Debug, PartialEq)]
struct Group {
    /// Name of its definition, which identifies it on the page.
    id: String,
    /// Place in the configuration at which it occurs first.
    path: String,
    text: Text,
    keys: Vec<Key>,
}

#[derive(Debug, PartialEq)]
struct Key {
    name: String,
    text: Text,
    /// Allowed values with their meaning.
    values: Vec<(String, Text)>,
    /// Definition of the object that it contains, if any.
    of: Option<String>,
}

/// Text in parts, each with whether it is code.
#[derive(Debug, PartialEq)]
struct Text(Vec<(bool, String)>);

impl Text {
    /// Description of `schema`, in which code is between backticks.
    fn of(schema: &Value) -> Self {
        let text = schema["description"].as_str().unwrap_or_default();
        let parts = text.split('`').enumerate().map(|(index, part)| (index % 2 == 1, part.to_owned()));
        Self(parts.filter(|(_, part)| !part.is_empty()).collect())
    }
}

pub(crate) async fn show(_: Console, visit: Visit, (): ()) -> Result<Response, PageError> {
    let page = KeysPage {
        frame: visit.frame("Keys of a configuration", Section::Jobs),
        groups: groups(tunesmith_config::json_schema().as_value()),
    };
    Ok(rendered(&page))
}

/// Objects of a configuration, each after the one in which it occurs first.
fn groups(schema: &Value) -> Vec<Group> {
    let definition = |name: &str| &schema["$defs"][name];
    let mut groups: Vec<Group> = Vec::new();
    let mut found = vec![(ROOT.to_owned(), String::new())];
    let mut next = 0;
    while let Some((id, path)) = found.get(next).cloned() {
        next += 1;
        let object = definition(&id);
        let mut keys = Vec::new();
        for (name, property) in object["properties"].as_object().into_iter().flatten() {
            let place = reference(property);
            let target = place.map_or(&Value::Null, |(target, _)| definition(target));
            let of = place.filter(|_| target["properties"].is_object());
            if let Some((target, many)) = of
                && found.iter().all(|(known, _)| known != target)
            {
                let dot = if path.is_empty() { "" } else { "." };
                found.push((target.to_owned(), format!("{path}{dot}{name}{many}")));
            }
            keys.push(Key {
                name: name.clone(),
                text: Text::of(property),
                values: values(target),
                of: of.map(|(target, _)| target.to_owned()),
            });
        }
        groups.push(Group { text: Text::of(object), id, path, keys });
    }
    groups
}

/// Definition that a property refers to, and how it is contained: as itself, in a list, or by name.
fn reference(property: &Value) -> Option<(&str, &'static str)> {
    fn target_of(schema: &Value) -> Option<&str> {
        schema["$ref"].as_str()?.strip_prefix("#/$defs/")
    }
    let choices =
        ["anyOf", "oneOf", "allOf"].into_iter().flat_map(|key| property[key].as_array().into_iter().flatten());
    let own = std::iter::once(property).chain(choices).find_map(target_of);
    own.map(|target| (target, ""))
        .or_else(|| target_of(&property["items"]).map(|target| (target, "[]")))
        .or_else(|| target_of(&property["additionalProperties"]).map(|target| (target, ".NAME")))
}

/// Values of an enumeration.
fn values(definition: &Value) -> Vec<(String, Text)> {
    let described = definition["oneOf"].as_array().into_iter().flatten();
    let described = described.filter_map(|one| Some((one["const"].as_str()?.to_owned(), Text::of(one))));
    let plain = definition["enum"].as_array().into_iter().flatten();
    let plain = plain.filter_map(|one| Some((one.as_str()?.to_owned(), Text(Vec::new()))));
    described.chain(plain).filter(|(name, _)| !name.ends_with("UNSPECIFIED")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_of_a_configuration_is_a_group() {
        let groups = groups(tunesmith_config::json_schema().as_value());
        let group = |path: &str| groups.iter().find(|group| group.path == path).unwrap();
        let key = |path: &str, name: &str| group(path).keys.iter().find(|key| key.name == name).unwrap();
        assert_eq!(groups[0].keys.len(), 3);
        assert_eq!(key("trainingInput", "hyperparameters").of.as_deref(), Some("HyperparameterSpec"));
        assert_eq!(key("trainingInput.hyperparameters", "params").of.as_deref(), Some("ParameterSpec"));
        let goals: Vec<&str> =
            key("trainingInput.hyperparameters", "goal").values.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(goals, ["MAXIMIZE", "MINIMIZE"]);
        assert!(!key("trainingInput.hyperparameters.params[]", "scaleType").text.0.is_empty());
        // Every link leads to a group, and every key is described.
        for key in groups.iter().flat_map(|group| &group.keys) {
            assert!(key.of.as_ref().is_none_or(|of| groups.iter().any(|group| group.id == *of)), "{key:?}");
            assert!(!key.text.0.is_empty(), "{key:?}");
        }
    }

    #[test]
    fn code_is_between_backticks() {
        let text = Text::of(&serde_json::json!({"description": "Use `a` or `b`."}));
        let parts: Vec<_> = text.0.iter().map(|(is_code, part)| (*is_code, part.as_str())).collect();
        assert_eq!(parts, [(false, "Use "), (true, "a"), (false, " or "), (true, "b"), (false, ".")]);
    }
}
