use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::oneshot;
use tunesmith_access::{AuditLog, Authenticator, Limits, Token, TokenFile};

use super::{Admission, Outcome};
use crate::use_cases::{CREATE_TRIAL, GET_STUDY, SUGGEST_TRIALS, UseCase};
use crate::{Access, AccessControl, Call, Client, Owner, ServiceAccess, tokens_in};
use tunesmith_domain::Code;

/// Access control with a token for project `p`, and the token's secret.
fn control(folder: &Path) -> (Arc<AccessControl>, String) {
    let file = TokenFile::new(folder.join("tokens.json"));
    let grants = vec!["ml.admin@p".parse().unwrap()];
    let made = Token::draw("user:a@x".parse().unwrap(), grants, Timestamp::now(), None);
    file.add(made.token).unwrap();
    let access = Access {
        authenticator: Authenticator::new(file.clone()).unwrap(),
        change_tokens: tokens_in(file),
        accepts_several_principals: true,
        limits: Limits::new(None, NonZeroU32::new(1)),
        admin_activity: Arc::new(AuditLog::open(&folder.join("admin.jsonl")).unwrap()),
        data_access: None,
        refuses_unrecorded: true,
    };
    let access = ServiceAccess::Checked(Box::new(access));
    let policy_of = Box::new(|_| futures::future::ready(None).boxed());
    (Arc::new(AccessControl::new(access, policy_of, Timestamp::now, Duration::from_secs(60))), made.secret)
}

fn call(use_case: UseCase, project: &str, token: Option<&str>) -> Call {
    Call {
        use_case,
        project: project.to_owned(),
        job: None,
        resource: format!("projects/{project}/locations/l/studies/s"),
        client: Client {
            address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            request_id: "r".to_owned(),
            token: token.map(str::to_owned),
            session: None,
            advice: "send TOKEN",
            location: None,
        },
        idempotency_key: None,
    }
}

fn records(folder: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(folder.join("admin.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["status"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn calls_need_a_token_with_the_permission_and_a_valid_key() {
    let folder = tempfile::tempdir().unwrap();
    let (control, secret) = control(folder.path());
    let admit =
        async |call: Call| control.admit(call).await.map(|_| ()).map_err(|refusal| (refusal.code, refusal.message));
    assert_eq!(admit(call(GET_STUDY, "p", Some(&secret))).await, Ok(()));
    let missing = (Code::Unauthenticated, "send TOKEN".to_owned());
    assert_eq!(admit(call(GET_STUDY, "p", None)).await, Err(missing));
    let denied = "permission ml.studies.get is denied on projects/q (or it does not exist)".to_owned();
    assert_eq!(admit(call(GET_STUDY, "q", Some(&secret))).await, Err((Code::PermissionDenied, denied)));
    let with_key =
        |use_case, key: &str| Call { idempotency_key: Some(key.to_owned()), ..call(use_case, "p", Some(&secret)) };
    assert_eq!(admit(with_key(CREATE_TRIAL, "a b")).await.unwrap_err().0, Code::InvalidArgument);
    assert_eq!(admit(with_key(CREATE_TRIAL, "ab")).await, Ok(()));
    assert_eq!(admit(with_key(GET_STUDY, "a b")).await, Ok(()), "it has no effect");
    assert_eq!(records(folder.path()), [400], "reads are not recorded");
}

#[tokio::test]
async fn record_and_permit_of_a_call_outlive_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let (control, secret) = control(folder.path());
    let suggest = || control.admit(call(SUGGEST_TRIALS, "p", Some(&secret)));
    let (release, released) = oneshot::channel::<()>();
    let handler = |admission: Admission| async move {
        admission.begin_change();
        released.await.unwrap();
    };
    let outcome = |(): &()| Outcome { status: 200, resource: None };
    let mut abandoned = Box::pin(suggest().await.unwrap().run(0, handler, outcome));
    assert!(futures::poll!(&mut abandoned).is_pending());
    drop(abandoned);
    let refusal = suggest().await.err().unwrap();
    assert_eq!(refusal.code, Code::ResourceExhausted, "the handler still runs and keeps the only permit");
    assert_eq!(records(folder.path()), [429]);
    release.send(()).unwrap();
    while records(folder.path()).len() == 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(records(folder.path()), [429, 200]);
    while suggest().await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn calls_of_an_owner_are_recorded_under_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str| Arc::new(AuditLog::open(&folder.path().join(name)).unwrap());
    for data_access in [None, Some(log("reads.jsonl"))] {
        let records_reads = data_access.is_some();
        let owner = Owner {
            principal: "listener:x".to_owned(),
            admin_activity: log("changes.jsonl"),
            data_access,
            refuses_unrecorded: true,
        };
        let policy_of = Box::new(|_| futures::future::ready(None).boxed());
        let limit = Duration::from_secs(60);
        let control = Arc::new(AccessControl::new(ServiceAccess::Owner(owner), policy_of, Timestamp::now, limit));
        for use_case in [CREATE_TRIAL, GET_STUDY] {
            let admission = control.admit(call(use_case, "p", None)).await.unwrap();
            let outcome = |(): &()| Outcome { status: 200, resource: None };
            admission.run(0, |_| async {}, outcome).await.unwrap();
        }
        let of = |name: &str| {
            let text = std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
            std::fs::write(folder.path().join(name), "").unwrap();
            let field = |line: &str, name: &str| serde_json::from_str::<Value>(line).unwrap()[name].clone();
            text.lines().map(|line| (field(line, "principal"), field(line, "method"))).collect::<Vec<_>>()
        };
        let record = |use_case: UseCase| vec![(Value::from("listener:x"), Value::from(use_case.name()))];
        assert_eq!(of("changes.jsonl"), record(CREATE_TRIAL));
        assert_eq!(of("reads.jsonl"), if records_reads { record(GET_STUDY) } else { Vec::new() });
    }
}
