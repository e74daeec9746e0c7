//! The secret of a job, from which the tokens of its trials are derived.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rand::Rng;

/// Returns the secret in the folder `directory` of a job. The first call creates it, readable for this user only.
///
/// # Errors
/// If the secret cannot be written.
pub(super) fn job_secret(directory: &Path) -> io::Result<[u8; 32]> {
    let path = directory.join("secret");
    if let Ok(bytes) = std::fs::read(&path)
        && let Ok(secret) = <[u8; 32]>::try_from(bytes)
    {
        return Ok(secret);
    }
    let mut secret = [0; 32];
    rand::rng().fill_bytes(&mut secret);
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    file.write_all(&secret)?;
    Ok(secret)
}
