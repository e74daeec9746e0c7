//! The version that the program reports.

use std::sync::LazyLock;

/// The version of the workspace. A release adds the commit that it was built from: `0.1.0 (1f2e3d4c)`.
///
/// `cargo xtask release` sets the variable while it compiles. A build script would compile this crate again for every commit.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("TUNESMITH_COMMIT") {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
});

/// The version of the program, with the commit in releases.
pub(crate) fn version() -> &'static str {
    &VERSION
}
