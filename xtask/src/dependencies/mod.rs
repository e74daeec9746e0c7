//! Dependency edges between workspace crates. cargo-deny checks external dependencies, see `deny.toml`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// One crate per line with the workspace crates it uses, without the prefix `tunesmith-`. Development dependencies
/// are not listed: tests may choose an implementation. A new edge changes the architecture: explain it in
/// `docs/architecture.md`.
const EDGES: &str = "\
algorithms:
domain: algorithms
telemetry:
store: algorithms domain telemetry
data-dir: domain store
files:
filter:
plotly-js:
executor: domain files metrics objects
slurm: domain executor
ray: domain executor
kubernetes: domain executor
metrics: domain files
objects: client
packages: client files objects
access:
admission: access domain telemetry
studies: algorithms domain filter store telemetry views
jobs: algorithms domain executor files filter objects packages store studies telemetry
prediction: domain executor files filter jobs objects packages store studies telemetry
views: algorithms domain filter
api: algorithms domain
client: api
agent: api client domain executor files objects packages
config: algorithms api domain
http: access admission algorithms api domain filter jobs prediction store studies telemetry views
mcp: admission algorithms api client config domain statistics
console: access admission algorithms api config domain filter jobs oidc plotly-js prediction statistics store studies telemetry views
oidc: access
optuna: admission domain telemetry
importers: algorithms api config vizier
tracking: algorithms api client domain files jobs store
vizier: algorithms api domain
webhooks: algorithms client domain files filter store telemetry
vizier-server: admission api domain filter jobs store studies vizier
statistics: algorithms
benchmark: algorithms statistics
harness: algorithms api benchmark config domain metrics plotly-js
tunesmith: access admission agent algorithms api benchmark client config console data-dir domain \
    executor files harness http importers jobs kubernetes mcp metrics objects oidc optuna packages prediction ray slurm store studies telemetry tracking views vizier vizier-server webhooks
python: algorithms api data-dir domain filter store studies views
contract: algorithms domain executor store
testing:
xtask:
";

/// One message per violation in the workspace graph.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let metadata = metadata(root)?;
    let packages = metadata["packages"].as_array().context("cargo metadata printed no packages")?;
    let members: Vec<&Value> = packages.iter().collect();
    let mut breaches = edges(&members, EDGES);
    breaches.extend(members.into_iter().flat_map(documentation));
    Ok(breaches)
}

fn metadata(root: &Path) -> Result<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cannot start `cargo metadata`")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cannot parse the output of `cargo metadata`")
}

/// Compares the edges between `members` with `allowed`.
fn edges(members: &[&Value], allowed: &str) -> Vec<String> {
    let lines = allowed.lines().filter_map(|line| line.split_once(':'));
    let allowed: Vec<(&str, Vec<&str>)> = lines.map(|(name, uses)| (name, uses.split_whitespace().collect())).collect();
    let mut breaches = Vec::new();
    for member in members {
        let from = short_name(&member["name"]);
        let Some((_, allowed)) = allowed.iter().find(|(name, _)| *name == from) else {
            breaches.push(format!("crate {from} is not listed in xtask/src/dependencies/mod.rs"));
            continue;
        };
        let used: Vec<&str> = dependencies(member)
            .filter(|dependency| dependency["kind"] != "dev" && !dependency["path"].is_null())
            .map(|dependency| short_name(&dependency["name"]))
            .collect();
        for to in used.iter().filter(|to| !allowed.contains(to)) {
            breaches.push(format!("crate {from} must not depend on {to}: it may depend on {allowed:?}"));
        }
        for to in allowed.iter().filter(|to| !used.contains(to)) {
            breaches.push(format!(
                "crate {from} does not depend on {to}: remove the edge from xtask/src/dependencies/mod.rs"
            ));
        }
    }
    for (name, _) in &allowed {
        if !members.iter().any(|member| short_name(&member["name"]) == *name) {
            breaches.push(format!("crate {name} does not exist: remove it from xtask/src/dependencies/mod.rs"));
        }
    }
    breaches
}

/// Libraries of `member` whose documentation the example run would omit.
fn documentation(member: &Value) -> Vec<String> {
    let targets = member["targets"].as_array().into_iter().flatten();
    let is_library = |target: &&Value| target["kind"].as_array().is_some_and(|kinds| kinds.contains(&"lib".into()));
    targets
        .filter(is_library)
        .filter(|target| target["doctest"] == false || target["doc"] == false)
        .map(|target| format!("crate {} turns doc or doctest off: `cargo xtask ci` needs both", text(&target["name"])))
        .collect()
}

fn dependencies(package: &Value) -> impl Iterator<Item = &Value> {
    package["dependencies"].as_array().into_iter().flatten()
}

fn short_name(name: &Value) -> &str {
    let name = text(name);
    name.strip_prefix("tunesmith-").unwrap_or(name)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, dependencies: &[&str]) -> Value {
        let dependencies: Vec<Value> = dependencies
            .iter()
            .map(|name| json!({"name": name, "path": format!("/{name}"), "kind": null, "req": "*"}))
            .collect();
        json!({"name": name, "dependencies": dependencies})
    }

    #[test]
    fn edges_must_be_those_of_the_list() {
        let allowed = "a:\nb: a\n";
        let (a, b) = (package("tunesmith-a", &[]), package("tunesmith-b", &["tunesmith-a"]));
        assert_eq!(edges(&[&a, &b], allowed), [""; 0]);

        let reversed = package("tunesmith-a", &["tunesmith-b"]);
        assert_eq!(edges(&[&reversed, &b], allowed), ["crate a must not depend on b: it may depend on []"]);
        let unused = package("tunesmith-b", &[]);
        assert!(edges(&[&a, &unused], allowed)[0].starts_with("crate b does not depend on a"));
        assert!(edges(&[&a], allowed)[0].starts_with("crate b does not exist"));
        let c = package("tunesmith-c", &[]);
        assert!(edges(&[&a, &b, &c], allowed)[0].starts_with("crate c is not listed"));
    }

    #[test]
    fn development_dependencies_are_not_edges() {
        let mut a = package("a", &["b"]);
        a["dependencies"][0]["kind"] = json!("dev");
        assert_eq!(edges(&[&a, &package("b", &[])], "a:\nb:\n"), [""; 0]);
    }

    #[test]
    fn libraries_keep_documentation_and_its_tests() {
        let with = |kind: &str, doctest: bool| json!({"targets": [{"kind": [kind], "name": "a", "doc": true, "doctest": doctest}]});
        assert_eq!(documentation(&with("lib", true)), [""; 0]);
        assert_eq!(documentation(&with("bin", false)), [""; 0]);
        assert_eq!(documentation(&with("lib", false)).len(), 1);
    }
}
