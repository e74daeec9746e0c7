//! A file that has grown too long holds two things.

use std::path::Path;

use anyhow::{Context, Result};

/// Aim for a quarter of this.
const MOST_LINES: usize = 600;

/// One message for each file below `folder` that is too long.
pub(crate) fn check(folder: &Path) -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    for path in crate::files(folder, &["rs", "py", "sh"])? {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines = text.lines().count();
        if lines > MOST_LINES {
            breaches.push(format!("{} has {lines} lines, at most {MOST_LINES} are allowed: split it", path.display()));
        }
    }
    Ok(breaches)
}
