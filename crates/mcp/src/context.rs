//! Context of a call: the API for its caller, progress.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use tunesmith_admission::long_work::{off_the_runtime, permit};
use tunesmith_admission::use_cases::CHECK_CONFIGURATION;
use tunesmith_admission::{Call, CalledAs, Client as Caller, Outcome};
use tunesmith_client::Client;

use crate::Services;
use crate::failure::Failure;

pub(crate) struct Context {
    pub(crate) services: Services,
    /// Client over HTTP; `None` for the user of this process.
    pub(crate) caller: Option<Caller>,
    /// Name of the tool in audit records.
    pub(crate) method: &'static str,
    pub(crate) progress: Option<(Peer<RoleServer>, ProgressToken)>,
}

impl Context {
    /// Client for the resources of `project`, or of the default one.
    pub(crate) fn client(&self, project: Option<&str>) -> Client {
        let transport = (self.services.connect)(Some(CalledAs(self.method)), self.caller.as_ref());
        Client::new(transport, project.unwrap_or(&self.services.project).to_owned())
    }

    /// Runs `work`, which needs no resource of the API, on a blocking thread.
    ///
    /// # Errors
    /// If the caller is not admitted, or `work` fails.
    pub(crate) async fn compute<T: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let computed = async move {
            let _permit = permit().await;
            off_the_runtime(work).await?
        };
        let (Some(control), Some(client)) = (self.services.control, self.caller) else { return computed.await };
        let call = Call {
            use_case: CHECK_CONFIGURATION.shown_as(self.method),
            project: String::new(),
            job: None,
            resource: String::new(),
            client,
            idempotency_key: None,
        };
        let admission = control.admit(call).await?;
        let outcome =
            |computed: &Result<T, Failure>| Outcome { status: computed.as_ref().map_or(400, |_| 200), resource: None };
        admission.run(0, |_| computed, outcome).await?
    }

    /// Reports that `done` of `total` steps have ended, if the caller asked for progress.
    pub(crate) async fn report(&self, done: u64, total: Option<u64>, message: String) {
        let Some((peer, token)) = &self.progress else { return };
        let mut progress = ProgressNotificationParam::new(token.clone(), done as f64).with_message(message);
        progress.total = total.map(|total| total as f64);
        if let Err(error) = peer.notify_progress(progress).await {
            // The result follows, or the client is gone.
            tracing::debug!(error = &error as &dyn std::error::Error, "progress is not reported");
        }
    }
}
