//! The work that a caller can cause is limited: by counts, before the caller is known, and in time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::paced::until;
use tunesmith_testing::server::Server;

const JOBS: &str = "/v1/projects/p/jobs";
const STUDIES: &str = "/v1/projects/p/locations/l/studies";
const JSON: &str = "content-type: application/json\r\n";

/// A connection on which `head`, the head of a request, and `body` were sent.
fn send(server: &Server, head: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "{head}\r\nhost: localhost\r\nconnection: close\r\n\r\n{body}").unwrap();
    stream
}

/// Everything that the server sends until it closes the connection.
fn rest(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn study(trials: &[&str]) -> Value {
    let metrics: Vec<Value> = trials.iter().map(|metric| json!({"metric": metric, "goal": "MINIMIZE"})).collect();
    json!({"studyConfig": {"metrics": metrics,
        "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}]}})
}

#[test]
fn long_filters_are_refused_everywhere() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.post(&format!("{STUDIES}?studyId=s"), &study(&["loss"])).0, 200);
    let spaces = format!("labels.a:{}x", "+".repeat(60_000));
    let quoted = format!("labels.a:%22x%22{}x", "+".repeat(50_000));
    let terms = vec!["jobId:a"; 101].join("+AND+");
    for (filter, expected) in [
        (spaces, " bytes; at most 16384 are allowed"),
        (quoted, " bytes; at most 16384"),
        (terms, "more than 100 restrictions"),
    ] {
        for list in
            [JOBS.to_owned(), STUDIES.to_owned(), format!("{STUDIES}/s/trials"), format!("{STUDIES}/s/views/table")]
        {
            let (status, answer) = server.get(&format!("{list}?filter={filter}"));
            assert_eq!(status, 400, "{list}: {answer}");
            let violation = &answer["error"]["details"][0]["fieldViolations"][0];
            assert_eq!(violation["field"], "filter");
            assert!(violation["description"].as_str().unwrap().contains(expected), "{answer}");
        }
        let (_, page) = server.text("GET", &format!("/console/jobs?filter={filter}"));
        assert!(page.contains(expected), "{page}");
        let headers = "x-http-method-override: GET\r\n";
        let (status, _) = server.send("POST", JOBS, headers, &format!("filter={filter}"));
        assert_eq!(status, 400);
    }
}

#[test]
fn body_of_a_stranger_is_not_read() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    for path in [
        "/v1/projects/p/jobs/none/runs/attempt-1:sync",
        "/v1/projects/p/locations/jobs/studies/none/trials/1:addMeasurement",
    ] {
        // The rest of the body never follows: a server that reads it would wait.
        let head = format!("POST {path} HTTP/1.1\r\nauthorization: Bearer x\r\ncontent-length: 4000000");
        let mut stream = send(&server, &head, "{\"logs\":[{},");
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        assert!([b"HTTP/1.1 401", b"HTTP/1.1 400"].contains(&&status), "{path}: {}", String::from_utf8_lossy(&status));
    }
}

#[test]
fn bodies_end_with_the_time_limit_of_requests() {
    let workspace = Workspace::new("");
    let secret = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer"]);
    let server = Server::start(&workspace, &["--request-timeout", "1", "--idle-timeout", "600"]);
    let authorization = format!("authorization: Bearer {secret}\r\n");
    for (path, headers) in [
        ("/console/login", ""),
        ("/console/logout", ""),
        ("/console/check", authorization.as_str()),
        (JOBS, "x-http-method-override: GET\r\n"),
        ("/console/login", "x-http-method-override: GET\r\n"),
    ] {
        let head = format!("POST {path} HTTP/1.1\r\n{headers}content-length: 100");
        let answer = rest(send(&server, &head, "t"));
        let status = if path == "/console/logout" { "303" } else { "504" };
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
    let large = "x".repeat(65 << 10);
    let (status, _) = server.exchange("POST", JOBS, "x-http-method-override: GET\r\n", &large);
    assert_eq!(status, 413, "a query is no longer than a URL");
}

#[test]
fn errors_of_a_configuration_are_named_up_to_a_limit() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let unknown: String = (0..60_000).map(|index| format!("  k{index}: 1\n")).collect();
    let text = format!("trainingInput:\n{unknown}");
    for is_study in [false, true] {
        let body = json!({"text": text, "isStudy": is_study}).to_string();
        let (status, answer) = server.exchange("POST", "/console/check", JSON, &body);
        assert_eq!(status, 200);
        assert!(answer.len() < text.len() * 2, "{} bytes", answer.len());
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let remarks = answer["remarks"].as_array().unwrap();
        if !is_study {
            assert_eq!(remarks.len(), 100);
            let last = remarks[99]["text"].as_str().unwrap();
            assert!(last.contains("(and 59900 more errors and warnings, which are not shown)"), "{last}");
            assert!(answer["form"]["notShown"].as_array().unwrap().len() <= 201);
        }
    }
    let (status, answer) = server.exchange("POST", "/console/check", JSON, &"x".repeat((1 << 20) + 1));
    assert_eq!(status, 413, "{answer}");

    workspace.write("wrong.yaml", &text);
    let validated = workspace.command().args(["validate", "--config", "wrong.yaml"]).output().unwrap();
    let shown = String::from_utf8(validated.stderr).unwrap() + &String::from_utf8(validated.stdout).unwrap();
    assert_eq!(shown.matches("unknown field").count(), 100);
    assert!(shown.contains("60000 errors in wrong.yaml"), "{}", &shown[shown.len() - 300..]);

    let params = vec![json!({}); 5_000];
    let job = json!({"jobId": "j", "trainingInput": {"hyperparameters": {"goal": "MINIMIZE", "params": params}}});
    let metrics: Vec<Value> = (0..900).map(|_| json!({"metric": ""})).collect();
    let studies = json!({"studyConfig": {"metrics": metrics, "parameters": params}});
    for (path, body) in [(JOBS.to_owned(), job), (format!("{STUDIES}?studyId=s"), studies)] {
        let (status, answer) = server.post(&path, &body);
        assert_eq!(status, 400);
        let violations = answer["error"]["details"][0]["fieldViolations"].as_array().unwrap();
        assert!(violations.len() <= 100, "{path}: {}", violations.len());
        assert!(answer["error"]["message"].as_str().unwrap().contains(" more errors, which are not shown)"), "{path}");
    }
}

#[test]
fn measurements_have_a_limited_number_of_metrics() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.post(&format!("{STUDIES}?studyId=s"), &study(&["loss"])).0, 200);
    let trial = json!({"parameters": [{"parameter": "x", "floatValue": 0.5}]});
    assert_eq!(server.post(&format!("{STUDIES}/s/trials"), &trial).0, 200);
    let metrics: Vec<Value> = (0..40_000).map(|index| json!({"metric": format!("m{index}"), "value": 1})).collect();
    let (status, answer) =
        server.post(&format!("{STUDIES}/s/trials/1:addMeasurement"), &json!({"measurement": {"metrics": metrics}}));
    assert_eq!(status, 400);
    assert_eq!(
        answer["error"]["message"], "measurement.metrics: has 40000 metrics; at most 1000 are allowed",
        "{answer}"
    );
}

