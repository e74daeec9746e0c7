//! The services of Vertex AI and OSS Vizier: their own clients, one engine for all, and who may call what.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use tunesmith_access::Role;
use tunesmith_admission::UseCase;
use tunesmith_admission::use_cases::RequiredAccess;
use tunesmith_testing::access::token;
use tunesmith_testing::python::{VIZIER_CLIENTS, interpreter};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished, program};
use tunesmith_vizier::messages::DESCRIPTORS;
use tunesmith_vizier_server::{MethodDescription, methods};

/// Earlier versions of the SDK, and what they need to import.
const SDK_1_71: [&str; 3] = ["google-api-python-client==2.202.0", "google-cloud-aiplatform==1.71.1", VIZIER_CLIENTS[2]];
const SDK_1_44: [&str; 3] = ["google-api-python-client==2.202.0", "google-cloud-aiplatform==1.44.0", "setuptools<80"];
const SDK_1_38: [&str; 2] = ["google-cloud-aiplatform==1.38.1", "setuptools<80"];

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/vizier").join(name)
}

/// Runs the script `name`, and returns what it has printed last.
#[track_caller]
fn run(requirements: &[&str], name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = program(interpreter(requirements));
    command.arg(script(name)).args(arguments).envs(environment.iter().copied()).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = finished(command.stdin(Stdio::null()).output().unwrap());
    assert_eq!(output.code, Some(0), "{name} {arguments:?}\n{}\n{}", output.stdout, output.stderr);
    output.stdout.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn clients_of_oss_vizier_work_unchanged() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let address = format!("localhost:{}", server.address.port());
    assert_eq!(run(&VIZIER_CLIENTS, "oss_vizier.py", &[&address], &[]), "ok");
}

#[test]
fn clients_of_vertex_ai_work_unchanged_over_http() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let endpoint = format!("http://{}/vertex", server.address);
    assert_eq!(run(&VIZIER_CLIENTS, "vertex_ai.py", &[&endpoint, "rest", "client", "sdk", "discovery"], &[]), "ok");
}

#[test]
fn clients_of_v1beta1_work_unchanged() {
    let workspace = Workspace::new("");
    let server = server_without_containers(&workspace, &[]);
    let endpoint = format!("http://{}/vertex", server.address);
    let http = [&*endpoint, "rest", "client", "discovery", "v1beta1"];
    assert_eq!(run(&VIZIER_CLIENTS, "vertex_ai.py", &http, &[]), "ok");
    run_jobs(&workspace, &VIZIER_CLIENTS, &http, &[]);
    let workspace = Workspace::new("");
    let server = server_without_containers(&workspace, &[]);
    let grpc = [&*server.address.to_string(), "grpc", "client", "v1beta1"];
    assert_eq!(run(&VIZIER_CLIENTS, "vertex_ai.py", &grpc, &[]), "ok");
    run_jobs(&workspace, &VIZIER_CLIENTS, &grpc, &[]);
}

#[test]
fn processes_find_buckets_that_have_a_folder() {
    let workspace = Workspace::new("");
    std::fs::create_dir(workspace.path().join("bucket")).unwrap();
    let settings = format!("buckets: {{training-data: {:?}}}\n", workspace.path().join("bucket"));
    std::fs::write(workspace.path().join("server.yaml"), settings).unwrap();
    let server = server_without_containers(&workspace, &["--server-config", "server.yaml"]);
    let endpoint = format!("http://{}/vertex", server.address);
    run_jobs(&workspace, &VIZIER_CLIENTS, &[&endpoint, "rest", "buckets"], &[]);
}

#[test]
fn regional_hosts_are_those_of_their_api_and_location() {
    let workspace = Workspace::new("");
    let hosts = ["us-central1-aiplatform.googleapis.com", "aiplatform.googleapis.com", "us-central1-ml.googleapis.com"];
    let flags = hosts.iter().flat_map(|host| ["--allowed-host", host]);
    let arguments: Vec<&str> = ["--tls-self-signed", "tls"].into_iter().chain(flags).collect();
    let server = Server::start(&workspace, &arguments);
    let certificate = workspace.path().join("tls/certificate.pem");
    let certificate = certificate.to_str().unwrap();
    let trust = [("REQUESTS_CA_BUNDLE", certificate), ("HTTPLIB2_CA_CERTS", certificate)];
    let arguments = [&*server.address.port().to_string(), certificate];
    assert_eq!(run(&VIZIER_CLIENTS, "regional_hosts.py", &arguments, &trust), "ok");
}

#[test]
fn earlier_clients_of_vertex_ai_work_unchanged_over_http() {
    for (requirements, parts) in [(SDK_1_71, &["client", "sdk", "discovery"][..]), (SDK_1_44, &["client", "discovery"])]
    {
        let workspace = Workspace::new("");
        let server = Server::start(&workspace, &[]);
        let endpoint = format!("http://{}/vertex", server.address);
        assert_eq!(run(&requirements, "vertex_ai.py", &[&[&*endpoint, "rest"], parts].concat(), &[]), "ok");
    }
}

