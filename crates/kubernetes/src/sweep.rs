//! Garbage collection of Jobs of finished attempts and of Secrets without a Job.
//!
//! They remain if the API server is unavailable when an attempt ends, or if the server dies before deleting them. A
//! pending Job has no time to live: it would wait forever and make an autoscaler add nodes.

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
    /// Deletes the objects of finished attempts. `is_over` receives the attempt ID as text.
    pub(super) async fn remove_left_over(
        &self,
        is_over: &(dyn for<'a> Fn(&'a str) -> io::Result<bool> + Sync),
    ) -> io::Result<()> {
        let identity = self.submitted.identity()?;
        let mut removed = 0;
        for namespace in self.namespaces()? {
            let jobs = self.jobs(&namespace);
            let params = ListParams::default().labels(&selector(identity));
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

    /// Namespaces that may contain objects.
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

    /// Deletes `job` and its pods.
    pub(super) async fn delete_listed(&self, job: &Job, namespace: &str) -> Result<(), ApiError> {
        self.delete(&Recorded { name: job.name_any(), namespace: namespace.to_owned(), uid: job.uid() }).await
    }
}
