//! Containers of trials in resources of Kubernetes.

use serde_json::Value;
use tunesmith_api::ai_platform::{ReplicaConfig, ScaleTier, TrainingInput};

use crate::reading::{Fields, Findings};
use crate::resources::machine_type;

/// `text` with the references between `open` and `close` replaced by what is `known`; an unknown reference.
pub(crate) fn substituted(
    text: &str,
    (open, close): (&str, &str),
    known: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let (mut result, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(open) {
        let Some((reference, after)) = after.split_once(close) else { break };
        result.push_str(before);
        result.push_str(&known(reference).ok_or_else(|| format!("{open}{reference}{close}"))?);
        rest = after;
    }
    result.push_str(rest);
    Ok(result)
}

/// Reads image, command, arguments, variables and resources of a container into `input`. `substituted` replaces references
/// to trial parameters, which begin with `reference`, in arguments, or returns an unknown one. `resources` is the name of
/// the field with requests and limits.
pub(crate) fn read(
    fields: &mut Fields<'_>,
    resources: &str,
    reference: &str,
    substituted: &dyn Fn(&str) -> Result<String, String>,
    input: &mut TrainingInput,
    found: &mut Findings,
) {
    let image = fields.text("image", found).unwrap_or_default().to_owned();
    if image.is_empty() {
        found.error(fields.path("image"), "is required");
    }
    let mut words = |name: &str| -> Vec<String> {
        let path = fields.path(name);
        let words = fields.list(name, found);
        let word = |(index, word): (usize, &Value)| {
            let text = word.as_str().map_or_else(|| word.to_string(), str::to_owned);
            substituted(&text).unwrap_or_else(|unknown| {
                found.error(format!("{path}[{index}]"), format!("{unknown} names no trial parameter"));
                String::new()
            })
        };
        words.iter().enumerate().map(word).collect()
    };
    let (container_command, container_args) = (words("command"), words("args"));
    let path = fields.path("env");
    for (index, variable) in fields.list("env", found).iter().enumerate() {
        let path = format!("{path}[{index}]");
        let mut variable = Fields::of(variable, &path, found);
        let name = variable.text("name", found).unwrap_or_default().to_owned();
        let value = variable.text("value", found).unwrap_or_default().to_owned();
        variable.end(found);
        if value.contains(reference) {
            found.error(
                format!("{path}.value"),
                "trial parameters have no counterpart in variables; allowed: in command and args",
            );
        }
        input.tunesmith.environment.insert(name, value);
    }
    if !container_command.iter().chain(&container_args).any(|word| word.contains("{parameters.")) {
        found.note("no argument names a trial parameter: the program gets them all as --name=value");
    }
    let path = fields.path(resources);
    if let Some(name) = machine_type(fields.take(resources), &path, found) {
        input.scale_tier = Some(ScaleTier::Custom);
        input.master_type = name;
    }
    input.master_config =
        Some(ReplicaConfig { image_uri: image, container_command, container_args, ..ReplicaConfig::default() });
}
