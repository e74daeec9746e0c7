//! What packages may be: their addresses, sizes and entries.

use std::time::Duration;

/// Limits of the packages of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackageRules {
    /// Whether packages may be fetched from addresses that are not public: loopback, private networks, link-local.
    pub allow_private_addresses: bool,
    /// Maximum size of an archive in bytes.
    pub max_archive_bytes: u64,
    /// Maximum duration of a download.
    pub max_download_time: Duration,
    /// Maximum size of the entries of an archive in bytes.
    pub max_unpacked_bytes: u64,
    /// Maximum number of entries of an archive.
    pub max_entries: u64,
    /// Maximum duration of one step of an installation.
    pub max_install_time: Duration,
}

impl Default for PackageRules {
    /// Public addresses only. The sizes are guesses: several times those of the largest packages of the public index.
    fn default() -> Self {
        Self {
            allow_private_addresses: false,
            max_archive_bytes: 4 << 30,
            max_download_time: Duration::from_secs(30 * 60),
            max_unpacked_bytes: 16 << 30,
            max_entries: 200_000,
            max_install_time: Duration::from_secs(60 * 60),
        }
    }
}
