//! Embedded scripts and styles of a report.
//!
//! A page opened from a folder cannot load modules, so one script contains them all.

use std::fmt::Write;
use std::sync::OnceLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

pub(super) const STYLE: &str = include_str!("../../assets/console.css");
pub(super) const STYLE_OF_PLOTS: &str = include_str!("../../assets/explore.css");

/// Modules of a report, in dependency order.
const MODULES: [(&str, &str); 9] = [
    ("theme.js", include_str!("../../assets/theme.js")),
    ("times.js", include_str!("../../assets/times.js")),
    ("plot_parts.js", include_str!("../../assets/plot_parts.js")),
    ("scales.js", include_str!("../../assets/scales.js")),
    ("surface.js", include_str!("../../assets/surface.js")),
    ("plots.js", include_str!("../../assets/plots.js")),
    ("parallel.js", include_str!("../../assets/parallel.js")),
    ("figure.js", include_str!("../../assets/figure.js")),
    ("report.js", include_str!("../../assets/report.js")),
];

pub(super) fn bundle() -> &'static str {
    static BUNDLE: OnceLock<String> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        let mut script = "const modules = {};\n".to_owned();
        for (name, source) in MODULES {
            // Writing to a string does not fail.
            let _ = write!(script, "modules[\"./{name}\"] = (() => {{\n{}}})();\n", function_body(source));
        }
        script
    })
}

/// Function body that returns the exports of the module `source`. Requires imports and exports on separate lines.
fn function_body(source: &str) -> String {
    let (mut body, mut exported) = (String::new(), Vec::new());
    for line in source.lines() {
        let line = if let Some(import) = line.strip_prefix("import ") {
            let (names, module) = import.trim_end_matches(';').split_once(" from ").unwrap_or_default();
            format!("const {} = modules[{module}];", names.trim_start_matches("* as ").replace(" as ", ": "))
        } else if let Some(declared) = line.strip_prefix("export ") {
            let name =
                declared.trim_start_matches("async ").trim_start_matches("function ").trim_start_matches("const ");
            exported.push(name.split(['(', ' ']).next().unwrap_or_default());
            declared.to_owned()
        } else {
            line.to_owned()
        };
        body.push_str(&line);
        body.push('\n');
    }
    let _ = writeln!(body, "return {{ {} }};", exported.join(", "));
    body
}

pub(super) fn digest(script: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(script)))
}

/// Escapes the characters in `json` that could end an HTML element. They occur only within strings.
pub(super) fn island(json: &str) -> String {
    let mut island = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(island, "\\u{:04x}", u32::from(letter));
            }
            letter => island.push(letter),
        }
    }
    island
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_becomes_a_function() {
        let source =
            "import { a, b } from \"./x.js\";\nimport * as y from \"./y.js\";\nexport async function f(c) {}\n";
        let expected = "const { a, b } = modules[\"./x.js\"];\nconst y = modules[\"./y.js\"];\nasync function f(c) {}\n\
                        return { f };\n";
        assert_eq!(function_body(source), expected);
    }

    #[test]
    fn scripts_and_styles_end_where_the_page_ends_them() {
        let script = bundle();
        for line in script.lines() {
            assert!(!line.starts_with("import") && !line.starts_with("export"), "{line}");
        }
        for text in [script, STYLE, STYLE_OF_PLOTS] {
            for end in ["</script", "<!--", "</style", "\r"] {
                assert!(!text.to_lowercase().contains(end), "{end:?}");
            }
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"), "a report loads nothing");
    }

    #[test]
    fn island_has_no_character_of_html_and_the_same_value() {
        let names = ["</script><script>a()</script>", "<!--<script>", "&lt;", "]]>", "\u{2028}\"\\u003c"];
        let json = serde_json::to_string(&names).unwrap();
        let island = island(&json);
        assert!(!island.contains(['<', '>', '&', '\u{2028}']), "{island}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&island).unwrap(), names);
    }
}
