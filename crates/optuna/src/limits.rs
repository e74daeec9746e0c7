//! Limits on what a client may store and send.

use std::time::Duration;

/// Maximum size of a message in bytes, in both directions.
pub(crate) const MESSAGE_BYTES: usize = 64 << 20;

/// Maximum length of the names of studies and parameters and of attribute keys, in characters, as in Optuna's own
/// databases.
pub(crate) const NAME_CHARACTERS: usize = 512;

/// Maximum size of an attribute value or a distribution, as JSON, in bytes. Optuna splits longer values of its own.
pub(crate) const VALUE_BYTES: usize = 4 << 20;

/// Maximum size of all attributes of a study, and of everything in a trial, in bytes.
pub(crate) const RECORD_BYTES: i64 = 16 << 20;

/// Size of an entry besides its texts, which bounds the number of entries in a record.
pub(crate) const ENTRY_BYTES: i64 = 16;

/// Maximum number of objectives in a study, and of values in a trial.
pub(crate) const OBJECTIVES: usize = 1000;

/// Maximum number of unfinished trials that a client may ask for by ID.
pub(crate) const INCLUDED_TRIALS: usize = 100_000;

/// Maximum number of connections.
pub(crate) const CONNECTIONS: usize = 1024;

/// Maximum number of concurrent calls on a connection; a client queues the others.
pub(crate) const CALLS_PER_CONNECTION: u32 = 128;

/// Maximum number of concurrent calls whose messages are being received or handled.
pub(crate) const CALLS: usize = 256;

/// Interval of pings to a silent client, and the maximum wait for its response.
pub(crate) const PING_INTERVAL: Duration = Duration::from_secs(30);
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(20);
