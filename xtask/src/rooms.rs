//! The direction of dependency between the rooms of `src/`, as `ARCHITECTURE.md` draws it.

use std::path::Path;

use anyhow::{Context, Result};

/// Each room with the rooms it may use. A new edge is a change of the design: draw it in `ARCHITECTURE.md` as well.
const MAY_USE: &[(&str, &[&str])] = &[
    ("access", &[]),
    ("clock", &[]),
    ("domain", &[]),
    ("python_packages", &[]),
    ("telemetry", &[]),
    ("store", &["domain", "telemetry"]),
    ("executor", &["domain"]),
    ("metrics_collector", &["domain"]),
    ("data_dir", &["clock", "domain", "store"]),
    ("policy", &["clock", "domain", "store", "telemetry"]),
    (
        "service",
        &["clock", "domain", "executor", "metrics_collector", "policy", "python_packages", "store", "telemetry"],
    ),
    ("api", &["access", "clock", "domain", "executor", "service", "store", "telemetry"]),
    ("config", &["api", "domain"]),
    ("load", &["data_dir", "domain", "store"]),
    ("bench", &["api", "config", "domain", "metrics_collector"]),
    (
        "cli",
        &[
            "access",
            "api",
            "bench",
            "clock",
            "config",
            "data_dir",
            "domain",
            "executor",
            "load",
            "metrics_collector",
            "policy",
            "python_packages",
            "service",
            "store",
        ],
    ),
];

/// Implementations that only their own room and one other may name: everybody else knows the trait.
const CONCRETE: &[(&str, &str)] =
    &[("store::sqlite", "data_dir"), ("store::sled", "data_dir"), ("executor::local", "cli")];

/// One message for each use against the direction in the `.rs` files below `source`.
pub(crate) fn check(source: &Path) -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    for path in crate::files(source, &["rs"])? {
        let relative = path.strip_prefix(source).unwrap_or(&path);
        let Some(first) = relative.components().next() else { continue };
        let first = first.as_os_str().to_string_lossy();
        let room = first.strip_suffix(".rs").unwrap_or(&first);
        if matches!(room, "main" | "lib") {
            continue;
        }
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == room) else {
            breaches.push(format!("src/{first} is a room that xtask/src/rooms.rs does not know"));
            continue;
        };
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        // Tests may choose an implementation.
        let is_test = relative.file_stem().is_some_and(|stem| stem == "tests");
        for used in uses(&text) {
            if let Some(reason) = breach(room, allowed, &used, is_test) {
                breaches.push(format!("src/{} uses crate::{used}: {reason}", relative.display()));
            }
        }
    }
    breaches.dedup();
    Ok(breaches)
}

fn breach(room: &str, allowed: &[&str], used: &str, is_test: bool) -> Option<String> {
    let used_room = used.split("::").next().unwrap_or(used);
    if used_room == room || !MAY_USE.iter().any(|(name, _)| *name == used_room) {
        return None;
    }
    if !allowed.contains(&used_room) {
        return Some(format!("{room} may use {allowed:?}"));
    }
    let (concrete, only) = CONCRETE.iter().find(|(concrete, _)| {
        used.strip_prefix(concrete).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    })?;
    (room != *only && !is_test).then(|| format!("only {only} may name {concrete}"))
}

/// What follows `crate::` anywhere in `text` outside comments, groups written out: `crate::{a::b, c}` is `a::b` and `c`.
fn uses(text: &str) -> Vec<String> {
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect();
    let mut found = Vec::new();
    for (position, marker) in code.match_indices("crate::") {
        let before = code[..position].chars().next_back();
        // `$crate::` is meant, `other_crate::` is not.
        if !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_') {
            expand("", &code[position + marker.len()..], &mut found);
        }
    }
    found
}

/// Adds the paths of the use tree at the start of `tree`, each after `prefix`, to `found`; returns what follows it.
fn expand<'a>(prefix: &str, tree: &'a str, found: &mut Vec<String>) -> &'a str {
    let end =
        tree.find(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':')).unwrap_or(tree.len());
    let (path, mut rest) = tree.split_at(end);
    let path = format!("{prefix}{path}");
    let Some(group) = rest.strip_prefix('{').filter(|_| path.is_empty() || path.ends_with("::")) else {
        found.push(path.trim_end_matches(':').to_owned());
        return rest;
    };
    rest = group.trim_start();
    while !rest.is_empty() && !rest.starts_with('}') {
        rest = expand(&path, rest, found);
        // Past ` as name` and the comma, to the next tree or the end of the group.
        let next = rest.find([',', '}']).unwrap_or(rest.len());
        rest = rest[next..].strip_prefix(',').unwrap_or(&rest[next..]).trim_start();
    }
    rest.strip_prefix('}').unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_found_in_every_form() {
        let text = "
            //! crate::comment
            use crate::{clock::Clock as C, domain::{self, Trial}, store};
            pub(crate) fn f(x: &crate::executor::local::LocalExecutor) -> my_crate::api::X {}
        ";
        assert_eq!(
            uses(text),
            ["clock::Clock", "domain::self", "domain::Trial", "store", "executor::local::LocalExecutor"]
        );
    }

    #[test]
    fn uses_against_the_direction_are_breaches() {
        let breach = |room: &str, used: &str| {
            let (_, allowed) = MAY_USE.iter().find(|(name, _)| *name == room).unwrap();
            super::breach(room, allowed, used, false)
        };
        assert_eq!(breach("store", "domain::Trial"), None);
        assert!(breach("domain", "store::Store").is_some());
        assert!(breach("service", "store::sqlite::SqliteStore").is_some());
        assert_eq!(breach("service", "store::Store"), None);
        assert_eq!(breach("data_dir", "store::sqlite::SqliteStore"), None);
        assert_eq!(breach("store", "store::sqlite"), None);
    }

    #[test]
    fn no_edge_can_be_followed_in_a_circle() {
        for (room, _) in MAY_USE {
            let mut reached: Vec<&str> = Vec::new();
            let mut next = vec![*room];
            while let Some(from) = next.pop() {
                let (_, allowed) = MAY_USE.iter().find(|(name, _)| *name == from).unwrap();
                for to in allowed.iter().filter(|to| !reached.contains(to)).copied().collect::<Vec<_>>() {
                    assert_ne!(to, *room, "{room} reaches itself through {from}");
                    reached.push(to);
                    next.push(to);
                }
            }
        }
    }
}