#[test]
fn clients_of_vertex_ai_work_unchanged_over_tls() {
    for (requirements, parts) in [(&VIZIER_CLIENTS[..], &["client", "sdk"][..]), (&SDK_1_38, &["client"])] {
        let workspace = Workspace::new("");
        let server = Server::start(&workspace, &["--tls-self-signed", "tls"]);
        let endpoint = format!("localhost:{}", server.address.port());
        let certificate = workspace.path().join("tls/certificate.pem");
        let trust = [("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", certificate.to_str().unwrap())];
        assert_eq!(run(requirements, "vertex_ai.py", &[&[&*endpoint, "tls"], parts].concat(), &trust), "ok");
    }
}

#[test]
fn clients_of_vertex_ai_work_unchanged_over_grpc() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(run(&VIZIER_CLIENTS, "vertex_ai.py", &[&server.address.to_string(), "grpc", "client"], &[]), "ok");
}

#[test]
fn vertex_ai_has_a_listener_of_its_own() {
    let workspace = Workspace::new("");
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--vertex-listen", "127.0.0.1:0", "--data-dir", "data"]);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    let main = lines.next().unwrap();
    assert!(main.starts_with("listening on http://"), "{main}");
    let line = lines.next().unwrap();
    let endpoint = line.strip_prefix("listening for Vertex AI on ").unwrap();
    let outcome =
        std::panic::catch_unwind(|| run(&VIZIER_CLIENTS, "vertex_ai.py", &[endpoint, "rest", "client", "sdk"], &[]));
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(outcome.unwrap(), "ok");
}

/// A server that finds no container engine, so that the commands of containers run as processes.
fn server_without_containers(workspace: &Workspace, more: &[&str]) -> Server {
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--allow-unisolated-programs"]).args(more);
    Server::start_command(command.env("PATH", workspace.path()))
}

/// Runs `jobs.py` in `workspace`, where programs leave what they got.
fn run_jobs(workspace: &Workspace, requirements: &[&str], arguments: &[&str], environment: &[(&str, &str)]) {
    let trainer = script("trainer.py");
    let mut command = program(interpreter(requirements));
    let (endpoint, parts) = arguments.split_at(2);
    command.arg(script("jobs.py")).args(endpoint).arg(trainer).args(parts).envs(environment.iter().copied());
    command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(workspace.path()).stdin(Stdio::null());
    let output = finished(command.output().unwrap());
    assert_eq!(output.code, Some(0), "{arguments:?}\n{}\n{}", output.stdout, output.stderr);
    assert_eq!(output.stdout.lines().last(), Some("ok"));
}

#[test]
fn clients_of_vertex_ai_run_jobs_unchanged() {
    let workspace = Workspace::new("");
    let server = server_without_containers(&workspace, &[]);
    let endpoint = format!("http://{}/vertex", server.address);
    run_jobs(&workspace, &VIZIER_CLIENTS, &[&endpoint, "rest", "client", "sdk", "discovery"], &[]);
}

#[test]
fn earlier_clients_of_vertex_ai_run_jobs_unchanged() {
    for requirements in [&SDK_1_71[..], &SDK_1_44] {
        let workspace = Workspace::new("");
        let server = server_without_containers(&workspace, &[]);
        let endpoint = format!("http://{}/vertex", server.address);
        run_jobs(&workspace, requirements, &[&endpoint, "rest", "sdk"], &[]);
    }
}

#[test]
fn clients_of_vertex_ai_run_jobs_unchanged_over_grpc() {
    let workspace = Workspace::new("");
    let server = server_without_containers(&workspace, &[]);
    run_jobs(&workspace, &VIZIER_CLIENTS, &[&server.address.to_string(), "grpc", "client"], &[]);
    for (requirements, part) in [(&VIZIER_CLIENTS[..], "sdk"), (&SDK_1_38, "sdk")] {
        let workspace = Workspace::new("");
        let server = server_without_containers(&workspace, &["--tls-self-signed", "tls"]);
        let certificate = workspace.path().join("tls/certificate.pem");
        let trust = [("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", certificate.to_str().unwrap())];
        run_jobs(&workspace, requirements, &[&format!("localhost:{}", server.address.port()), "tls", part], &trust);
    }
}

#[test]
fn studies_are_the_same_through_every_api() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    // Creation, suggestion, completion and list by each of four.
    assert_eq!(run(&VIZIER_CLIENTS, "matrix.py", &[&server.address.to_string()], &[]), "256");
}

#[test]
fn jobs_are_the_same_through_every_api() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    // Creation, reading, cancellation and deletion by each of three.
    assert_eq!(run(&VIZIER_CLIENTS, "job_matrix.py", &[&server.address.to_string()], &[]), "81");
}

#[test]
fn hostile_calls_get_clear_codes() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(run(&VIZIER_CLIENTS, "hostile.py", &[&server.address.to_string()], &[]), "ok");
    assert_eq!(server.text("GET", "/healthz").0, 200);
}

