//! Sign-in at OpenID Connect providers: one from a package, in a real browser, and a hostile one.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};

use tunesmith_testing::Workspace;
use tunesmith_testing::access::token;
use tunesmith_testing::console::browse;
use tunesmith_testing::python::interpreter;
use tunesmith_testing::server::Server;

/// A provider, which ends with this value.
struct Provider {
    issuer: String,
    process: Child,
    input: Option<ChildStdin>,
}

impl Provider {
    fn start(script: &str) -> Self {
        let python = interpreter(&["oidc-provider-mock==0.3.4", "joserfc==1.8.0"]);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/clients").join(script);
        let mut command = tunesmith_testing::program(python);
        let mut process = command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take();
        let mut issuer = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut issuer).unwrap();
        Self { issuer: issuer.trim().to_owned(), process, input }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        drop(self.input.take());
        self.process.wait().unwrap();
    }
}

/// A server whose people sign in at `issuer`. Members of `research` are developers of the project p.
fn serve(workspace: &Workspace, issuer: &str, more: &str) -> Server {
    let secret = workspace.path().join("secret");
    std::fs::write(&secret, "s p+c/ial\n").unwrap();
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    let configuration = format!(
        "openIdConnect:\n  issuer: {issuer}\n  clientId: tuner\n  clientSecretFile: {}\n  name: Example\n  groupRoles:\n    \
         research: [ml.developer@p, ml.viewer]\n{more}",
        secret.display()
    );
    workspace.write("server.yaml", &configuration);
    let configuration = workspace.path().join("server.yaml");
    let configuration = configuration.to_str().unwrap();
    Server::start(workspace, &["--server-config", configuration])
}

#[test]
fn people_sign_in_at_a_provider_in_a_browser() {
    let provider = Provider::start("provider_of_a_package.py");
    let workspace = Workspace::new("");
    let server = serve(&workspace, &provider.issuer, "  scopes: [email, groups]\n");
    assert_eq!(server.get("/v1/projects/p/jobs").0, 401, "no client has all permissions");
    browse("single_sign_on.py", &server, &[&provider.issuer]);
    let audit = workspace.read("data/audit/admin_activity.jsonl");
    let records = audit.lines().filter(|line| line.contains("console.login"));
    let records: Vec<serde_json::Value> = records.map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<_> =
        records.iter().map(|record| (record["principal"].as_str().unwrap(), &record["status"])).collect();
    assert_eq!(seen, [("user:ada@example.com", &200.into()), ("unknown", &403.into()), ("unknown", &401.into())]);
}

/// Begins a login, and returns the cookie, the state and the nonce.
fn begin(server: &Server) -> [String; 3] {
    let (head, _) = server.parts("GET", "/console/login/start?next=%2Fconsole%2Fjobs", "", "");
    assert!(head.starts_with("HTTP/1.1 303"), "{head}");
    let line = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
    let cookie = line("set-cookie: ");
    assert!(cookie.ends_with("; Path=/console/login; HttpOnly; SameSite=Lax; Max-Age=600"), "{cookie}");
    let address: reqwest::Url = line("location: ").parse().unwrap();
    let parameter = |name: &str| {
        let mut values = address.query_pairs().filter(|(found, _)| found == name).map(|(_, value)| value.into_owned());
        values.next().unwrap_or_else(|| panic!("{address} has {name}"))
    };
    assert_eq!(parameter("code_challenge_method"), "S256");
    assert_eq!((parameter("scope").as_str(), parameter("tenant").as_str()), ("openid email profile", "a"));
    [cookie.split(';').next().unwrap().to_owned(), parameter("state"), parameter("nonce")]
}

