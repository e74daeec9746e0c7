//! The secret of a job, from which the tokens of its trials are derived.

use std::io;
use std::path::Path;

use rand::Rng;
use tunesmith_domain::JobId;
use tunesmith_files::Place;
use tunesmith_store::{Documents, StoreError};

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

/// Returns the secret of `job`, which all servers share. The first call of any server creates it.
///
/// # Errors
/// If it cannot be read or stored.
pub(super) async fn shared_secret(documents: &dyn Documents, job: &JobId) -> Result<[u8; 32], StoreError> {
    let mut secret = [0; 32];
    rand::rng().fill_bytes(&mut secret);
    let stored = documents.get_or_put("secret", job.as_str(), secret.to_vec()).await?;
    <[u8; 32]>::try_from(stored).map_err(|stored| StoreError::NotApplied {
        operation: "read the secret of a job",
        source: format!("it has {} bytes instead of 32", stored.len()).into(),
    })
}
