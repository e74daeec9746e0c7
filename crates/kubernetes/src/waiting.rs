//! Why no pod is created for a Job: the Job itself does not state it, its events do.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use super::client::Client;
use super::state::quoted;

/// Time between two requests for the events of a Job.
const INTERVAL: Duration = Duration::from_secs(15);

/// The answers for the Jobs without pods, by UID.
#[derive(Default)]
pub(super) struct Refusals(Mutex<HashMap<String, (Instant, Option<String>)>>);

impl Refusals {
    /// What the Job controller reports about `job`, such as an exhausted quota; `None` if it reports nothing.
    pub(super) async fn of(&self, client: &Client, namespace: &str, job: &Job) -> Option<String> {
        let uid = job.uid()?;
        if let Some((at, reason)) = self.known().get(&uid)
            && at.elapsed() < INTERVAL
        {
            return reason.clone();
        }
        let events: Api<Event> = Api::namespaced(client.kube.clone(), namespace);
        let params = ListParams::default().fields(&format!("involvedObject.uid={uid},reason=FailedCreate"));
        let reason = match client.call(|| events.list(&params)).await {
            Ok(found) => {
                let newest =
                    found.items.into_iter().max_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
                newest.map(|event| format!("FailedCreate: {}", quoted(&event.message.unwrap_or_default())))
            }
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "the events of a job cannot be listed");
                None
            }
        };
        let mut known = self.known();
        known.retain(|_, (at, _)| at.elapsed() < INTERVAL);
        known.insert(uid, (Instant::now(), reason.clone()));
        reason
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Instant, Option<String>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
