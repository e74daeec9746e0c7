//! Deployments of the API server of these tests: a controller that creates and removes pods, and a node that runs the container of a
//! pod as a process of this machine, and starts it again when it ends.
//!
//! The image selects the interpreter: `models:1` has scikit-learn, `absent:1` cannot be pulled, and `In Valid` is no image.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::{Path as PathNames, State};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tunesmith_testing::python::{MODEL_PACKAGES, interpreter};

use super::api_server::{ApiServer, Key};
use super::kubelet::{Node, arguments, has_ended, on_this_machine};

/// Pause before the second restart of a container, which doubles. The first one follows at once.
const BACK_OFF: Duration = Duration::from_millis(500);

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Numbers the pods.
static PODS: AtomicUsize = AtomicUsize::new(0);

/// The output of the container of a pod.
pub(super) async fn log(
    State(server): State<ApiServer>,
    PathNames((namespace, name)): PathNames<(String, String)>,
) -> Result<String, axum::http::StatusCode> {
    let pod = server.get(&("pods".to_owned(), namespace, name));
    let path = pod.and_then(|pod| pod["test/log"].as_str().map(PathBuf::from));
    path.and_then(|path| fs::read_to_string(path).ok()).ok_or(axum::http::StatusCode::BAD_REQUEST)
}

