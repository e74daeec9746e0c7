//! What pages name exists: links, configuration keys, metrics, messages.

use serde_json::Value;
use tunesmith_testing::Workspace;
use tunesmith_testing::server::Server;

use super::{files, read, root};

#[test]
fn links_lead_to_files_and_headings() {
    let mut pages = files("docs", "md");
    pages.extend(files("examples", "md"));
    pages.extend(
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "clients/python/README.md"].map(Into::into),
    );
    for page in pages {
        let text = read(page.to_str().unwrap());
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = root().join(page.parent().unwrap()).join(file);
            let target = if file.is_empty() { root().join(&page) } else { target };
            assert!(target.exists(), "{}: {link} leads nowhere", page.display());
            if !heading.is_empty() {
                let text = std::fs::read_to_string(&target).unwrap();
                assert!(headings(&text).any(|found| found == heading), "{}: {link} has no heading", page.display());
            }
        }
    }
}

/// The anchors of the headings of a page.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>().replace(' ', "-")
    })
}

/// The table of contents is also that of the documentation site.
#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = read("docs/README.md");
    for folder in ["docs/guide", "docs/reference"] {
        for page in files(folder, "md") {
            let link = page.strip_prefix("docs").unwrap().display().to_string();
            assert!(contents.contains(&format!("]({link})")), "docs/README.md has no link to {link}");
        }
    }
}

/// The version of the workspace is that of everything that a release publishes.
#[test]
fn versions_agree() {
    let version = env!("CARGO_PKG_VERSION");
    let places = [
        ("CHANGELOG.md", format!("\n## {version}")),
        ("examples/kubernetes/chart/Chart.yaml", format!("\nversion: {version}\nappVersion: \"{version}\"\n")),
        ("examples/kubernetes/chart/values.yaml", format!("\nimage: registry.example.com/tunesmith:{version}\n")),
        ("examples/kubernetes/base/kustomization.yaml", format!("  newTag: \"{version}\"\n")),
        ("clients/python/src/tunesmith/_version.py", format!("\"{version}\"")),
        ("clients/hydra/hydra_plugins/hydra_tunesmith_sweeper/__init__.py", format!("\"{version}\"")),
    ];
    for (file, text) in places {
        assert!(read(file).contains(&text), "{file} has not {text:?}");
    }
}

/// The wheel and the client alone are one distribution.
#[test]
fn extras_of_the_wheel_and_of_the_client_agree() {
    let extras = |file| {
        let text = read(file);
        let (_, section) = text.split_once("\n[project.optional-dependencies]\n").unwrap();
        section.split_once("\n\n").unwrap().0.to_owned()
    };
    assert_eq!(extras("pyproject.toml"), extras("clients/python/pyproject.toml"));
}

#[test]
fn every_configuration_key_is_documented() {
    let schema: Value = serde_json::from_str(&read("schemas/hptuning_config.schema.json")).unwrap();
    let page = read("docs/reference/configuration.md");
    for (message, definition) in schema["$defs"].as_object().unwrap() {
        for key in definition["properties"].as_object().into_iter().flatten().map(|(key, _)| key) {
            assert!(page.contains(&format!("`{key}`")), "{message}.{key} is not in docs/reference/configuration.md");
        }
        for choice in definition["oneOf"].as_array().into_iter().flatten().filter_map(|one| one["const"].as_str()) {
            let is_machine = message == "ScaleTier";
            assert!(
                is_machine || page.contains(choice),
                "{message} {choice} is not in docs/reference/configuration.md"
            );
        }
    }
}

#[test]
fn every_key_of_the_server_configuration_is_documented() {
    let schema: Value = serde_json::from_str(&read("schemas/server_config.schema.json")).unwrap();
    let page = read("docs/reference/server-configuration.md");
    let definitions = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    let keys = definitions.flat_map(|definition| definition["properties"].as_object().into_iter().flatten());
    let missing: Vec<&String> = keys.map(|(key, _)| key).filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/reference/server-configuration.md lacks {missing:?}");
}

#[test]
fn every_metric_is_documented() {
    let workspace = Workspace::new("");
    let (status, text) = Server::start(&workspace, &[]).text("GET", "/metrics");
    assert_eq!(status, 200);
    let page = read("docs/reference/metrics.md");
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert!(names.len() >= 6, "{text}");
    for name in names {
        let is_there = ["", "_total", "_info"].iter().any(|suffix| page.contains(&format!("`{name}{suffix}`")));
        assert!(is_there, "{name} is not in docs/reference/metrics.md");
    }
}

/// Headings of the troubleshooting page quote messages, with `…` for names and values.
#[test]
fn quoted_messages_are_those_of_the_code() {
    let mut code = String::new();
    for folder in ["src", "crates", "algorithms", "benchmark"] {
        if !root().join(folder).exists() {
            continue;
        }
        for file in files(folder, "rs") {
            let text = read(file.to_str().unwrap());
            // A literal goes on after a backslash at the end of a line.
            for (index, part) in text.split("\\\n").enumerate() {
                code.push_str(if index == 0 { part } else { part.trim_start() });
            }
        }
    }
    let code = code.replace("\\\"", "\"");
    let page = read("docs/guide/troubleshooting.md");
    let messages: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    assert!(messages.len() > 30, "{messages:?}");
    let unknown = messages
        .iter()
        .filter(|message| message.split('…').any(|part| !part.trim().is_empty() && !code.contains(part)));
    let unknown: Vec<&&str> = unknown.collect();
    assert!(unknown.is_empty(), "no code has these messages: {unknown:#?}");
}

#[test]
fn examples_of_the_server_configuration_are_valid() {
    let page = read("docs/reference/server-configuration.md");
    let examples: Vec<&str> = page.split("```yaml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect();
    assert!(examples.len() >= 3, "{examples:?}");
    let mut templates = 0;
    for text in examples {
        let config = tunesmith_config::parse_server("server.yaml", text, Default::default()).unwrap();
        let kubernetes = config.executor.kubernetes;
        for template in kubernetes.pod_template.into_iter().chain(kubernetes.pod_templates.into_values()) {
            tunesmith_kubernetes::PodTemplate::new(Value::Object(template)).unwrap();
            templates += 1;
        }
    }
    assert_eq!(templates, 2);
}
