//! gRPC: unary methods, with deadlines.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method as Verb};
use axum::response::Response;
use bytes::{Buf, BufMut, Bytes};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::Grpc;
use tonic::{Status, metadata::MetadataValue};
use tunesmith_admission::{Client, UseCase};
use tunesmith_domain::{Code, Refusal};

use crate::MESSAGE_BYTES;
use crate::method::{self, Decode, Decoded, Method, check_credentials};
use crate::refusals::{NOTICE, grpc_status, notice};
use crate::services::{Reply, Services};

/// Header with the time that a client waits.
const TIMEOUT: &str = "grpc-timeout";

/// Responds to a call of `method`, if `service` has it.
pub(crate) async fn respond(
    services: Arc<Services>,
    method: Option<&Method>,
    service: &str,
    request: Request,
) -> Response {
    let client = request.extensions().get::<Client>().cloned().unwrap_or_default();
    let Some(method) = method else { return unknown(&services, service, client, request.uri().path()).await };
    if !is_grpc(&request) {
        let text = "gRPC needs POST and a content type that begins with application/grpc";
        return of(method.use_case, refused(&Refusal::new(Code::InvalidArgument, text)));
    }
    let deadline = match deadline(request.headers()) {
        Ok(deadline) => deadline,
        Err(refusal) => return of(method.use_case, refused(&refusal)),
    };
    if let Err(refusal) = check_credentials(&services, method.use_case, &client).await {
        return of(method.use_case, refused(&refusal));
    }
    if deadline.is_some_and(|limit| limit.is_zero()) {
        let text = "the client no longer waits for a response";
        return of(method.use_case, refused(&Refusal::new(Code::DeadlineExceeded, text)));
    }
    let responding = method.call_grpc(services, client, request);
    let response = match deadline {
        None => responding.await,
        Some(limit) => tokio::time::timeout(limit, responding).await.unwrap_or_else(|_| {
            Status::deadline_exceeded(format!("no response within the {limit:?} that the client waits")).into_http()
        }),
    };
    of(method.use_case, response.map(Body::new))
}

/// Whether `request` is one of gRPC. Browsers send other content types on behalf of any web page.
fn is_grpc(request: &Request) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE);
    request.method() == Verb::POST
        && content_type.is_some_and(|given| given.as_bytes().starts_with(b"application/grpc"))
}

/// Records the called use case in `response`, for the log.
fn of(use_case: UseCase, mut response: Response) -> Response {
    response.extensions_mut().insert(use_case);
    response
}

fn refused(refusal: &Refusal) -> Response {
    grpc_status(refusal).into_http::<tonic::body::Body>().map(Body::new)
}

async fn unknown(services: &Arc<Services>, service: &str, client: Client, path: &str) -> Response {
    let text = format!("there is no method {path} of {service}");
    let (use_case, refusal) = method::unknown(services, true, client, Refusal::new(Code::Unimplemented, text)).await;
    of(use_case, refused(&refusal))
}

/// The time that a client waits; `None` without a limit.
fn deadline(headers: &HeaderMap) -> Result<Option<Duration>, Refusal> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    let parsed = value.to_str().ok().and_then(|text| {
        let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        // At most eight digits, by the protocol.
        let number: u64 = Some(digits).filter(|digits| digits.len() <= 8)?.parse().ok()?;
        Some(match unit {
            "H" => Duration::from_secs(number * 3600),
            "M" => Duration::from_secs(number * 60),
            "S" => Duration::from_secs(number),
            "m" => Duration::from_millis(number),
            "u" => Duration::from_micros(number),
            "n" => Duration::from_nanos(number),
            _ => return None,
        })
    });
    parsed.map(Some).ok_or_else(|| {
        let text = format!("{value:?} is no time; allowed: up to eight digits and one of H, M, S, m, u and n");
        Refusal::invalid(TIMEOUT, text)
    })
}

/// Reads the message of `request`, calls the method, and renders its reply.
pub(crate) async fn unary(
    use_case: UseCase,
    decode: Decode,
    services: Arc<Services>,
    client: Client,
    request: Request,
) -> Response<tonic::body::Body> {
    let service = tower::service_fn(move |request: tonic::Request<Decoded>| {
        let (services, client) = (Arc::clone(&services), client.clone());
        async move {
            let replied = request.into_inner().call(use_case, services, client).await;
            let Reply { message, notices, .. } = replied.map_err(|refusal| grpc_status(&refusal))?;
            let mut response = tonic::Response::new(message);
            if let Some(value) = notice(&notices).and_then(|value| value.to_str().ok()?.parse().ok()) {
                let value: MetadataValue<_> = value;
                response.metadata_mut().insert(NOTICE, value);
            }
            Ok::<_, Status>(response)
        }
    });
    Grpc::new(MessageCodec { decode }).max_decoding_message_size(MESSAGE_BYTES).unary(service, request).await
}

/// Decodes requests of one method. Replies are encoded already.
struct MessageCodec {
    decode: Decode,
}

struct RequestDecoder {
    decode: Decode,
}

struct ReplyEncoder;

impl Codec for MessageCodec {
    type Encode = Bytes;
    type Decode = Decoded;
    type Encoder = ReplyEncoder;
    type Decoder = RequestDecoder;

    fn encoder(&mut self) -> ReplyEncoder {
        ReplyEncoder
    }

    fn decoder(&mut self) -> RequestDecoder {
        RequestDecoder { decode: Arc::clone(&self.decode) }
    }
}

impl Decoder for RequestDecoder {
    type Item = Decoded;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Decoded>, Status> {
        let message = buffer.copy_to_bytes(buffer.remaining());
        (self.decode)(message).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

impl Encoder for ReplyEncoder {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_have_units() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(TIMEOUT, text.parse().unwrap());
            deadline(&headers)
        };
        assert_eq!(read("100m").unwrap(), Some(Duration::from_millis(100)));
        assert_eq!(read("0n").unwrap(), Some(Duration::ZERO));
        assert_eq!(read("2H").unwrap(), Some(Duration::from_secs(7200)));
        for bad in ["", "5", "S", "123456789S", "-1S", "5x", "\u{e9}"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_eq!(deadline(&HeaderMap::new()).unwrap(), None);
    }
}
