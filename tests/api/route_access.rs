//! Authorisation and routing see the same path: no way of writing a path is answered without a token.

use serde_json::{Value, json};
use tunesmith_http::document;
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::server::Server;

/// Methods that change nothing although they are no GET.
const READS: [&str; 2] = [":listOptimalTrials", ":testIamPermissions"];

/// The methods of the server: HTTP method and path, with names filled in.
fn methods() -> Vec<(String, String)> {
    let mut methods = Vec::new();
    for (path, operations) in document()["paths"].as_object().unwrap() {
        let mut filled = path.clone();
        while let Some((before, rest)) = filled.split_once('{') {
            let (name, after) = rest.split_once('}').unwrap();
            let value = match name {
                "trial" => "7",
                "project" => "p",
                _ => "x",
            };
            filled = format!("{before}{value}{after}");
        }
        for method in operations.as_object().unwrap().keys() {
            methods.push((method.to_uppercase(), filled.clone()));
        }
    }
    methods
}

fn encoded(segment: &str) -> String {
    segment.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Other ways of writing `path`, some of which mean the same.
fn variants(path: &str) -> Vec<String> {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let join = |segments: &[String]| format!("/{}", segments.join("/"));
    let mut variants =
        vec![path.to_uppercase(), format!("{path}/"), format!("{path}%00"), format!("/{}", encoded(&path[1..]))];
    for at in 0..segments.len() {
        let with = |segment: String| {
            let mut changed: Vec<String> = segments.iter().map(|&segment| segment.to_owned()).collect();
            changed[at] = segment;
            join(&changed)
        };
        let segment = segments[at];
        let mut letters = segment.chars();
        let first: String = letters.by_ref().take(1).collect();
        variants.extend([
            with(encoded(segment)),
            with(encoded(segment).to_lowercase()),
            with(format!("{}{}", encoded(&first), letters.as_str())),
            with(encoded(&encoded(segment))),
            with(segment.to_uppercase()),
            with(format!("/{segment}")),
            with(format!("./{segment}")),
            with(format!("x/../{segment}")),
            with(format!("%2e%2e/{segment}")),
            with(format!("{segment}%2F")),
            with(format!("{segment};x=y")),
        ]);
        if segment.contains(':') {
            variants.push(with(segment.replace(':', "%3A")));
        }
    }
    variants.retain(|variant| variant != path);
    variants
}

#[test]
fn no_way_of_writing_a_path_is_answered_without_a_token() {
    let workspace = Workspace::new("");
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer"]);
    let server = Server::start(&workspace, &[]);
    let json_type = "content-type: application/json\r\n";
    let mut requests = 0;
    for (method, path) in methods() {
        if path.starts_with("/v1/") {
            assert_eq!(server.exchange(&method, &path, json_type, "{}").0, 401, "{method} {path}");
        }
        let is_read = method == "GET" || READS.iter().any(|read| path.ends_with(read));
        for variant in variants(&path) {
            let (status, body) = server.exchange(&method, &variant, json_type, "{}");
            assert_eq!(status, 401, "{method} {variant}: {body}");
            if !is_read {
                let (status, body) = server.exchange(&method, &variant, &bearer(&viewer), "{}");
                assert!((400..500).contains(&status), "{method} {variant} of a viewer: {status} {body}");
            }
            requests += 1;
        }
    }
    assert!(requests > 1000, "{requests}");
}

#[test]
fn encoded_names_have_the_permissions_of_the_names() {
    let workspace = Workspace::new("");
    let developer = token(&workspace, &["--principal", "user:dev@x", "--role", "ml.developer@p"]);
    let server = Server::start(&workspace, &[]);
    let list = |project: &str| server.send("GET", &format!("/v1/projects/{project}/jobs"), &bearer(&developer), "");
    assert_eq!((list("p"), list("%70")), ((200, json!({})), (200, json!({}))));
    for other in ["q", "%71", "p%2F..%2Fq", "P", "p%00", "%2570"] {
        let (status, answer): (u16, Value) = list(other);
        assert!(status == 403 || status == 400, "{other}: {status} {answer}");
    }
}
