//! Removes the Jobs of attempts that another server of the same store has started, before this one starts the next attempts.
//!
//! Only the server that has submitted a Job records it. The others find it by the label of the store.

use kube::ResourceExt;
use kube::api::ListParams;

use super::client::Purpose;
use super::names::{SERVER_LABEL, STORE_LABEL, attempt_of};
use super::{KubernetesEngine, io_failed, unreachable};
use tunesmith_executor::{ExecutorError, ExecutorJobId};

impl KubernetesEngine {
    /// Removes the Jobs of `run` that other servers of the same store have created. Their pods end within their grace period.
    pub(super) async fn remove_of_other_servers(&self, run: &ExecutorJobId) -> Result<(), ExecutorError> {
        let Some(store) = &self.settings.store else { return Ok(()) };
        let (own, text) = (self.identity(run)?, run.to_string());
        let params =
            ListParams::default().labels(&format!("{STORE_LABEL}={store},tunesmith.dev/attempt={}", run.attempt));
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
