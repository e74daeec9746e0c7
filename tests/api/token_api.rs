//! Access tokens over the API.

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::console::sign_in;
use tunesmith_testing::paced::until;
use tunesmith_testing::postgres::Cluster;
use tunesmith_testing::server::Server;

fn call(server: &Server, method: &str, path: &str, token: &str, body: &Value) -> (u16, Value) {
    server.send(method, path, &bearer(token), &body.to_string())
}

fn may_list(server: &Server, token: &str) -> u16 {
    call(server, "GET", "/v1/projects/p/jobs", token, &Value::Null).0
}

#[test]
fn administrators_create_rotate_and_revoke_tokens() {
    let workspace = Workspace::new("");
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let of_project = token(&workspace, &["--principal", "user:some@x", "--role", "ml.admin@p"]);
    let server = Server::start(&workspace, &[]);
    let send = |method: &str, path: &str, body: Value| call(&server, method, path, &admin, &body);

    // Administrators of a project administer no tokens: their roles could exceed their own.
    for (method, path) in [("GET", "/v1/tokens"), ("POST", "/v1/tokens"), ("DELETE", "/v1/tokens/0123456789ab")] {
        let body = json!({"principal": "user:some@x", "roles": ["ml.admin"]});
        let (status, answer) = call(&server, method, path, &of_project, &body);
        assert_eq!(status, 403, "{method} {path}: {answer}");
    }

    let draft = json!({"principal": "user:ada@x", "roles": ["ml.viewer@p"], "lifetime": "3600s"});
    let (status, made) = send("POST", "/v1/tokens", draft);
    assert_eq!(status, 200, "{made}");
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    assert_eq!((&made["principal"], &made["roles"]), (&json!("user:ada@x"), &json!(["roles/ml.viewer@p"])));
    assert_eq!(may_list(&server, secret), 200);
    let (_, listed) = send("GET", "/v1/tokens", Value::Null);
    let listed = listed["tokens"].as_array().unwrap();
    assert_eq!(listed.len(), 3);
    assert!(
        listed[2]["secret"].is_null() && listed[2]["expireTime"].is_string() && listed[2]["lastUseTime"].is_string()
    );

    let (status, next) = send("POST", &format!("/v1/tokens/{id}:rotate"), json!({"overlap": "600s"}));
    assert_eq!(status, 200, "{next}");
    let next_secret = next["secret"].as_str().unwrap();
    assert_eq!((may_list(&server, secret), may_list(&server, next_secret)), (200, 200), "both are valid for a while");
    assert_eq!(
        (&next["principal"], &next["roles"], &next["expireTime"]),
        (&made["principal"], &made["roles"], &Value::Null)
    );
    let (status, last) = send("POST", &format!("/v1/tokens/{}:rotate", next["id"].as_str().unwrap()), json!({}));
    assert_eq!(status, 200, "{last}");
    assert_eq!(may_list(&server, next_secret), 401, "without an overlap, the old token ends at once");
    let (status, _) = send("DELETE", &format!("/v1/tokens/{id}"), Value::Null);
    assert_eq!((status, may_list(&server, secret)), (200, 401));

    for (method, path, body, expected) in [
        (
            "POST",
            "/v1/tokens",
            json!({"principal": "ada", "roles": ["ml.admin"]}),
            (400, "principal: \"ada\" is not a principal"),
        ),
        ("POST", "/v1/tokens", json!({"principal": "user:a", "roles": []}), (400, "roles: has 0 roles")),
        ("POST", "/v1/tokens", json!({"principal": "user:a", "roles": ["ml.admin", "boss"]}), (400, "roles[1]: ")),
        (
            "POST",
            "/v1/tokens",
            json!({"principal": "user:a", "roles": ["x".repeat(257)]}),
            (400, "roles[0]: has 257 bytes"),
        ),
        (
            "POST",
            "/v1/tokens",
            json!({"principal": "user:a", "roles": ["ml.admin"], "lifetime": "0s"}),
            (400, "lifetime: is zero"),
        ),
        ("POST", "/v1/tokens/0123456789ab:rotate", json!({"overlap": "2592001s"}), (400, "overlap: is longer")),
        ("POST", "/v1/tokens/0123456789ab:rotate", json!({}), (404, "there is no token 0123456789ab")),
        ("DELETE", "/v1/tokens/0123456789ab", Value::Null, (404, "there is no token 0123456789ab")),
    ] {
        let (status, answer) = send(method, path, body);
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == expected.0 && message.starts_with(expected.1), "{method} {path}: {status} {answer}");
    }
    // The token of the request may be the last one of an administrator.
    let own = admin.split('_').nth(1).unwrap();
    let (status, answer) = send("DELETE", &format!("/v1/tokens/{own}"), Value::Null);
    assert_eq!(status, 400, "{answer}");

    let log = workspace.read("data/audit/admin_activity.jsonl");
    let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |method: &str, status: u16| {
        records.iter().filter(|record| record["method"] == method && record["status"] == status).count()
    };
    assert_eq!((of("tunesmith.tokens.rotate", 200), of("tunesmith.tokens.delete", 200)), (2, 1));
    assert_eq!(of("tunesmith.tokens.create", 403), 1);
    assert!(!log.contains(secret) && !log.contains(next_secret));
}

