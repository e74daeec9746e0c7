//! Versions with custom containers, run by podman: an HTTP server of busybox whose programs answer predictions.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::containers::{Podman, RUN_OPTIONS};
use tunesmith_testing::Workspace;
use tunesmith_testing::server::Server;

const MODEL: &str = "/v1/projects/p/models/m";

/// Serves `/cgi-bin/predict`, which answers with its input and environment, and `/cgi-bin/health`.
const PROGRAM: &str = r#"
mkdir -p /tmp/www/cgi-bin
cat > /tmp/www/cgi-bin/predict << 'END'
#!/bin/sh
read -r line
case "$line" in
    fail) echo "Status: 422 Unprocessable"; echo "Content-Type: text/plain"; echo; echo "no such luck";;
    die) kill -9 1;;
    hang) exec tail -f /dev/null;;
    sick) echo > /tmp/sick; echo "Content-Type: text/plain"; echo; echo "sick";;
    *) echo "Content-Type: application/x-echo"; echo; echo "$CONTENT_TYPE $line $(cat /mnt/models/weights) $OWN $AIP_MODEL_NAME";;
esac
END
cat > /tmp/www/cgi-bin/health << 'END'
#!/bin/sh
test -e /tmp/sick && echo "Status: 500 Sick"
echo "Content-Type: text/plain"
echo
END
chmod +x /tmp/www/cgi-bin/predict /tmp/www/cgi-bin/health
echo "serving on $AIP_HTTP_PORT"
exec httpd -f -p "$AIP_HTTP_PORT" -h /tmp/www
"#;

fn version(workspace: &Workspace, program: &str) -> Value {
    let folder = workspace.path().join("model");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("weights"), "42").unwrap();
    json!({
        "name": "v1",
        "deploymentUri": folder,
        "container": {
            "image": "localhost/busybox:1",
            "command": ["sh", "-c", program],
            "env": [{"name": "OWN", "value": "port-$(AIP_HTTP_PORT)"}],
            "ports": [{"containerPort": 9000}],
        },
        "routes": {"predict": "/cgi-bin/predict", "health": "/cgi-bin/health"},
        "autoScaling": {"maxNodes": 1},
    })
}

fn command(workspace: &Workspace, podman: &Podman, more: &[&str]) -> Command {
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"]).args(more);
    command.args(["--container-options", &podman.options()]).env("TUNESMITH_CONTAINER_RUN_OPTIONS", RUN_OPTIONS);
    command
}

/// Creates the version and returns the ended operation.
fn deploy(server: &Server, version: &Value) -> Value {
    assert_eq!(server.post("/v1/projects/p/models", &json!({"name": "m"})).0, 200);
    let (status, operation) = server.post(&format!("{MODEL}/versions"), version);
    assert_eq!(status, 200, "{operation}");
    server.wait(operation)
}

fn predict(server: &Server, kind: &str, body: &str) -> (u16, String) {
    server.exchange("POST", &format!("{MODEL}:predict"), &format!("content-type: {kind}\r\n"), body)
}

const ECHO: &str = "application/x-image [1, 2] 42 port-9000 m\n";

#[test]
fn container_answers_with_its_own_bodies_and_statuses() {
    let (workspace, podman) = (Workspace::new(""), Podman::new());
    let server = Server::start_command(&mut command(&workspace, &podman, &["--prediction-timeout", "2"]));
    let created = deploy(&server, &version(&workspace, PROGRAM));
    assert_eq!(created["response"]["state"], "READY", "{created}");
    let response = &created["response"];
    assert_eq!(response["routes"], json!({"predict": "/cgi-bin/predict", "health": "/cgi-bin/health"}));
    assert_eq!(response["tunesmith"]["loadedFramework"], "CUSTOM_CONTAINER", "{response}");
    assert_eq!(predict(&server, "application/x-image", "[1, 2]\n"), (200, ECHO.to_owned()));
    let path = format!("{MODEL}:predict");
    let (head, _) = server.parts("POST", &path, "content-type: application/json\r\n", "[]\n");
    assert!(head.contains("application/x-echo") && head.contains("sandbox"), "{head}");
    // Its own statuses are passed on.
    assert_eq!(predict(&server, "application/json", "fail\n"), (422, "no such luck\n".to_owned()));
    // Browsers send these types on behalf of any page.
    assert_eq!(predict(&server, "text/plain", "x\n").0, 415);
    // A request that hangs holds one of several slots.
    let (status, text) = predict(&server, "application/json", "hang\n");
    assert!(status == 504 && text.contains("has not answered within 2 s"), "{status} {text}");
    assert_eq!(predict(&server, "application/x-image", "[1, 2]\n"), (200, ECHO.to_owned()));
    // Ports are those of the loopback address.
    let ports = podman.call(&["ps", "--format", "{{.Ports}}"]);
    assert!(ports.starts_with("127.0.0.1:") && ports.trim().ends_with("->9000/tcp"), "{ports}");
    let (status, read) = server.get(&format!("{MODEL}/versions/v1:log"));
    assert!(status == 200 && read["text"].as_str().unwrap().contains("serving on 9000"), "{read}");
    assert_eq!(server.send("DELETE", &format!("{MODEL}/versions/v1"), "", "").0, 200);
    assert_eq!(podman.call(&["ps", "--all", "--quiet"]), "");
}

