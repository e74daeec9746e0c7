//! The console in a browser and over raw HTTP.

use serde_json::{Value, json};

use crate::python::interpreter;
use crate::root;
use crate::server::Server;

/// Text in names that is a script, an attribute or a style where it is not escaped.
pub const PAYLOAD: &str = "\"'><img src=x onerror=injected()><script>injected()</script>";

/// A job with two trials, named so that each name is an attack, whose second program fails.
pub fn job(id: &str, trials: u32) -> Value {
    let script = "if [ \"$TRIAL\" = fails ]; then exit 3; fi; \
                  for step in 1 2 3; do echo \"loss=0.$step step=$step\"; done; echo '<script>injected()</script>' >&2";
    json!({
        "jobId": id,
        "labels": {"team": "vision"},
        "trainingInput": {
            "hyperparameters": {
                "goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": trials, "maxParallelTrials": 1,
                "params": [
                    {"parameterName": "rate", "type": "DOUBLE", "minValue": 0.1, "maxValue": 1},
                    {"parameterName": PAYLOAD, "type": "CATEGORICAL", "categoricalValues": [PAYLOAD, "plain"]},
                ],
            },
            "masterConfig": {"containerCommand": ["bash", "-c", script]},
            "tunesmith": {"metricFromStdout": true},
        },
    })
}

/// The jobs of project `p`.
pub const JOBS: &str = "/v1/projects/p/jobs";

/// Runs `tests/data/console/SCRIPT` with the browser of this machine against `server`.
pub fn browse(script: &str, server: &Server, more: &[&str]) {
    let python = interpreter(&["playwright==1.65.2", "axe-playwright-python==0.1.8"]);
    let script = root().join("tests/data/console").join(script);
    let mut command = crate::program(python);
    command.arg(script).arg(format!("http://{}", server.address)).args(more);
    // Where pictures of the pages are stored, if they are wanted.
    command.envs(std::env::var_os("CONSOLE_PICTURES").map(|folder| ("CONSOLE_PICTURES", folder)));
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The cookie and the secret for changes of the session that `secret` opens.
pub fn sign_in(server: &Server, secret: &str) -> (String, String) {
    let form = format!("token={secret}&next=%2Fconsole%2Fjobs");
    let headers = "content-type: application/x-www-form-urlencoded\r\n";
    let (head, _) = server.parts("POST", "/console/login", headers, &form);
    assert!(head.starts_with("HTTP/1.1 303"), "{head}");
    let line = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    assert_eq!(line("location: ").as_deref(), Some("/console/jobs"));
    let cookie = line("set-cookie: ").unwrap();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let (_, page) = server.exchange("GET", "/console", &format!("cookie: {cookie}\r\n"), "");
    let csrf = page.split("name=\"csrf\" content=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    (cookie, csrf)
}
