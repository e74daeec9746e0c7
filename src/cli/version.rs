//! Program version.

use std::sync::LazyLock;

/// Version of the workspace. Releases append the commit they were built from: `0.1.0 (1f2e3d4c)`.
///
/// `cargo xtask release` sets the variable at compile time. A build script would recompile this crate for every commit.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("TUNESMITH_COMMIT") {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
});

/// Program version, with the commit in releases.
pub(crate) fn version() -> &'static str {
    &VERSION
}