/// Calls with every kind of credentials, and the code that each is to have; `None`: anything but a refusal of its caller.
struct Credentials<'a> {
    token: Option<&'a str>,
    /// Roles in the project of the call.
    role: Option<Role>,
}

fn is_refused(use_case: UseCase, role: Option<Role>) -> bool {
    match use_case.access() {
        RequiredAccess::Of(permission) => !role.is_some_and(|role| role.allows(permission)),
        RequiredAccess::Token | RequiredAccess::TrialToken | RequiredAccess::Open => false,
    }
}

/// A request for `method` that names only a resource of the project `p`, in hexadecimal digits.
fn message(method: &MethodDescription) -> String {
    let service = DESCRIPTORS.get_service_by_name(method.service).unwrap();
    let of = service.methods().find(|found| found.name() == method.name).unwrap().input();
    let field = ["parent", "name", "trial_name"].iter().find_map(|name| of.get_field_by_name(name)).unwrap();
    let name = if method.service.starts_with("vizier.") { "owners/p/x" } else { "projects/p/x" };
    let mut bytes = vec![u8::try_from(field.number() << 3 | 2).unwrap(), u8::try_from(name.len()).unwrap()];
    bytes.extend_from_slice(name.as_bytes());
    hex::encode(bytes)
}

/// A request over HTTP by the rule `VERB PATH`, about the project `p`.
fn http_case(rule: &str) -> Value {
    let (verb, path) = rule.split_once(' ').unwrap();
    let path = match (path.split_once('{'), path.split_once('}')) {
        (Some((before, _)), Some((variable, after))) => {
            let pattern = variable.split_once('=').unwrap().1;
            format!("/vertex{before}{}{after}", pattern.replacen('*', "p", 1).replace('*', "1"))
        }
        _ => panic!("{rule} has no variable"),
    };
    json!([verb, path])
}

#[test]
fn every_method_is_admitted_by_role() {
    let workspace = Workspace::new("");
    let tokens: Vec<(Role, String)> = [Role::Admin, Role::Developer, Role::Viewer]
        .into_iter()
        .map(|role| {
            let name = role.as_str().trim_start_matches("roles/");
            (role, token(&workspace, &["--principal", &format!("user:{role}@x"), "--role", &format!("{name}@p")]))
        })
        .collect();
    let elsewhere = token(&workspace, &["--principal", "user:else@x", "--role", "ml.admin@q"]);
    let server = Server::start(&workspace, &["--data-access-log", "--request-rate", "0"]);
    let mut credentials = vec![
        Credentials { token: None, role: None },
        Credentials { token: Some("tsm_none_such"), role: None },
        Credentials { token: Some(&elsewhere), role: None },
    ];
    credentials.extend(tokens.iter().map(|(role, token)| Credentials { token: Some(token), role: Some(*role) }));
    let methods = methods();
    let (mut cases, mut expected) = (Vec::new(), Vec::new());
    for method in &methods {
        let mut requests = vec![json!({
            "method": format!("/{}/{}", method.service, method.name), "message": message(method)
        })];
        requests.extend(method.http.iter().map(|rule| json!({ "http": http_case(rule) })));
        for (index, Credentials { token, role }) in credentials.iter().enumerate() {
            for request in &requests {
                let mut case = request.clone();
                case["token"] = json!(token);
                cases.push(case);
                expected.push(match index {
                    0 | 1 => Some("UNAUTHENTICATED"),
                    _ => is_refused(method.use_case, *role).then_some("PERMISSION_DENIED"),
                });
            }
        }
    }
    let mut command = program(interpreter(&VIZIER_CLIENTS));
    command.arg(script("admission.py")).arg(server.address.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = command.spawn().unwrap();
    running.stdin.take().unwrap().write_all(&serde_json::to_vec(&cases).unwrap()).unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success());
    let codes = String::from_utf8(output.stdout).unwrap();
    let codes: Vec<&str> = codes.lines().collect();
    assert_eq!(codes.len(), cases.len());
    for ((case, code), expected) in cases.iter().zip(codes).zip(expected) {
        match expected {
            Some(expected) => assert_eq!(code, expected, "{case}"),
            None => {
                assert!(!["UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"].contains(&code), "{case}: {code}")
            }
        }
    }
    let audit = |name: &str| std::fs::read_to_string(workspace.path().join("data/audit").join(name)).unwrap();
    let recorded = audit("admin_activity.jsonl") + &audit("data_access.jsonl");
    for method in &methods {
        let name = format!("\"{}.{}\"", method.service, method.name);
        assert!(recorded.contains(&name), "{name} has no audit record");
    }
}

#[test]
fn every_published_method_is_there() {
    let methods = methods();
    for service in DESCRIPTORS.services() {
        for method in service.methods() {
            let is_there = methods.iter().any(|it| it.service == service.full_name() && it.name == method.name());
            assert!(is_there, "{}", method.full_name());
        }
    }
    assert_eq!(methods.len(), DESCRIPTORS.services().map(|service| service.methods().len()).sum::<usize>());
}
