//! Checks of the dependency graph: the edges between our crates, and the origin and licences of all others.
//!
//! Known vulnerabilities are not checked here: they change without the code. See `deny.toml`.

mod licences;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Each crate with the crates of this workspace that it uses, without the prefix `tunesmith-`. Development dependencies
/// are not listed: tests may choose an implementation. A new edge is a change of the architecture: explain it in
/// `docs/architecture.md`.
const EDGES: &[(&str, &[&str])] = &[
    ("algorithms", &[]),
    ("domain", &["algorithms"]),
    ("telemetry", &[]),
    ("store", &["algorithms", "domain", "telemetry"]),
    ("files", &[]),
    ("filter", &[]),
    ("executor", &["domain", "files", "metrics", "objects"]),
    ("slurm", &["domain", "executor"]),
    ("ray", &["domain", "executor"]),
    ("kubernetes", &["domain", "executor"]),
    ("metrics", &["domain", "files"]),
    ("objects", &["client"]),
    ("packages", &["files", "objects"]),
    ("access", &[]),
    (
        "service",
        &["algorithms", "domain", "executor", "files", "filter", "objects", "packages", "store", "telemetry", "views"],
    ),
    ("views", &["algorithms", "domain", "filter"]),
    ("api", &["algorithms", "domain", "executor", "service"]),
    ("client", &[]),
    ("agent", &["api", "client", "domain", "executor", "files", "packages"]),
    ("config", &["algorithms", "api", "domain"]),
    ("http", &["access", "algorithms", "api", "domain", "filter", "service", "store", "telemetry", "views"]),
    ("console", &["access", "algorithms", "benchmark", "config", "domain", "http", "service", "store", "views"]),
    ("benchmark", &["algorithms"]),
    ("harness", &["algorithms", "api", "benchmark", "config", "domain", "metrics", "store"]),
    (
        "tunesmith",
        &[
            "access",
            "agent",
            "algorithms",
            "api",
            "benchmark",
            "client",
            "config",
            "console",
            "domain",
            "executor",
            "files",
            "harness",
            "http",
            "kubernetes",
            "metrics",
            "objects",
            "packages",
            "ray",
            "service",
            "slurm",
            "store",
            "telemetry",
        ],
    ),
    ("xtask", &[]),
];

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates that must not be used, with the reason.
const BANNED: &[(&str, &str)] = &[
    ("openssl-sys", "TLS is rustls with ring, without system libraries"),
    ("aws-lc-sys", "TLS is rustls with ring, without a C toolchain beyond cc"),
];

/// One message for each violation in the dependency graph of the workspace with all features, on all platforms.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let metadata = metadata(root)?;
    let packages = metadata["packages"].as_array().context("cargo metadata printed no packages")?;
    let (mut members, mut external) = (Vec::new(), Vec::new());
    for package in packages {
        if package["source"].is_null() { members.push(package) } else { external.push(package) }
    }
    let mut breaches = edges(&members, EDGES);
    for member in members {
        breaches.extend(requirements(member));
        breaches.extend(documentation(member));
    }
    for package in external {
        breaches.extend(origin(package));
    }
    Ok(breaches)
}

fn metadata(root: &Path) -> Result<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--format-version", "1", "--all-features"])
        .current_dir(root)
        .output()
        .context("cannot start `cargo metadata`")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cannot parse the output of `cargo metadata`")
}

/// Compares the edges between `members` with `allowed`.
fn edges(members: &[&Value], allowed: &[(&str, &[&str])]) -> Vec<String> {
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
    for (name, _) in allowed {
        if !members.iter().any(|member| short_name(&member["name"]) == *name) {
            breaches.push(format!("crate {name} does not exist: remove it from xtask/src/dependencies/mod.rs"));
        }
    }
    breaches
}

/// Version requirements of the workspace's crate `member` that match every version.
fn requirements(member: &Value) -> Vec<String> {
    dependencies(member)
        .filter(|dependency| dependency["path"].is_null() && dependency["req"] == "*")
        .map(|dependency| {
            format!("crate {} requires any version of {}", text(&member["name"]), text(&dependency["name"]))
        })
        .collect()
}

/// Libraries of the workspace's crate `member` whose documentation the run of the examples would leave out.
fn documentation(member: &Value) -> Vec<String> {
    let targets = member["targets"].as_array().into_iter().flatten();
    let is_library = |target: &&Value| target["kind"].as_array().is_some_and(|kinds| kinds.contains(&"lib".into()));
    targets
        .filter(is_library)
        .filter(|target| target["doctest"] == false || target["doc"] == false)
        .map(|target| format!("crate {} turns doc or doctest off: `cargo xtask ci` needs both", text(&target["name"])))
        .collect()
}

/// What is wrong with the name, the source or the licence of an external package.
fn origin(package: &Value) -> Vec<String> {
    let (name, version) = (text(&package["name"]), text(&package["version"]));
    let mut breaches = Vec::new();
    if let Some((_, reason)) = BANNED.iter().find(|(banned, _)| *banned == name) {
        breaches.push(format!("{name} {version} is banned: {reason}"));
    }
    if package["source"] != REGISTRY {
        breaches.push(format!("{name} {version} is from {}, not from crates.io", text(&package["source"])));
    }
    match package["license"].as_str() {
        None => breaches.push(format!("{name} {version} states no licence")),
        Some(licence) => match licences::is_allowed(licence) {
            Ok(true) => {}
            Ok(false) => breaches.push(format!("{name} {version} has the licence {licence}, which is not allowed")),
            Err(error) => breaches.push(format!("{name} {version} has the licence {licence}: {error}")),
        },
    }
    breaches
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
        let allowed: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"])];
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
        assert_eq!(edges(&[&a, &package("b", &[])], &[("a", &[]), ("b", &[])]), [""; 0]);
    }

    #[test]
    fn requirements_name_a_version_unless_they_are_paths() {
        let mut a = package("a", &["b"]);
        assert_eq!(requirements(&a), [""; 0]);
        a["dependencies"][0]["path"] = Value::Null;
        assert_eq!(requirements(&a), ["crate a requires any version of b"]);
        a["dependencies"][0]["req"] = json!("^1");
        assert_eq!(requirements(&a), [""; 0]);
    }

    #[test]
    fn libraries_keep_documentation_and_its_tests() {
        let with = |kind: &str, doctest: bool| json!({"targets": [{"kind": [kind], "name": "a", "doc": true, "doctest": doctest}]});
        assert_eq!(documentation(&with("lib", true)), [""; 0]);
        assert_eq!(documentation(&with("bin", false)), [""; 0]);
        assert_eq!(documentation(&with("lib", false)).len(), 1);
    }

    #[test]
    fn external_packages_need_a_known_source_and_an_allowed_licence() {
        let good = json!({"name": "x", "version": "1.0.0", "source": REGISTRY, "license": "MIT"});
        assert_eq!(origin(&good), [""; 0]);
        let with = |key: &str, value: Value| {
            let mut package = good.clone();
            package[key] = value;
            origin(&package)
        };
        assert_eq!(with("name", json!("openssl-sys")).len(), 1);
        assert_eq!(with("source", json!("git+https://example.org/x")).len(), 1);
        assert_eq!(with("license", json!("GPL-3.0-only")).len(), 1);
        assert_eq!(with("license", Value::Null), ["x 1.0.0 states no licence"]);
    }
}
