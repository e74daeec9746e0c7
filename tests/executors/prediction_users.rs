//! Workers of models as another user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::geteuid;
use serde_json::{Value, json};
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, write_wheel};

/// Answers for each path how it can be used, and for other words who the worker is.
const PROBE: &str = "
import os
class Model:
    @classmethod
    def from_path(cls, folder):
        model = cls()
        model.folder = folder
        return model
    def predict(self, instances):
        return [self.answer(instance) for instance in instances]
    def answer(self, instance):
        if instance == 'user':
            return [os.getuid(), os.getgid(), 0 in os.getgroups()]
        if instance == 'folder':
            return self.folder
        try:
            if os.path.isdir(instance):
                return 'lists ' + ' '.join(sorted(os.listdir(instance)))
            with open(instance) as file:
                file.read()
        except OSError as error:
            return type(error).__name__
        try:
            with open(instance, 'a'):
                return 'reads and writes'
        except OSError as error:
            return 'reads'
";

/// Creates the model `m` of `project`, and returns the folder of its files as its worker sees it.
fn deploy(api: &Api, project: &str, version: &Value) -> String {
    let models = format!("projects/{project}/models");
    api.send("POST", &models, &json!({"name": "m"}));
    let mut operation = api.send("POST", &format!("{models}/m/versions"), version);
    while operation["done"] != json!(true) {
        operation = api.send("GET", operation["name"].as_str().unwrap(), &Value::Null);
    }
    assert_eq!(operation["response"]["state"], "READY", "{operation}");
    api.ask(project, &["folder"])[0].as_str().unwrap().to_owned()
}

/// Requests with a token.
struct Api<'a>(&'a Server, String);

impl Api<'_> {
    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let headers = format!("{}content-type: application/json\r\n", bearer(&self.1));
        let (status, answer) = self.0.send(method, &format!("/v1/{path}"), &headers, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        answer
    }

    fn ask(&self, project: &str, instances: &[&str]) -> Value {
        let answer =
            self.send("POST", &format!("projects/{project}/models/m:predict"), &json!({"instances": instances}));
        answer["predictions"].clone()
    }
}

#[test]
fn worker_of_another_user_reads_its_model_and_no_file_of_the_server() {
    if !geteuid().is_root() {
        return;
    }
    let workspace = Workspace::new("");
    // The folders above the data folder are those of the operator.
    fs::set_permissions(workspace.path(), PermissionsExt::from_mode(0o711)).unwrap();
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    // Users cannot reach an interpreter below /root.
    let python = ["/usr/bin/python3", "/usr/local/bin/python3"].into_iter().find(|path| Path::new(path).exists());
    let config = json!({"runtimeVersions": {"2.11": {"python": python.expect("the system has Python")}}});
    workspace.write("server.yaml", &config.to_string());
    let allowed = workspace.path().join("files");
    let (folder, wheel) = (allowed.join("model"), allowed.join("probe-1.0-py3-none-any.whl"));
    fs::create_dir_all(&folder).unwrap();
    write_wheel(&wheel, PROBE);
    fs::write(folder.join("weights"), "42").unwrap();
    for (path, mode) in [(&allowed, 0o755), (&folder, 0o755), (&folder.join("weights"), 0o644), (&wheel, 0o644)] {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let allowed = allowed.display().to_string();
    let run_as = ["--run-as", "daemon", "--run-as", "q=bin"];
    let more = ["--server-config", "server.yaml", "--allowed-folder", &allowed];
    let server = Server::start(&workspace, &[run_as, more].concat());
    let version = json!({
        "name": "v1", "deploymentUri": folder, "runtimeVersion": "2.11", "packageUris": [wheel],
        "predictionClass": "probe.Model",
    });
    let api = Api(&server, admin);
    let (own, other) = (deploy(&api, "p", &version), deploy(&api, "q", &version));
    assert_eq!(api.ask("p", &["user"]), json!([[1, 1, false]]));
    assert_eq!(api.ask("q", &["user"]), json!([[2, 2, false]]));
    let of_server = |name: &str| workspace.path().join("data").join(name).display().to_string();
    assert!(fs::read_to_string(of_server("tokens.json")).unwrap().contains("user:admin@x"));
    let (weights, of_other) = (format!("{own}/weights"), format!("{other}/weights"));
    let (tokens, store, data) = (of_server("tokens.json"), of_server("store.sqlite"), of_server(""));
    let answers = api.ask("p", &[&own, &weights, &other, &of_other, &tokens, &store, &data]);
    let denied = "PermissionError";
    assert_eq!(answers, json!(["lists weights", "reads", denied, denied, denied, denied, denied]));
}