#[test]
fn trials_of_pending_suggestions_are_limited_for_each_principal() {
    let workspace = Workspace::new("");
    let greedy = token(&workspace, &["--principal", "user:greedy@x", "--role", "ml.developer"]);
    let modest = token(&workspace, &["--principal", "user:modest@x", "--role", "ml.developer"]);
    let server = Server::start(&workspace, &["--concurrent-suggestions", "2"]);
    let post = |token: &str, path: &str, body: &Value| server.send("POST", path, &bearer(token), &body.to_string());
    let slow = study(&["a", "b", "c", "d", "e", "f"]);
    assert_eq!(post(&greedy, &format!("{STUDIES}?studyId=slow"), &slow).0, 200);
    for index in 0..40 {
        let value = f64::from(index) / 40.0;
        let metrics: Vec<Value> =
            ["a", "b", "c", "d", "e", "f"].iter().map(|name| json!({"metric": name, "value": value})).collect();
        let trial = json!({"state": "SUCCEEDED", "parameters": [{"parameter": "x", "floatValue": value}],
            "finalMeasurement": {"metrics": metrics}});
        assert_eq!(post(&greedy, &format!("{STUDIES}/slow/trials"), &trial).0, 200);
    }
    let suggest = |token: &str, study: &str, client: &str, count: u32| {
        post(
            token,
            &format!("{STUDIES}/{study}/trials:suggest"),
            &json!({"clientId": client, "suggestionCount": count}),
        )
    };
    // More than the maximum, which is permitted as long as nothing else waits.
    let (status, pending) = suggest(&greedy, "slow", "one", 1000);
    assert_eq!(status, 200, "{pending}");
    assert_ne!(pending["done"], true, "1,000 suggestions for six metrics are not computed within 100 ms");
    let (status, refused) = suggest(&greedy, "slow", "two", 1);
    assert_eq!((status, refused["error"]["status"].as_str()), (429, Some("RESOURCE_EXHAUSTED")), "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("already waits for suggestions of 20 trials, and 1 more exceed the maximum of 20"),
        "{message}"
    );
    assert_eq!(post(&modest, &format!("{STUDIES}?studyId=quick"), &study(&["a"])).0, 200);
    assert_eq!(suggest(&modest, "quick", "one", 1).0, 200);
    server.kill();
}

