//! Deletes Jobs of superseded attempts that another server of the same store started.
//!
//! Only the submitting server records a Job; others find it by the store label.

use kube::ResourceExt;
use kube::api::ListParams;

use super::client::Purpose;
use super::names::{ATTEMPT_LABEL, SERVER_LABEL, STORE_LABEL, attempt_of};
use super::{KubernetesEngine, io_failed, unreachable};
use tunesmith_executor::{ExecutorError, ExecutorJobId};

impl KubernetesEngine {
    /// Deletes the Jobs of `run` created by other servers of the store. Their pods end within the grace period.
    pub(super) async fn remove_of_other_servers(&self, run: &ExecutorJobId) -> Result<(), ExecutorError> {
        let Some(store) = &self.settings.store else { return Ok(()) };
        let (own, text) = (self.identity(run)?, run.to_string());
        let params = ListParams::default().labels(&format!("{STORE_LABEL}={store},{ATTEMPT_LABEL}={}", run.attempt));
        for namespace in self.namespaces().map_err(io_failed(run))? {
            let jobs = self.jobs(&namespace);
            let listed = self.client.call(Purpose::Delete, || jobs.list(&params)).await;
            let listed = listed.map_err(|error| unreachable(run, error))?;
            let is_foreign = |server: Option<&String>| server.is_some_and(|server| *server != own);
            for job in listed.items {
                if attempt_of(&job) == Some(&text) && is_foreign(job.labels().get(SERVER_LABEL)) {
                    let name = job.name_any();
                    self.delete_listed(&job, &namespace).await.map_err(|error| unreachable(run, error))?;
                    tracing::info!(executor.job = %run, kubernetes.job = name, "removed the job of another server");
                }
            }
        }
        Ok(())
    }
}
