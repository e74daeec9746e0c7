//! The secret of a job, from which the tokens of its attempts are derived.

use std::io;
use std::path::Path;

use rand::Rng;
use sha2::{Digest, Sha256};
use tunesmith_executor::ExecutorJobId;
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

/// Returns the secret in the folder `directory` of a job; `None` if there is none.
///
/// # Errors
/// If it cannot be read.
pub(super) fn existing_secret(directory: &Path) -> io::Result<Option<[u8; 32]>> {
    match Place::new(directory, "secret").read(32) {
        Ok(bytes) => Ok(<[u8; 32]>::try_from(bytes).ok()),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the token of an attempt: a digest that cannot be computed without the secret of the job.
pub(super) fn attempt_token(secret: &[u8; 32], id: &ExecutorJobId) -> String {
    let digest = Sha256::new().chain_update(secret).chain_update(id.to_string().as_bytes()).finalize();
    hex::encode(digest)
}
