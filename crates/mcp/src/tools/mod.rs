//! The tools, by subject.

mod compare;
mod configuration;
mod diagnosis;
mod explain;
mod job_changes;
pub(crate) mod jobs;
pub(crate) mod packages;
mod proposals;
mod studies;
mod trials;
pub(crate) mod wait;

use crate::tool::Tool;

/// All tools, in the order of their use.
pub(crate) fn all() -> Vec<Tool> {
    let groups = [
        configuration::tools(),
        packages::tools(),
        job_changes::tools(),
        jobs::tools(),
        wait::tools(),
        trials::tools(),
        diagnosis::tools(),
        explain::tools(),
        compare::tools(),
        proposals::tools(),
        studies::tools(),
    ];
    groups.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tunesmith_admission::tools::TOOLS;

    /// Most characters of the list of tools, which a model reads at every turn.
    const MAX_CHARACTERS: usize = 50_000;

    #[test]
    fn tools_are_those_of_the_table() {
        let tools = crate::tools();
        let names: Vec<&str> = tools.iter().map(|tool| tool.method).collect();
        let known: Vec<&str> = TOOLS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, known);
        for tool in &tools {
            let reads_only = tool.definition["annotations"]["readOnlyHint"] == Value::Bool(true);
            assert_eq!(reads_only, !tool.use_cases.iter().any(|use_case| use_case.changes()), "{}", tool.name);
        }
        let size: usize = tools.iter().map(|tool| tool.definition.to_string().len()).sum();
        assert!(size < MAX_CHARACTERS, "{size}");
    }

    #[test]
    fn every_argument_is_described() {
        for tool in crate::tools() {
            let properties = tool.definition["inputSchema"]["properties"].as_object().unwrap().clone();
            for (name, schema) in properties {
                assert!(schema["description"].is_string(), "{}: {name}", tool.name);
            }
            let text = tool.definition.to_string();
            assert!(!text.contains("$ref") && !text.contains("\"format\""), "{}", tool.name);
        }
    }
}
