//! The secret of a job, from which the tokens of its trials are derived.

use std::io;
use std::path::Path;

use rand::Rng;
use tunesmith_files::Place;

/// Returns the secret in the folder `directory` of a job. The first call creates it, readable for this user only.
///
/// # Errors
/// If the secret cannot be written.
pub(super) fn job_secret(directory: &Path) -> io::Result<[u8; 32]> {
    let place = Place::new(directory, "secret");
    if let Ok(bytes) = place.read(32)
        && let Ok(secret) = <[u8; 32]>::try_from(bytes)
    {
        return Ok(secret);
    }
    let mut secret = [0; 32];
    rand::rng().fill_bytes(&mut secret);
    place.replace(&secret, false)?;
    Ok(secret)
}