#[test]
fn first_token_is_created_on_the_machine_of_the_server() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let (status, answer) = server.post("/v1/tokens", &json!({"principal": "user:a@x", "roles": ["ml.admin"]}));
    assert_eq!(status, 400, "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("tunesmith tokens create"), "{message}");
    assert_eq!(server.get("/v1/tokens"), (200, json!({"tokens": []})));
}

#[test]
fn tokens_and_sessions_are_those_of_all_servers_on_a_database() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let a = Cluster::serve_in(&workspace.path().join("data"), &address, &[]);
    let b = Cluster::serve_in(&workspace.path().join("second"), &address, &[]);

    let draft = json!({"principal": "user:ada@x", "roles": ["ml.viewer@p"]});
    let (status, made) = call(&a, "POST", "/v1/tokens", &admin, &draft);
    assert_eq!(status, 200, "{made}");
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    assert_eq!(may_list(&a, secret), 200, "at once on its server");
    until(|| may_list(&b, secret) == 200);

    // The other server rotates it; the first one has both.
    let (status, next) = call(&b, "POST", &format!("/v1/tokens/{id}:rotate"), &admin, &json!({"overlap": "600s"}));
    assert_eq!(status, 200, "{next}");
    let (next_id, next_secret) = (next["id"].as_str().unwrap(), next["secret"].as_str().unwrap());
    until(|| may_list(&a, next_secret) == 200);
    assert_eq!(may_list(&a, secret), 200, "within the overlap");
    let (_, listed) = call(&a, "GET", "/v1/tokens", &admin, &Value::Null);
    let of_ada: Vec<&str> = listed["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|token| token["principal"] == "user:ada@x")
        .map(|token| token["id"].as_str().unwrap())
        .collect();
    assert_eq!(of_ada, [id, next_id]);

    // A session of one server is one of the other, until it or its token ends.
    let (cookie, csrf) = sign_in(&a, next_secret);
    let session = format!("cookie: {cookie}\r\n");
    let jobs = "/v1/projects/p/jobs";
    until(|| b.send("GET", jobs, &session, "").0 == 200);
    let form = format!("{session}content-type: application/x-www-form-urlencoded\r\n");
    b.exchange("POST", "/console/logout", &form, &format!("csrf={csrf}"));
    until(|| a.send("GET", jobs, &session, "").0 == 401);
    let (cookie, _) = sign_in(&b, next_secret);
    let session = format!("cookie: {cookie}\r\n");
    assert_eq!(b.send("GET", jobs, &session, "").0, 200);
    let (status, ended) = call(&a, "DELETE", &format!("/v1/tokens/{next_id}"), &admin, &Value::Null);
    assert_eq!((status, may_list(&a, next_secret)), (200, 401), "{ended}");
    until(|| may_list(&b, next_secret) == 401 && b.send("GET", jobs, &session, "").0 == 401);
}
