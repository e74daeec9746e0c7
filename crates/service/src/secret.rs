//! The secret of a job, from which the tokens of its attempts are derived.

use std::io;
use std::path::Path;

use rand::Rng;
use sha2::{Digest, Sha256};
use tunesmith_domain::JobId;
use tunesmith_executor::ExecutorJobId;
use tunesmith_files::Place;
use tunesmith_store::{Documents, StoreError};

/// The kind of the shared documents with the secrets of jobs.
const SECRET: &str = "secret";

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

/// Returns the secret of `job`, which all servers share. The first call of any server creates it.
///
/// # Errors
/// If it cannot be read or stored.
pub(super) async fn shared_secret(documents: &dyn Documents, job: &JobId) -> Result<[u8; 32], StoreError> {
    let mut secret = [0; 32];
    rand::rng().fill_bytes(&mut secret);
    let stored = documents.get_or_put(SECRET, job.as_str(), secret.to_vec()).await?;
    <[u8; 32]>::try_from(stored).map_err(|stored| StoreError::NotApplied {
        operation: "read the secret of a job",
        source: format!("it has {} bytes instead of 32", stored.len()).into(),
    })
}

/// Returns the secret of `job`, which all servers share; `None` if there is none.
///
/// # Errors
/// If it cannot be read.
pub(super) async fn existing_shared_secret(
    documents: &dyn Documents,
    job: &JobId,
) -> Result<Option<[u8; 32]>, StoreError> {
    let stored = documents.part(SECRET, job.as_str(), 0).await?;
    Ok(stored.and_then(|stored| stored.try_into().ok()))
}