impl Node {
    /// Creates and removes pods of Deployments.
    pub(super) fn reconcile_deployments(&self) {
        for (key, deployment) in self.server.all("deployments") {
            let of_this = |pod_key: &Key, pod: &Value| {
                let is_active = pod["metadata"]["deletionTimestamp"].is_null() && !has_ended(pod);
                let is_owned = pod["metadata"]["ownerReferences"][0]["uid"] == deployment["metadata"]["uid"];
                (is_active && is_owned).then(|| (pod_key.clone(), pod.clone()))
            };
            let mut pods = self.server.view("pods", of_this);
            let wanted = usize::try_from(deployment["spec"]["replicas"].as_u64().unwrap()).unwrap();
            let mut refusal = Value::Null;
            while pods.len() < wanted {
                let name = format!("{}-{}", key.2, PODS.fetch_add(1, Ordering::Relaxed));
                let all = self.server.view("pods", |_, pod| (!has_ended(pod)).then_some(())).len();
                if all >= *self.quota.borrow() {
                    let message = format!("pods \"{name}\" is forbidden: exceeded quota: compute, requested: pods=1");
                    refusal = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}]);
                    break;
                }
                pods.push(self.create_worker(&key, &deployment, &name));
            }
            // Pods that do not run are removed first, then those of the lowest cost.
            pods.sort_by_key(|(_, pod)| {
                let cost = pod["metadata"]["annotations"][DELETION_COST]
                    .as_str()
                    .map_or(0, |cost| cost.parse::<i32>().unwrap());
                (pod["status"]["phase"] == "Running", cost)
            });
            for (pod, _) in pods.drain(..pods.len().saturating_sub(wanted)) {
                self.server.change(&pod, |pod| pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z".into());
            }
            let status = json!({"replicas": pods.len(), "conditions": refusal});
            if deployment["status"] != status {
                self.server.change(&key, |deployment| deployment["status"] = status);
            }
        }
        // Pods without a node have no process.
        let unplaced = |key: &Key, pod: &Value| {
            let is_leaving = !pod["metadata"]["deletionTimestamp"].is_null();
            (is_leaving && pod["spec"]["nodeName"].is_null()).then(|| key.clone())
        };
        for key in self.server.view("pods", unplaced) {
            self.server.remove(&key);
        }
    }

    fn create_worker(&self, key: &Key, deployment: &Value, name: &str) -> (Key, Value) {
        let mut pod = deployment["spec"]["template"].clone();
        pod["metadata"]["name"] = name.into();
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": key.2,
            "uid": deployment["metadata"]["uid"]}]);
        pod["status"] = json!({"phase": "Pending"});
        self.server.put("pods", &key.1, pod.clone());
        let key = ("pods".to_owned(), key.1.clone(), name.to_owned());
        let created = self.server.get(&key).unwrap();
        (key, created)
    }

    /// Runs the container of a pod until the pod is deleted.
    pub(super) async fn run_worker(self, key: Key, pod: Value) {
        let container = &pod["spec"]["containers"][0];
        let folder = tempfile::tempdir_in(&self.folder).unwrap();
        let volumes = empty_volumes(&pod, folder.path());
        let image = container["image"].as_str().unwrap();
        let waiting = match image {
            "absent:1" => Some(("ErrImagePull", "failed to resolve reference \"absent:1\": not found")),
            "In Valid" => {
                Some(("InvalidImageName", "couldn't parse image name \"In Valid\": invalid reference format"))
            }
            _ => None,
        };
        if let Some((reason, message)) = waiting {
            self.set_status(&key, 0, &json!({"waiting": {"reason": reason, "message": message}}), &Value::Null);
            self.deleted(&key).await;
            self.server.remove(&key);
            return;
        }
        let log = folder.path().join("log");
        self.server.change(&key, |pod| pod["test/log"] = log.to_str().unwrap().into());
        let grace = Duration::from_secs(pod["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap());
        let mut last_end = Value::Null;
        for restarts in 0_u32.. {
            let Some(mut child) = self.start_worker(&key, container, &volumes, &log).await else {
                let waiting =
                    json!({"waiting": {"reason": "CreateContainerConfigError", "message": "secret not found"}});
                self.set_status(&key, restarts, &waiting, &last_end);
                self.deleted(&key).await;
                self.server.remove(&key);
                return;
            };
            let process = child.id().unwrap();
            self.processes.lock().unwrap().insert(key.2.clone(), process);
            self.set_status(&key, restarts, &json!({"running": {}}), &last_end);
            let status = tokio::select! {
                status = child.wait() => status.unwrap(),
                () = self.deleted(&key) => {
                    // It may have ended.
                    let _ = kill_process(Pid::from_raw(process.cast_signed()).unwrap(), Signal::TERM);
                    if tokio::time::timeout(grace, child.wait()).await.is_err() {
                        child.kill().await.unwrap();
                    }
                    self.processes.lock().unwrap().remove(&key.2);
                    self.server.remove(&key);
                    return;
                }
            };
            self.processes.lock().unwrap().remove(&key.2);
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
            // The folder is removed at the end of the test.
            let text = fs::read_to_string(&log).unwrap_or_default();
            let tail: Vec<&str> = text.lines().rev().take(20).collect();
            let message: String = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
            let reason = if code == 137 { "OOMKilled" } else { "Error" };
            last_end = json!({"terminated": {"exitCode": code, "reason": reason, "message": message}});
            self.set_status(&key, restarts, &last_end, &Value::Null);
            if restarts > 0 {
                let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}});
                self.set_status(&key, restarts, &waiting, &last_end);
                let pause = tokio::time::sleep(BACK_OFF * (1 << restarts.min(6)));
                tokio::select! {
                    () = pause => {}
                    () = self.deleted(&key) => {
                        self.server.remove(&key);
                        return;
                    }
                }
            }
        }
    }

    fn set_status(&self, key: &Key, restarts: u32, state: &Value, last: &Value) {
        let phase = if state["waiting"].is_null() || restarts > 0 { "Running" } else { "Pending" };
        self.server.change(key, |pod| {
            let image = pod["spec"]["containers"][0]["image"].clone();
            pod["status"]["phase"] = phase.into();
            pod["status"]["containerStatuses"] = json!([{"name": "worker", "image": image, "imageID": "", "ready": false,
                "restartCount": restarts, "state": state, "lastState": if last.is_null() { json!({}) } else { last.clone() }}]);
        });
    }

    /// Waits until the pod is being deleted.
    async fn deleted(&self, key: &Key) {
        let mut changes = self.server.changes();
        while self.server.get(key).is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
            changes.changed().await.unwrap();
        }
    }

    /// Starts the process of a container; `None` if its Secret is missing.
    async fn start_worker(
        &self,
        key: &Key,
        container: &Value,
        volumes: &[(String, PathBuf)],
        log: &Path,
    ) -> Option<Child> {
        let argv = arguments(container, volumes);
        let output = fs::File::options().create(true).append(true).open(log).expect("the test goes on");
        let mut path = tunesmith_testing::environment::path().to_owned();
        if container["image"] == "models:1" {
            let python = tokio::task::spawn_blocking(|| interpreter(&MODEL_PACKAGES)).await.unwrap();
            // Environments have the name `python3`, too.
            path = format!("{}:{path}", python.parent().unwrap().display());
        }
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        command.current_dir("/").env_clear().env("PATH", path).process_group(0).kill_on_drop(true);
        for variable in container["env"].as_array().unwrap() {
            let source = &variable["valueFrom"];
            let value = if let Some(field) = source["fieldRef"]["fieldPath"].as_str() {
                assert_eq!(field, "metadata.name");
                key.2.clone()
            } else if let Some(secret) = source["secretKeyRef"]["name"].as_str() {
                let secret = self.server.get(&("secrets".to_owned(), key.1.clone(), secret.to_owned()))?;
                let text = secret["data"][source["secretKeyRef"]["key"].as_str().unwrap()].as_str().unwrap();
                String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap()
            } else {
                on_this_machine(variable["value"].as_str().unwrap(), volumes)
            };
            command.env(variable["name"].as_str().unwrap(), value);
        }
        Some(command.spawn().unwrap())
    }
}

/// Folders of this machine for the volumes of `pod`, which outlive its container.
fn empty_volumes(pod: &Value, folder: &Path) -> Vec<(String, PathBuf)> {
    let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array().unwrap().iter();
    mounts
        .map(|mount| {
            let path = folder.join(mount["name"].as_str().unwrap());
            fs::create_dir_all(&path).unwrap();
            (mount["mountPath"].as_str().unwrap().to_owned(), path)
        })
        .collect()
}
