//! Admitted calls and the execution of their handlers.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::time::Instant;
use tunesmith_access::{Caller, Permission, Role, SuggestionPermit};

use super::call::{Call, IdempotencyKey};
use super::completion::{self, NoResponse};
use super::control::{AccessControl, over_limit};
use super::steps::Steps;
use super::use_cases::RequiredAccess;
use tunesmith_domain::{Code, Document, Refusal};

/// Admitted call. Only [`AccessControl::admit`] creates one; handlers get a clone.
///
/// A suggestion counts against its caller until every clone is dropped.
#[derive(Clone)]
pub struct Admission(Arc<Inner>);

struct Inner {
    control: Arc<AccessControl>,
    call: Call,
    caller: Caller,
    permit: Option<SuggestionPermit>,
    key: Option<IdempotencyKey>,
    steps: Steps,
    /// Time limit of the call, and the resulting deadline.
    limit: (Duration, Instant),
}

/// Outcome of a call, for its audit record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// HTTP status, or the equivalent of the response code.
    pub status: u16,
    /// Name of the created resource; `None`: the resource of the call.
    pub resource: Option<String>,
}

impl Outcome {
    pub fn of_refusal(refusal: &Refusal) -> Self {
        Self { status: refusal.code.http_status(), resource: None }
    }
}

impl Admission {
    pub(crate) fn new(
        control: Arc<AccessControl>,
        call: Call,
        caller: Caller,
        permit: Option<SuggestionPermit>,
        key: Option<IdempotencyKey>,
        limit: (Duration, Instant),
    ) -> Self {
        let queue = match (&caller, call.use_case.access()) {
            (Caller::Authenticated(_), _) => Some(caller.principal().to_owned()),
            (Caller::Anonymous, RequiredAccess::TrialToken) => Some(format!("trials of {}", call.project)),
            (Caller::Anonymous, _) => None,
        };
        let steps = Steps::new(Arc::clone(&control.queues), queue);
        Self(Arc::new(Inner { control, call, caller, permit, key, steps, limit }))
    }

    pub fn caller(&self) -> &Caller {
        &self.0.caller
    }

    /// Principal of the caller; `None` without access control.
    pub fn principal(&self) -> Option<&str> {
        match self.caller() {
            Caller::Anonymous => None,
            Caller::Authenticated(_) => Some(self.caller().principal()),
        }
    }

    /// Policy of a job that the caller creates, who becomes its owner; null without access control.
    pub fn policy_of_creator(&self) -> Document {
        self.policy_with(Role::JobOwner)
    }

    /// As [`Self::policy_of_creator`], of a model.
    pub fn policy_of_model_creator(&self) -> Document {
        self.policy_with(Role::ModelOwner)
    }

    fn policy_with(&self, role: Role) -> Document {
        self.principal().map_or(
            Document::Null,
            |principal| json!({"bindings": [{"role": role.to_string(), "members": [principal]}]}),
        )
    }

    /// Checks that the caller has `permission` on a model, which the call uses beside its resource.
    ///
    /// # Errors
    /// [`Code::PermissionDenied`].
    pub async fn check_model(&self, permission: Permission, project: &str, model: &str) -> Result<(), Refusal> {
        self.0.control.check_model(self.caller(), permission, project, model).await
    }

    pub fn call(&self) -> &Call {
        &self.0.call
    }

    /// Token of the call, checked by use cases of running trials; empty without one.
    pub fn token(&self) -> &str {
        self.0.call.client.token.as_deref().unwrap_or_default()
    }

    /// Idempotency key, if the use case supports one.
    pub fn idempotency_key(&self) -> Option<String> {
        self.0.key.clone().map(Into::into)
    }

    /// Whether the call is still allowed, for streams that it opened. Counts and records nothing.
    pub async fn is_still_allowed(&self) -> bool {
        self.0.control.still_admits(&self.0.call).await
    }

    /// Counts a suggestion and its `count` trials until the returned guard is dropped: suggestions may continue in the
    /// background.
    ///
    /// # Errors
    /// If the caller exceeds its limit of requested trials.
    pub fn hold_trials(&self, count: usize) -> Result<impl Send + Sync + use<>, Refusal> {
        let trials = self.0.permit.as_ref().map(|permit| permit.trials(count)).transpose().map_err(over_limit)?;
        Ok((self.clone(), trials))
    }

    /// Moves the handler to blocking threads, from its next step on, if its input is large.
    pub async fn expect_input(&self, bytes: usize) {
        self.0.steps.expect(bytes).await;
    }

    /// Makes the handler run to completion from now on, despite disconnects and timeouts.
    pub fn begin_change(&self) {
        self.0.steps.begin_change();
    }

    /// Runs `handler` and records its `outcome`. `input_bytes` is the size of the input to parse, if known.
    ///
    /// # Errors
    /// [`Code::Internal`] if it panics, [`Code::DeadlineExceeded`] if it exceeds the time limit.
    pub async fn run<T, F>(
        self,
        input_bytes: usize,
        handler: impl FnOnce(Self) -> F,
        outcome: impl FnOnce(&T) -> Outcome + Send + 'static,
    ) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let handler = handler(self.clone()).boxed();
        self.run_boxed(input_bytes, handler, Box::new(outcome)).await
    }

    /// [`Self::run`] without a type of its handler, so that it is compiled once for each type of response.
    async fn run_boxed<T: Send + 'static>(
        self,
        input_bytes: usize,
        handler: BoxFuture<'static, T>,
        outcome: Box<dyn FnOnce(&T) -> Outcome + Send>,
    ) -> Result<T, Refusal> {
        // The record and the permit belong to the handler, which outlives a disconnected client.
        let work = {
            let admission = self.clone();
            async move {
                admission.expect_input(input_bytes).await;
                let response = handler.await;
                admission.record(&outcome(&response));
                response
            }
        };
        let (limit, end) = self.0.limit;
        let left = end.saturating_duration_since(Instant::now());
        completion::run(work, self.0.steps.clone(), left).await.map_err(|missing| {
            let (refusal, is_recorded) = match missing {
                NoResponse::Panicked => {
                    tracing::error!(api.method = self.0.call.use_case.name(), "a handler panicked");
                    (Refusal::new(Code::Internal, "internal error; see the server's log"), false)
                }
                NoResponse::TimedOut { continues } => (Refusal::timed_out(limit, continues), continues),
            };
            if !is_recorded {
                self.record(&Outcome::of_refusal(&refusal));
            }
            refusal
        })
    }

    fn record(&self, outcome: &Outcome) {
        self.0.control.record(&self.0.call, self.0.caller.principal(), outcome);
    }
}

#[cfg(test)]
mod tests;
