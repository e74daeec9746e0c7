//! File length limit.

use std::path::Path;

use anyhow::{Context, Result};

/// Maximum lines; most files should have 100 to 250.
const MOST_LINES: usize = 500;

const FOLDERS: &[&str] =
    &["src", "crates", "algorithms", "benchmark", "xtask", "tests", "benches", "examples", "clients", ".ci"];

/// One message per overlong source file.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    for folder in FOLDERS {
        for path in crate::files(&root.join(folder), &["rs", "py", "sh"])? {
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let file = path.strip_prefix(root).unwrap_or(&path);
            breaches.extend(breach(file, &text));
        }
    }
    Ok(breaches)
}

fn breach(file: &Path, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > MOST_LINES)
        .then(|| format!("{}: {lines} lines, at most {MOST_LINES} are allowed: split the file", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_have_as_many_lines_as_the_limit() {
        let file = Path::new("a.rs");
        assert_eq!(breach(file, &"\n".repeat(MOST_LINES)), None);
        let message = breach(file, &"\n".repeat(MOST_LINES + 1)).unwrap();
        assert_eq!(message, "a.rs: 501 lines, at most 500 are allowed: split the file");
    }
}
