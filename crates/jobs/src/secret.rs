//! Secret of a job, the key for deriving attempt tokens.

use std::io;
use std::path::Path;

use rand::Rng;
use sha2::{Digest, Sha256};
use tunesmith_domain::JobId;
use tunesmith_executor::ExecutorJobId;
use tunesmith_files::RootedPath;
use tunesmith_store::{Documents, StoreError};

const SECRET: &str = "secret";

/// Reads the secret in a job's folder; the first call creates it with owner-only permissions.
pub(super) fn job_secret(directory: &Path) -> io::Result<[u8; 32]> {
    let place = RootedPath::new(directory, "secret");
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

/// Reads the secret in a job's folder, if present.
pub(super) fn existing_secret(directory: &Path) -> io::Result<Option<[u8; 32]>> {
    match RootedPath::new(directory, "secret").read(32) {
        Ok(bytes) => Ok(<[u8; 32]>::try_from(bytes).ok()),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Token of an attempt: a digest keyed with the job's secret.
pub(super) fn attempt_token(secret: &[u8; 32], id: &ExecutorJobId) -> String {
    let digest = Sha256::new().chain_update(secret).chain_update(id.to_string().as_bytes()).finalize();
    hex::encode(digest)
}

/// Reads the secret shared by all servers; the first call on any server creates it.
pub(super) async fn shared_secret(documents: &dyn Documents, job: &JobId) -> Result<[u8; 32], StoreError> {
    let mut secret = [0; 32];
    rand::rng().fill_bytes(&mut secret);
    let stored = documents.get_or_put(SECRET, job.as_str(), secret.to_vec()).await?;
    <[u8; 32]>::try_from(stored).map_err(|stored| StoreError::NotApplied {
        operation: "read the secret of a job",
        source: format!("it has {} bytes instead of 32", stored.len()).into(),
    })
}

/// Reads the secret shared by all servers, if present.
pub(super) async fn existing_shared_secret(
    documents: &dyn Documents,
    job: &JobId,
) -> Result<Option<[u8; 32]>, StoreError> {
    let stored = documents.part(SECRET, job.as_str(), 0).await?;
    Ok(stored.and_then(|stored| stored.try_into().ok()))
}
