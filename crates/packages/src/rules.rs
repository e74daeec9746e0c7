//! Restrictions on the addresses, sizes and entries of packages.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackageRules {
    /// Whether to allow non-public addresses: loopback, private networks, link-local.
    pub allow_private_addresses: bool,
    pub max_archive_bytes: u64,
    pub max_download_time: Duration,
    /// Maximum total size of an archive's entries in bytes.
    pub max_unpacked_bytes: u64,
    pub max_entries: u64,
    /// Maximum duration of one installation step.
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
