//! Tests of what outlives the client of a request.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use futures::FutureExt;
use serde_json::Value;
use tokio::sync::oneshot;
use tunesmith_access::{AuditLog, Authenticator, Limits, Permission, Token, TokenFile};
use tunesmith_service::clock::{Clock, SystemClock};

use super::{Dispatch, Routes};
use crate::authorization::{Access, Authorization};
use crate::large_requests::lanes;
use crate::openapi::Operation;

const PATH: &str = "/v1/projects/{project}:suggest";

/// A router with one method, whose handler ends when the returned sender is used, and the secret of a token for it.
fn router(folder: &Path) -> (Router, oneshot::Sender<()>, String) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let file = TokenFile::new(folder.join("tokens.json"));
    let made = Token::draw("user:a@x".parse().unwrap(), vec!["ml.admin".parse().unwrap()], clock.now(), None);
    file.add(made.token).unwrap();
    let access = Access {
        authenticator: Authenticator::new(file).unwrap(),
        limits: Limits::new(None, NonZeroU32::new(1)),
        admin_activity: Arc::new(AuditLog::open(&folder.join("admin.jsonl")).unwrap()),
        data_access: None,
        refuses_unrecorded: true,
    };
    let authorization = Authorization::new(access, Box::new(|_| futures::future::ready(None).boxed()), clock);
    let dispatch = Arc::new(Dispatch { authorization, time_limit: Duration::from_secs(60), lanes: Arc::new(lanes()) });
    let (release, released) = oneshot::channel();
    let released = Arc::new(Mutex::new(Some(released)));
    let handler = move || {
        let released = released.lock().unwrap().take();
        async move {
            if let Some(released) = released {
                released.await.unwrap();
            }
            StatusCode::OK
        }
    };
    let operation = Operation::post(PATH, "tests.suggest", "Waits.").permission(Permission::TrialsCreate);
    (Routes::new().add(operation, handler).with_state((), &dispatch), release, made.secret)
}

#[tokio::test]
async fn record_and_permit_of_a_request_outlive_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let (router, release, secret) = router(folder.path());
    let send = || {
        let request = Request::post("/v1/projects/p:suggest").header("authorization", format!("Bearer {secret}"));
        let mut router = router.clone();
        async move { tower::Service::call(&mut router, request.body(Body::empty()).unwrap()).await.unwrap().status() }
    };
    let records = || -> Vec<u64> {
        let text = std::fs::read_to_string(folder.path().join("admin.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["status"].as_u64().unwrap()).collect()
    };
    let mut abandoned = Box::pin(send());
    assert!(futures::poll!(&mut abandoned).is_pending());
    drop(abandoned);
    assert_eq!(send().await, StatusCode::TOO_MANY_REQUESTS, "the handler still runs and keeps the only permit");
    assert_eq!(records(), [429]);
    release.send(()).unwrap();
    while records().len() == 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(records(), [429, 200]);
    while send().await == StatusCode::TOO_MANY_REQUESTS {
        tokio::task::yield_now().await;
    }
}