/// Completes a login, and returns the head and the page.
fn complete(server: &Server, cookie: &str, query: &str) -> (String, String) {
    server.parts("GET", &format!("/console/login/callback?{query}"), &format!("cookie: {cookie}\r\n"), "")
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn logins_of_a_hostile_provider_are_refused_with_the_reason() {
    let provider = Provider::start("hostile_provider.py");
    let workspace = Workspace::new("");
    let server = serve(&workspace, &provider.issuer, "  groupsClaim: realm_access.roles\n");
    let refused = [
        ("audience", 401, "it is meant for another client than tuner"),
        ("audiences", 401, "it is meant for other clients, too"),
        ("party", 401, "it is meant for other clients, too"),
        ("expired", 401, "it has expired"),
        ("exptext", 401, "claim exp"),
        ("future", 401, "it was issued in the future"),
        ("early", 401, "it is not valid yet"),
        ("issuer", 401, "its issuer is not http://127.0.0.1"),
        ("issuers", 401, "its issuer is another one"),
        ("nonce", 401, "it belongs to another login"),
        ("unsigned", 401, "signed by an unknown algorithm"),
        ("secret", 401, "signed by HS256, whose key is not public"),
        ("stranger", 401, "its signature is wrong"),
        ("changed", 401, "its signature is wrong"),
        ("encryption", 401, "none of the provider"),
        ("unknown", 401, "none of the provider"),
        ("unverified", 401, "has not verified the address ada@example.com"),
        ("nameless", 401, "does not state the claim email"),
        ("spaces", 401, "is not a principal"),
        ("groupless", 403, "user:ada@example.com has no role on this server"),
        ("refused", 401, "status 400: invalid_grant: the code is &#60;b&#62;unknown&#60;/b&#62;"),
        ("broken", 503, "responds with status 500"),
        ("text", 503, "is unusable"),
        ("large", 503, "responds with more than 1 MiB"),
        ("missing", 503, "has issued no ID token"),
    ];
    for (case, code, reason) in refused {
        let [cookie, state, nonce] = begin(&server);
        let (head, page) = complete(&server, &cookie, &format!("code={case}.{nonce}&state={state}"));
        assert_eq!(status(&head), code, "{case}: {page}");
        assert!(page.contains(reason), "{case}: {page}");
        assert!(!head.contains("tunesmith_session"), "{case}: {head}");
        assert!(head.contains("set-cookie: tunesmith_login=; "), "{case}: {head}");
    }
    // The clocks may differ by a minute.
    for case in ["RS256", "PS384", "ES256", "ES384", "EdDSA", "anonymous", "skew"] {
        let [cookie, state, nonce] = begin(&server);
        let query = format!("code={case}.{nonce}&state={state}");
        let (head, page) = complete(&server, &cookie, &query);
        assert_eq!(status(&head), 200, "{case}: {page}");
        assert!(page.contains("content=\"0; url=/console/jobs\""), "{page}");
        let session = head.lines().find_map(|line| line.strip_prefix("set-cookie: tunesmith_session=")).unwrap();
        assert!(session.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{session}");
        let session = session.split(';').next().unwrap();
        let (code, jobs) =
            server.exchange("GET", "/console/jobs", &format!("cookie: tunesmith_session={session}\r\n"), "");
        assert!(code == 200 && jobs.contains("You are signed in as user:ada@example.com"), "{jobs}");
        let (_, again) = complete(&server, &cookie, &query);
        assert!(again.contains("this login was completed before"), "{case}: {again}");
    }
    let [cookie, state, nonce] = begin(&server);
    let own = format!("code=RS256.{nonce}&state={state}");
    let (head, page) = complete(&server, "a=b", &own);
    assert_eq!(status(&head), 401, "another browser: {page}");
    assert!(page.contains("this login was not started in this browser"), "{page}");
    let (_, page) = complete(&server, &cookie, &format!("{own}&iss=https%3A%2F%2Fevil.example.com"));
    assert!(page.contains("another provider has answered"), "{page}");
    let (_, page) =
        complete(&server, &cookie, &format!("state={state}&error=access_denied&error_description=no%0Aaccess"));
    assert!(page.contains("the provider refused the login: access_denied: noaccess"), "{page}");
    assert_eq!(status(&complete(&server, &cookie, &own).0), 200, "none of these has completed it");
}

#[test]
fn sessions_survive_a_restart_and_are_revoked() {
    let provider = Provider::start("hostile_provider.py");
    let workspace = Workspace::new("");
    let admin = token(&workspace, &["--principal", "user:root@example.com", "--role", "ml.admin"]);
    let more = "  roles: [ml.viewer]\n";
    let server = serve(&workspace, &provider.issuer, more);
    // The provider replaces its key after the server has read it.
    let [cookie, state, nonce] = begin(&server);
    let (head, _) = complete(&server, &cookie, &format!("code=rotated.{nonce}&state={state}"));
    let session = head.lines().find_map(|line| line.strip_prefix("set-cookie: tunesmith_session=")).unwrap();
    let session = format!("cookie: tunesmith_session={}\r\n", session.split(';').next().unwrap());
    let (of_token, _) = tunesmith_testing::console::sign_in(&server, &admin);
    let of_token = format!("cookie: {of_token}\r\n");
    server.kill();

    let server = serve(&workspace, &provider.issuer, more);
    for headers in [&session, &of_token] {
        assert_eq!(server.exchange("GET", "/console/jobs", headers, "").0, 200);
    }
    let bearer = format!("authorization: Bearer {admin}\r\ncontent-type: application/json\r\n");
    let (_, list) = server.send("GET", "/v1/tokens", &bearer, "");
    let tokens = list["tokens"].as_array().unwrap();
    let owners: Vec<_> = tokens.iter().map(|token| (&token["principal"], &token["isSession"])).collect();
    assert_eq!(
        owners,
        [(&"user:root@example.com".into(), &serde_json::Value::Null), (&"user:ada@example.com".into(), &true.into())]
    );
    let id = tokens[1]["id"].as_str().unwrap();
    let (code, error) = server.send("POST", &format!("/v1/tokens/{id}:rotate"), &bearer, "{}");
    assert_eq!(code, 400, "{error}");
    assert_eq!(server.send("DELETE", &format!("/v1/tokens/{id}"), &bearer, "").0, 200);
    assert_eq!(server.exchange("GET", "/console/jobs", &session, "").0, 303, "it is revoked");
    assert_eq!(server.exchange("GET", "/console/jobs", &of_token, "").0, 200);
}
