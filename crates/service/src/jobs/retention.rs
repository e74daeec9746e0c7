//! The time before which nothing is in use by an unfinished job.

use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;

use super::{Jobs, JobsError};
use crate::pages;

/// Time between the upload of a package and the creation of its job that is taken into account.
const UPLOAD_TIME: Duration = Duration::from_secs(24 * 60 * 60);

impl Jobs {
    /// Returns the time such that packages and environments which were last used before it are not needed: `retention`
    /// ago, or before the oldest unfinished job was created.
    ///
    /// # Errors
    /// [`JobsError::Store`].
    pub async fn unused_since(&self, retention: Duration) -> Result<Timestamp, JobsError> {
        let mut since = self.services.clock.now().checked_sub(retention).unwrap_or(Timestamp::UNIX_EPOCH);
        let mut jobs = pin!(pages::jobs(&*self.services.store, None));
        while let Some(job) = jobs.try_next().await? {
            if !job.state.is_final() {
                since = since.min(job.create_time.checked_sub(UPLOAD_TIME).unwrap_or(Timestamp::UNIX_EPOCH));
            }
        }
        Ok(since)
    }
}
