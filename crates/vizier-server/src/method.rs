//! Methods: a message in, a message out. Each is served over gRPC and, by its rules, over HTTP.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use prost::{DecodeError, Message, Name};
use prost_reflect::{DynamicMessage, MessageDescriptor};
use tunesmith_admission::{Admission, Call, Client, Outcome, UseCase, long_work};
use tunesmith_domain::{Code, JobId, Refusal};
use tunesmith_vizier::names::vertex as names;
use tunesmith_vizier::{Version, json};

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
    /// Full name in `v1beta1`, if it is there, too.
    beta: Option<&'static str>,
    /// Types of the request and of the response.
    request: String,
    response: String,
    decode: Decode,
}

/// Decodes a request of a method. No type of a message is part of its type, so that admission and both protocols are
/// compiled once, not for each method.
pub(crate) type Decode = Arc<dyn Fn(Bytes) -> Result<Decoded, DecodeError> + Send + Sync>;

/// Decoded request.
pub(crate) struct Decoded {
    /// The resource that it names.
    named: String,
    bytes: usize,
    version: Version,
    handle: Box<dyn FnOnce(Context) -> Handling + Send>,
}

/// Handling of a request, with an encoded reply.
type Handling = BoxFuture<'static, Result<Reply<Bytes>, Refusal>>;

impl Method {
    /// Method `full_name`, such as `google.longrunning.Operations.GetOperation`. `named` is the resource of a request.
    pub(crate) fn new<M, R, F>(
        full_name: &'static str,
        use_case: UseCase,
        named: fn(&M) -> &str,
        handler: fn(Context, M) -> F,
    ) -> Self
    where
        M: Message + Name + Default + 'static,
        R: Message + Name + 'static,
        F: Future<Output = Result<Reply<R>, Refusal>> + Send + 'static,
    {
        let (service, name) = full_name.rsplit_once('.').unwrap_or(("", full_name));
        let decode = move |encoded: Bytes| {
            let bytes = encoded.len();
            let message = M::decode(encoded)?;
            let named = named(&message).to_owned();
            let handle = move |context| -> Handling {
                let handling = handler(context, message);
                Box::pin(async move { Ok(handling.await?.map(|message| message.encode_to_vec().into())) })
            };
            Ok(Decoded { named, bytes, version: Version::V1, handle: Box::new(handle) })
        };
        Self {
            service,
            name,
            use_case: use_case.shown_as(full_name),
            http: Vec::new(),
            beta: None,
            request: M::full_name(),
            response: R::full_name(),
            decode: Arc::new(decode),
        }
    }

    /// Serves the method over HTTP, too: `GET /v1/{name=projects/*}` and, after another space, the field of the body or
    /// `*` for the message.
    pub(crate) fn http(mut self, rule: &'static str) -> Self {
        self.http.extend(HttpRule::parse(rule));
        self
    }

    /// Serves the method in `v1beta1`, too, where its name is `full_name`.
    pub(crate) fn beta(self, full_name: &'static str) -> Self {
        Self { beta: Some(full_name), ..self }
    }

    /// The method in `v1beta1`, if it is there: the same handler, with the messages of that version.
    pub(crate) fn in_beta(&self) -> Option<Self> {
        let (service, name) = self.beta?.rsplit_once('.')?;
        let decode = Arc::clone(&self.decode);
        Some(Self {
            service,
            name,
            use_case: self.use_case.shown_as(self.beta?),
            http: self.http.iter().map(HttpRule::in_beta).collect(),
            beta: None,
            request: Version::V1Beta1.message(&self.request),
            response: Version::V1Beta1.message(&self.response),
            decode: Arc::new(move |encoded| Ok(Decoded { version: Version::V1Beta1, ..decode(encoded)? })),
        })
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
        grpc::unary(self.use_case, Arc::clone(&self.decode), services, client, request).await
    }

    /// Calls the method with `request`. The message of the reply is JSON.
    pub(crate) async fn call_json(
        &self,
        services: Arc<Services>,
        client: Client,
        request: DynamicMessage,
    ) -> Result<Reply<Vec<u8>>, Refusal> {
        let decoded = (self.decode)(request.encode_to_vec().into());
        let decoded = decoded.map_err(|error| Refusal::invalid("body", error.to_string()))?;
        let Reply { message, created, notices } = decoded.call(self.use_case, services, client).await?;
        let message = if message.len() < LONG_BYTES {
            json::write_encoded(message, &self.response)?
        } else {
            let response = self.response.clone();
            let _permit = long_work::permit().await;
            long_work::off_the_runtime(move || json::write_encoded(message, &response)).await??
        };
        Ok(Reply { message, created, notices })
    }
}

impl Decoded {
    /// Admits the call of `client` with this request, and handles it.
    pub(crate) async fn call(
        self,
        use_case: UseCase,
        services: Arc<Services>,
        client: Client,
    ) -> Result<Reply<Bytes>, Refusal> {
        let Self { named, bytes, version, handle } = self;
        let admission = services.control.admit(call(use_case, &named, client)).await?;
        let handle = |admission: Admission| async move {
            if use_case.changes() {
                admission.begin_change();
            }
            handle(Context { services, admission, version }).await
        };
        let outcome = |reply: &Result<Reply<Bytes>, Refusal>| match reply {
            Ok(reply) => Outcome { status: 200, resource: reply.created.clone() },
            Err(refusal) => Outcome::of_refusal(refusal),
        };
        admission.run(bytes, handle, outcome).await?
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
