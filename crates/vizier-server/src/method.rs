//! Methods: a message in, a message out. Each is served over gRPC and, by its rules, over HTTP.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use futures::future::BoxFuture;
use prost::{Message, Name};
use prost_reflect::{DynamicMessage, MessageDescriptor};
use tunesmith_admission::{Admission, Call, Client, Outcome, UseCase, long_work};
use tunesmith_domain::{Code, JobId, Refusal};
use tunesmith_vizier::json;
use tunesmith_vizier::names::vertex as names;

use crate::grpc;
use crate::http_rule::HttpRule;
use crate::services::{Context, Reply, Services};

/// Size of an encoded message from which it is rendered on a blocking thread (a guess: 1 ms).
const LONG_BYTES: usize = 64 << 10;

/// Method of a service.
pub(crate) struct Method {
    pub(crate) service: &'static str,
    pub(crate) name: &'static str,
    /// Named as the method in logs and audit records.
    pub(crate) use_case: UseCase,
    pub(crate) http: Vec<HttpRule>,
    /// Type of the request.
    request: String,
    grpc: GrpcCall,
    json: JsonCall,
}

type GrpcCall =
    Box<dyn Fn(Arc<Services>, Client, Request) -> BoxFuture<'static, Response<tonic::body::Body>> + Send + Sync>;

type JsonCall = Box<
    dyn Fn(Arc<Services>, Client, DynamicMessage) -> BoxFuture<'static, Result<Reply<Vec<u8>>, Refusal>> + Send + Sync,
>;

/// Types of request messages.
pub(crate) trait RequestMessage: Message + Name + Default + 'static {}

impl<T: Message + Name + Default + 'static> RequestMessage for T {}

impl Method {
    /// Method `full_name`, such as `google.longrunning.Operations.GetOperation`. `named` is the resource of a request.
    pub(crate) fn new<M, R, F>(
        full_name: &'static str,
        use_case: UseCase,
        named: fn(&M) -> &str,
        handler: fn(Context, M) -> F,
    ) -> Self
    where
        M: RequestMessage,
        R: RequestMessage,
        F: Future<Output = Result<Reply<R>, Refusal>> + Send + 'static,
    {
        let (service, name) = full_name.rsplit_once('.').unwrap_or(("", full_name));
        let use_case = use_case.shown_as(full_name);
        let calling = Calling { use_case, named, handler };
        Self {
            service,
            name,
            use_case,
            http: Vec::new(),
            request: M::full_name(),
            grpc: Box::new(move |services, client, request| Box::pin(grpc::unary(calling, services, client, request))),
            json: Box::new(move |services, client, message| Box::pin(of_json(calling, services, client, message))),
        }
    }

    /// Serves the method over HTTP, too: `GET /v1/{name=projects/*}` and, after another space, the field of the body or
    /// `*` for the message.
    pub(crate) fn http(mut self, rule: &'static str) -> Self {
        self.http.extend(HttpRule::parse(rule));
        self
    }

    pub(crate) fn request(&self) -> Result<MessageDescriptor, Refusal> {
        json::descriptor(&self.request)
    }

    pub(crate) async fn call_grpc(
        &self,
        services: Arc<Services>,
        client: Client,
        request: Request,
    ) -> Response<tonic::body::Body> {
        (self.grpc)(services, client, request).await
    }

    pub(crate) async fn call_json(
        &self,
        services: Arc<Services>,
        client: Client,
        request: DynamicMessage,
    ) -> Result<Reply<Vec<u8>>, Refusal> {
        (self.json)(services, client, request).await
    }
}

/// Call of a method: its use case, the resource that a request names, and its handler.
pub(crate) struct Calling<M, F> {
    pub(crate) use_case: UseCase,
    named: fn(&M) -> &str,
    handler: fn(Context, M) -> F,
}

impl<M, F> Clone for Calling<M, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M, F> Copy for Calling<M, F> {}

impl<M: RequestMessage, F> Calling<M, F> {
    /// Admits the call of `client` with `message`, and handles it.
    pub(crate) async fn call<R>(self, services: Arc<Services>, client: Client, message: M) -> Result<Reply<R>, Refusal>
    where
        R: Send + 'static,
        F: Future<Output = Result<Reply<R>, Refusal>> + Send + 'static,
    {
        let Self { use_case, named, handler } = self;
        let admission = services.control.admit(call(use_case, named(&message), client)).await?;
        let input_bytes = message.encoded_len();
        let handle = |admission: Admission| async move {
            if use_case.changes() {
                admission.begin_change();
            }
            handler(Context { services, admission }, message).await
        };
        let outcome = |reply: &Result<Reply<R>, Refusal>| match reply {
            Ok(reply) => Outcome { status: 200, resource: reply.created.clone() },
            Err(refusal) => Outcome::of_refusal(refusal),
        };
        admission.run(input_bytes, handle, outcome).await?
    }
}

/// Call of `use_case` on the resource `name`.
pub(crate) fn call(use_case: UseCase, name: &str, client: Client) -> Call {
    let mut segments = name.split('/');
    let project = match segments.next() {
        Some("projects" | "owners") => segments.next().unwrap_or_default(),
        _ => "",
    };
    // The policy of a job may allow what the roles in its project do not.
    let job = match segments.skip(2).collect::<Vec<_>>()[..] {
        [names::CUSTOM_JOBS | names::TUNING_JOBS, job, ..] => JobId::of_vertex(project, job).ok(),
        _ => None,
    };
    Call {
        use_case,
        project: project.to_owned(),
        job: job.map(|job| job.parts().1.to_owned()),
        resource: name.to_owned(),
        client,
        idempotency_key: None,
    }
}

/// Refuses a client with missing or wrong credentials before its message is read.
///
/// # Errors
/// The refusal, which is recorded.
pub(crate) async fn check_credentials(services: &Services, use_case: UseCase, client: &Client) -> Result<(), Refusal> {
    if services.control.knows(use_case, client) {
        return Ok(());
    }
    match services.control.admit(call(use_case, "", client.clone())).await {
        Err(refusal) => Err(refusal),
        // The credentials became valid just now.
        Ok(_) => Err(Refusal::new(Code::Unavailable, "the credentials have changed; try again")),
    }
}

/// Admits a call of an unknown method, and refuses it with `refusal`.
pub(crate) async fn unknown(
    services: &Services,
    changes: bool,
    client: Client,
    refusal: Refusal,
) -> (UseCase, Refusal) {
    let use_case = UseCase::unknown(changes);
    let refused = match services.control.admit(call(use_case, "", client)).await {
        Ok(admission) => admission.run(0, |_| async { refusal }, Outcome::of_refusal).await,
        Err(refusal) => Err(refusal),
    };
    (use_case, refused.unwrap_or_else(|refusal| refusal))
}

async fn of_json<M, R, F>(
    calling: Calling<M, F>,
    services: Arc<Services>,
    client: Client,
    message: DynamicMessage,
) -> Result<Reply<Vec<u8>>, Refusal>
where
    M: RequestMessage,
    R: RequestMessage,
    F: Future<Output = Result<Reply<R>, Refusal>> + Send + 'static,
{
    let message: M = message.transcode_to().map_err(|error| Refusal::invalid("body", error.to_string()))?;
    let Reply { message, created, notices } = calling.call(services, client, message).await?;
    let bytes = message.encoded_len();
    let write = move || json::write(&message, &R::full_name());
    let message = if bytes < LONG_BYTES {
        write()?
    } else {
        let _permit = long_work::permit().await;
        long_work::off_the_runtime(write).await??
    };
    Ok(Reply { message, created, notices })
}
