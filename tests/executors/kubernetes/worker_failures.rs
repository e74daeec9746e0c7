//! Workers of models in pods that cannot start, and an API server that fails.

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::{found, until};
use tunesmith_testing::server::Server;

use super::InProcess;
use super::runs::{finish, kubeconfig};
use super::workers::{ask, blocking, create, deploy, objects, routine, serve};

/// A routine that answers, and can be loaded as `load` does.
pub(super) fn answering(load: &str) -> String {
    format!(
        "
import os, sys
class Model:
    @classmethod
    def from_path(cls, folder):
        {load}
        return cls()
    def predict(self, instances):
        return instances
"
    )
}

/// The reason why the `version` is not created.
fn reason(server: &Server, version: &Value) -> String {
    let operation = create(server, version);
    let text = operation["error"]["message"].as_str().unwrap_or_else(|| panic!("{operation:#}")).to_owned();
    assert!(text.starts_with("Create Version failed. Bad model detected with error:  \""), "{text}");
    let path = format!("/v1/projects/p/models/m/versions/{}", version["name"].as_str().unwrap());
    assert_eq!(server.get(&path).1["errorMessage"], text);
    assert_eq!(server.send("DELETE", &path, "", "").0, 200);
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_loaders_images_and_quotas_are_named() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    blocking(|| {
        let server = serve(&place, &workspace, &[]);
        let broken = routine(&workspace, "broken", &answering("raise ValueError('no such weights')"));
        let text = reason(&server, &broken);
        assert!(text.contains("ValueError: no such weights") && text.contains("in from_path"), "{text}");
        let ending = routine(&workspace, "ending", &answering("print('out of luck'); sys.stdout.flush(); os._exit(3)"));
        let text = reason(&server, &ending);
        assert!(text.contains("the process ended (exit code 3)") && text.ends_with("out of luck"), "{text}");
        let mut packaged = routine(&workspace, "fine", &answering("pass"));
        packaged["tunesmith"] = json!({"requirements": ["no-such-package-of-tunesmith==1.0"]});
        let text = reason(&server, &packaged);
        let failed = "fine-1.0-py3-none-any.whl, no-such-package-of-tunesmith==1.0 failed to install: pip ended with exit status 1";
        assert!(text.contains(failed) && text.contains("No matching distribution found"), "{text}");
        let mut version = routine(&workspace, "fine", &answering("pass"));
        version["runtimeVersion"] = json!("absent");
        let text = reason(&server, &version);
        assert!(
            text.contains("its pod does not start: ErrImagePull: failed to resolve reference \"absent:1\""),
            "{text}"
        );
        version["runtimeVersion"] = json!("invalid");
        let text = reason(&server, &version);
        assert!(text.contains("InvalidImageName: couldn't parse image name \"In Valid\""), "{text}");
        version["runtimeVersion"] = json!("2.11");
        place.kubelet().set_quota(0);
        let text = reason(&server, &version);
        assert!(
            text.contains("Kubernetes creates no pod: pods \"ts-m-v1-") && text.contains("exceeded quota"),
            "{text}"
        );
        place.kubelet().set_quota(1);
        place.api().refuse("deployments");
        let text = reason(&server, &version);
        assert!(text.contains("the API server answers 403: deployments is forbidden"), "{text}");
        place.api().recover();
        until(|| objects(&place) == 0);
        deploy(&server, &version);
        assert_eq!(ask(&server, &json!([1])), (200, json!({"predictions": [1]})));
        // The second pod exceeds the quota, and the first one goes on.
        version["name"] = json!("v2");
        assert!(reason(&server, &version).contains("exceeded quota"));
        assert_eq!(ask(&server, &json!([2])), (200, json!({"predictions": [2]})));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outages_conflicts_and_lost_watches_end_no_prediction() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    blocking(|| {
        let server = serve(&place, &workspace, &["--prediction-idle-timeout", "1"]);
        let version = routine(&workspace, "fine", &answering("pass"));
        place.api().fail_next(&[(409, 0), (500, 0), (429, 1), (409, 0)]);
        deploy(&server, &version);
        let predicts =
            |number: u32| assert_eq!(ask(&server, &json!([number])), (200, json!({"predictions": [number]})));
        place.api().compact(false);
        predicts(1);
        place.api().end_watches();
        place.api().compact(true);
        predicts(2);
        // The pods are not reached through the API server.
        place.api().set_down(true);
        predicts(3);
        place.api().recover();
        until(|| place.api().all("pods").is_empty());
        place.api().set_down(true);
        std::thread::scope(|scope| {
            let before = place.api().requests().len();
            let waiting = scope.spawn(|| predicts(4));
            until(|| place.api().requests()[before..].iter().any(|one| one.starts_with("PATCH deployments/")));
            place.api().recover();
            waiting.join().unwrap();
        });
        // Someone removes the objects.
        let deployment = place.api().all("deployments")[0].0.clone();
        place.api().remove(&deployment);
        until(|| place.api().all("pods").is_empty());
        // A request may meet the end of its worker.
        let answered = found(|| {
            let (status, answer) = ask(&server, &json!([5]));
            assert!(status == 200 || status == 503, "{answer}");
            (status == 200).then_some(answer)
        });
        assert_eq!(answered, json!({"predictions": [5]}));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_wait_for_a_node_state_the_reason() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    blocking(|| {
        let server = serve(&place, &workspace, &[]);
        place.kubelet().set_capacity(0);
        server.post("/v1/projects/p/models", &json!({"name": "m"}));
        let version = routine(&workspace, "fine", &answering("pass"));
        let (status, operation) = server.post("/v1/projects/p/models/m/versions", &version);
        assert_eq!(status, 200, "{operation}");
        let reason = found(|| {
            let (_, version) = server.get("/v1/projects/p/models/m/versions/v1");
            assert_eq!(version["state"], "CREATING", "{version}");
            version["tunesmith"]["workers"]["failure"].as_str().map(str::to_owned)
        });
        assert_eq!(reason, "its pod waits: Unschedulable: 0/1 nodes are available: 1 Too many pods.");
        place.kubelet().set_capacity(1);
        assert_eq!(server.wait(operation)["response"]["state"], "READY");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn predictions_need_no_watch() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    blocking(|| {
        let server = serve(&place, &workspace, &[]);
        place.api().stall_watches();
        let dying = "os._exit(7) if instances == ['die'] else None\n        return instances";
        let code = answering("pass").replace("return instances", dying);
        deploy(&server, &routine(&workspace, "fine", &code));
        assert_eq!(ask(&server, &json!([1])), (200, json!({"predictions": [1]})));
        // The next process in the pod tells that the one before has ended.
        let (status, died) = ask(&server, &json!(["die"]));
        assert!(status == 503 && died.to_string().contains("its container was restarted"), "{died}");
        assert_eq!(ask(&server, &json!([2])), (200, json!({"predictions": [2]})));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_authenticate_and_strangers_learn_nothing() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    blocking(|| {
        let server = serve(&place, &workspace, &[]);
        deploy(&server, &routine(&workspace, "fine", &answering("pass")));
        let id = place.api().all("deployments")[0].1["metadata"]["labels"]["tunesmith.dev/workers"]
            .as_str()
            .unwrap()
            .to_owned();
        let path = format!("/v1/projects/p/models/m/workers/{id}");
        let message = "{\"kind\": \"start\", \"pod\": \"stranger\", \"start\": 1}\n";
        let send = |path: &str, headers: &str, body: &str| server.send("POST", path, headers, body);
        let exchange = format!("{path}:exchange");
        assert_eq!(send(&exchange, "", message).0, 401);
        let (status, answer) = send(&exchange, "authorization: Bearer wrong\r\n", message);
        assert!(status == 401 && answer.to_string().contains("is not that of worker"), "{answer}");
        assert_eq!(server.send("GET", &format!("{path}/files/0"), "authorization: Bearer wrong\r\n", "").0, 401);
        let other = "/v1/projects/p/models/m/workers/0123456789ab:exchange";
        assert_eq!(send(other, "authorization: Bearer wrong\r\n", message).0, 404);
        let secret = &place.api().all("secrets")[0].1["data"]["TUNESMITH_WORKER_TOKEN"];
        let token = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, secret.as_str().unwrap()).unwrap();
        let bearer = format!("authorization: Bearer {}\r\n", String::from_utf8(token).unwrap());
        for (wrong, reason) in [
            ("", "it has no head"),
            ("{}\n", "missing field"),
            ("{\"kind\": \"poll\", \"pod\": \"\", \"start\": 1}\n", "no pod"),
        ] {
            let (status, answer) = send(&exchange, &bearer, wrong);
            assert!(status == 400 && answer.to_string().contains(reason), "{wrong:?}: {answer}");
        }
        assert_eq!(server.send("GET", &format!("{path}/files/99"), &bearer, "").0, 404);
        assert_eq!(server.send("GET", &format!("{path}/files/..%2Fcomplete"), &bearer, "").0, 404);
        assert_eq!(ask(&server, &json!([1])).0, 200);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_run_in_pods_is_refused_when_it_is_requested() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    blocking(|| {
        let server = serve(&place, &workspace, &[]);
        assert_eq!(server.post("/v1/projects/p/models", &json!({"name": "m"})).0, 200);
        let refused = |change: &dyn Fn(&mut Value)| {
            let mut version = routine(&workspace, "fine", &answering("pass"));
            change(&mut version);
            let (status, answer) = server.post("/v1/projects/p/models/m/versions", &version);
            assert_eq!(status, 400, "{answer}");
            answer["error"]["message"].as_str().unwrap().to_owned()
        };
        let container = refused(&|version| {
            let folder = version["deploymentUri"].clone();
            *version = json!({"name": "v1", "deploymentUri": folder, "container": {"image": "a:1"}});
        });
        assert!(container.contains("custom containers are not run on Kubernetes"), "{container}");
        let image = refused(&|version| drop(version.as_object_mut().unwrap().remove("runtimeVersion")));
        assert!(image.contains("have no image: set runtimeVersions.VERSION.image"), "{image}");
        let local = refused(&|version| version["runtimeVersion"] = json!("local"));
        assert!(local.contains("runtimeVersions.local.image is not configured"), "{local}");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_permissions_and_wrong_executors_are_named_at_the_start() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    let config = |executor: &str| {
        let config =
            json!({"prediction": {"executor": executor}, "kubernetes": {"configFile": kubeconfig(&place, &workspace)}});
        workspace.write("server.yaml", &config.to_string());
        let mut command = workspace.command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--server-config", "server.yaml"]);
        command
    };
    let text = finish(config("slurm"), 2).await;
    assert!(text.contains("prediction.executor: \"slurm\" is not an executor of the workers of models"), "{text}");
    assert!(text.contains("one of local, kubernetes"), "{text}");
    place.api().forbid("patch deployments");
    let text = finish(config("kubernetes"), 2).await;
    assert!(text.contains("this user may not patch deployments.apps in the namespace \"tests\""), "{text}");
}