#[test]
fn containers_that_die_are_replaced_also_after_the_death_of_the_server() {
    let (workspace, podman) = (Workspace::new(""), Podman::new());
    let server = Server::start_command(&mut command(&workspace, &podman, &[]));
    let created = deploy(&server, &version(&workspace, PROGRAM));
    assert_eq!(created["response"]["state"], "READY", "{created}");
    let id = podman.call(&["ps", "--quiet"]);
    podman.call(&["kill", id.trim()]);
    // Until the server has noticed the end, a request may meet it.
    loop {
        let (status, text) = predict(&server, "application/x-image", "[1, 2]\n");
        if status == 200 {
            assert_eq!(text, ECHO);
            break;
        }
        assert!(status == 503 && text.contains("UNAVAILABLE"), "{status} {text}");
    }
    let second = podman.call(&["ps", "--quiet"]);
    assert_ne!(id, second);
    server.kill();
    // The container outlives the server, and the next server removes it.
    assert_eq!(podman.call(&["ps", "--quiet"]), second);
    let server = Server::start_command(&mut command(&workspace, &podman, &[]));
    assert_eq!(predict(&server, "application/x-image", "[1, 2]\n"), (200, ECHO.to_owned()));
    let third = podman.call(&["ps", "--all", "--quiet"]);
    assert!(third.lines().count() == 1 && third != second, "{second} {third}");
    server.signal(Signal::TERM);
    assert_eq!(server.end(), Some(0));
}

#[test]
fn version_whose_container_never_serves_fails_with_its_output() {
    let (workspace, podman) = (Workspace::new(""), Podman::new());
    let server = Server::start_command(&mut command(&workspace, &podman, &[]));
    let failed = deploy(&server, &version(&workspace, "echo out of luck; exit 3"));
    let message = failed["error"]["message"].as_str().unwrap();
    let start = "Create Version failed. Bad model detected with error:  \"Failed to load model: Model server never became \
                 ready: the container ended (exit status: 3) (Error code: 0)\"";
    assert!(message.starts_with(start) && message.ends_with("out of luck"), "{message}");
    let mut absent = version(&workspace, PROGRAM);
    (absent["name"], absent["container"]["image"]) = (json!("v2"), json!("localhost/absent:1"));
    let (_, operation) = server.post(&format!("{MODEL}/versions"), &absent);
    let failed = server.wait(operation);
    assert!(failed["error"]["message"].as_str().unwrap().contains("localhost/absent"), "{failed}");
    assert_eq!(podman.call(&["ps", "--all", "--quiet"]), "");
}

#[test]
fn container_that_fails_its_health_checks_is_replaced() {
    let (workspace, podman) = (Workspace::new(""), Podman::new());
    let server = Server::start_command(&mut command(&workspace, &podman, &[]));
    let created = deploy(&server, &version(&workspace, PROGRAM));
    assert_eq!(created["response"]["state"], "READY", "{created}");
    let first = podman.call(&["ps", "--quiet"]);
    assert_eq!(predict(&server, "application/json", "sick\n"), (200, "sick\n".to_owned()));
    // Four checks, ten seconds apart.
    server.wait_for_error("failed 4 health checks: its health route answered with status 500");
    assert_eq!(predict(&server, "application/x-image", "[1, 2]\n"), (200, ECHO.to_owned()));
    assert_ne!(podman.call(&["ps", "--quiet"]), first);
}

#[test]
fn server_without_an_engine_and_invalid_containers_are_refused() {
    let workspace = Workspace::new("");
    let empty = TempDir::new().unwrap();
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"]).env("PATH", empty.path());
    let server = Server::start_command(&mut command);
    assert_eq!(server.post("/v1/projects/p/models", &json!({"name": "m"})).0, 200);
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut version = version(&workspace, PROGRAM);
        change(&mut version);
        let (status, answer) = server.post(&format!("{MODEL}/versions"), &version);
        assert_eq!(status, 400, "{answer}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    };
    let none = refused(&|_| {});
    assert!(none.contains("neither podman nor a docker whose daemon answers"), "{none}");
    let image = refused(&|version| version["container"]["image"] = json!("--privileged"));
    assert!(image.contains("container.image: \"--privileged\" is not the name of an image"), "{image}");
    let variable = refused(&|version| version["container"]["env"][0]["name"] = json!("AIP_MODE"));
    assert!(variable.contains("container.env[0].name: \"AIP_MODE\" is not allowed"), "{variable}");
    let port = refused(&|version| version["container"]["ports"][0]["containerPort"] = json!(70_000));
    assert!(port.contains("70000 is not a port; allowed: 1 to 65535"), "{port}");
    let framework = refused(&|version| version["framework"] = json!("SCIKIT_LEARN"));
    assert!(framework.contains("framework: has no meaning with container"), "{framework}");
    let routes = refused(&|version| drop(version.as_object_mut().unwrap().remove("container")));
    assert!(routes.contains("routes: has no meaning without container"), "{routes}");
}