#[test]
fn signing_in_over_the_rate_is_answered_with_429() {
    let workspace = Workspace::new("");
    let secret = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer"]);
    let server = Server::start(&workspace, &["--request-rate", "1"]);
    let sign_in = || server.exchange("POST", "/console/login", "", &format!("token={secret}"));
    until(|| {
        let (status, page) = sign_in();
        assert!(status == 303 || (status == 429 && page.contains("more than 1 requests a second")), "{status}: {page}");
        status == 429
    });
    let (status, _) = server.exchange("POST", "/console/login", "", "token=wrong");
    assert_eq!(status, 401);
}

/// A stream of events, whose first bytes have arrived; the status if there is none.
fn events(server: &Server, headers: &str) -> Result<TcpStream, String> {
    let mut stream = send(server, &format!("GET /console/events HTTP/1.1\r\n{headers}"), "");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"retry: 3000") {
        match stream.read(&mut byte).unwrap() {
            0 => return Err(String::from_utf8_lossy(&head[..12]).into_owned()),
            _ => head.push(byte[0]),
        }
    }
    Ok(stream)
}

#[test]
fn one_principal_does_not_take_all_event_streams_and_streams_end_with_their_token_or_session() {
    let workspace = Workspace::new("");
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer"]);
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let server = Server::start(&workspace, &[]);
    let header = |token: &str| format!("authorization: Bearer {token}");
    let held: Vec<TcpStream> = (0..16).map(|_| events(&server, &header(&viewer)).unwrap()).collect();
    assert_eq!(events(&server, &header(&viewer)).unwrap_err(), "HTTP/1.1 503");
    let of_admin = events(&server, &header(&admin)).unwrap();

    let (cookie, csrf) = tunesmith_testing::console::sign_in(&server, &admin);
    let of_session = events(&server, &format!("cookie: {cookie}")).unwrap();
    let headers = format!("cookie: {cookie}\r\n");
    assert_eq!(server.exchange("POST", "/console/logout", &headers, &format!("csrf={csrf}")).0, 303);
    rest(of_session);

    let id = viewer.split('_').nth(1).unwrap();
    let revoke = workspace.command().args(["tokens", "revoke", id, "--data-dir", "data"]).output().unwrap();
    assert!(revoke.status.success());
    held.into_iter().for_each(|stream| {
        rest(stream);
    });
    of_admin.set_nonblocking(true).unwrap();
    let mut of_admin = of_admin;
    loop {
        // Nothing but events that have arrived: the stream is open.
        match of_admin.read(&mut [0; 1024]) {
            Ok(0) => panic!("the stream of another principal has ended"),
            Ok(_) => {}
            Err(error) => break assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
}
