//! Validation of archive entries before an installer unpacks them.
//!
//! A Python script, since Python's standard library reads every archive format that installers accept.

use std::path::Path;

use super::installer::Installer;
use super::{PackageError, PackageRules};

const SCRIPT: &str = include_str!("entries.py");

/// Checks that no entry of the archive at `path` escapes its folder, and that number and sizes are within limits.
///
/// # Errors
/// [`PackageError::Refused`].
pub(super) async fn check(
    installer: &Installer,
    uri: &str,
    path: &Path,
    rules: &PackageRules,
) -> Result<(), PackageError> {
    let refused = |detail: String| PackageError::Refused { uri: uri.to_owned(), detail };
    let limits = [rules.max_unpacked_bytes.to_string(), rules.max_entries.to_string()];
    let output = tokio::time::timeout(rules.max_download_time, installer.script(SCRIPT, path, &limits)).await;
    let Ok(output) = output else {
        let limit = rules.max_download_time.as_secs();
        return Err(refused(format!("reading its entries takes longer than {limit} s")));
    };
    let output = output?;
    if output.status.success() {
        return Ok(());
    }
    let rule = String::from_utf8_lossy(&output.stdout);
    let rule = rule.lines().next().unwrap_or("the check of its entries failed");
    Err(refused(rule.to_owned()))
}
