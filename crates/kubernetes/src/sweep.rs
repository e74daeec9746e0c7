//! Removes the Jobs of attempts that are over, and Secrets without a Job.
//!
//! They are left when the API server is away at the end of an attempt, or the server dies before it has removed them. A Job that
//! waits has no time to live: it would wait for ever, and an autoscaler would add nodes for it.

use std::collections::BTreeSet;
use std::io;

use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use kube::api::ListParams;

use super::KubernetesEngine;
use super::client::{ApiError, Purpose};
use super::names::{attempt_of, selector};
use super::submission::Recorded;

impl KubernetesEngine {
    /// Removes what the cluster keeps of attempts that are over, by `is_over` of the text of their ID.
    pub(super) async fn remove_left_over(
        &self,
        is_over: &(dyn for<'a> Fn(&'a str) -> io::Result<bool> + Sync),
    ) -> io::Result<()> {
        let identity = self.submitted.identity()?;
        let mut removed = 0;
        for namespace in self.namespaces()? {
            let jobs = self.jobs(&namespace);
            let params = ListParams::default().labels(&selector(&identity));
            let listed = self.client.call(Purpose::Delete, || jobs.list(&params)).await.map_err(io::Error::other)?;
            for job in listed.items.iter().filter(|job| job.metadata.deletion_timestamp.is_none()) {
                if attempt_of(job).map_or(Ok(false), is_over)? {
                    self.delete_listed(job, &namespace).await.map_err(io::Error::other)?;
                    removed += 1;
                }
            }
        }
        if removed > 0 {
            tracing::info!(kubernetes.jobs = removed, "removed jobs of attempts that are over");
        }
        Ok(())
    }

    /// The namespaces in which objects may have been created.
    pub(super) fn namespaces(&self) -> io::Result<BTreeSet<String>> {
        let mut namespaces = self.settings.queues.clone();
        namespaces.insert(self.namespace.clone());
        for name in self.submitted.starting_with(super::names::PREFIX)? {
            if let Some(note) = self.submitted.note(&name)? {
                namespaces.insert(Recorded::new(name, &note).namespace);
            }
        }
        Ok(namespaces)
    }

    /// Deletes `job` of `namespace`, with its pods.
    pub(super) async fn delete_listed(&self, job: &Job, namespace: &str) -> Result<(), ApiError> {
        self.delete(&Recorded { name: job.name_any(), namespace: namespace.to_owned(), uid: job.uid() }).await
    }
}
