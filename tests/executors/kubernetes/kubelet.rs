//! The controllers and the node of the API server of these tests: it creates a pod for each Job, runs the containers of the pod as
//! processes of this machine, and removes what belongs to a removed Job.
//!
//! There are no containers: images are ignored, the paths of volumes are replaced in arguments and variables by folders of this machine, and
//! `cp` of the agent makes a link.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::watch;

use super::api_server::{ApiServer, Key};
use super::deployment::violations;

/// The name of the node.
pub(super) const NODE: &str = "node-1";

/// The processes of pods, by the name of the pod.
type Processes = Arc<Mutex<BTreeMap<String, u32>>>;

pub(super) struct Kubelet {
    server: ApiServer,
    processes: Processes,
    /// Number of pods that the node takes.
    capacity: watch::Sender<usize>,
    /// Number of pods that controllers of Deployments may create.
    quota: watch::Sender<usize>,
}

impl Kubelet {
    /// Runs the Jobs of `server` below `folder`, in the working directory `working_directory`.
    pub(super) fn start(server: &ApiServer, folder: &Path, working_directory: &Path) -> Self {
        let (capacity, quota) = (watch::Sender::new(usize::MAX), watch::Sender::new(usize::MAX));
        let kubelet = Self { server: server.clone(), processes: Processes::default(), capacity, quota };
        let node = Node {
            server: server.clone(),
            folder: folder.to_owned(),
            working_directory: working_directory.to_owned(),
            processes: Arc::clone(&kubelet.processes),
            capacity: kubelet.capacity.subscribe(),
            quota: kubelet.quota.subscribe(),
        };
        tokio::spawn(node.run());
        kubelet
    }

    /// Sets the number of pods that controllers of Deployments may create.
    pub(super) fn set_quota(&self, pods: usize) {
        self.quota.send_replace(pods);
    }

    /// Sends `signal` to the process of the only worker of a model. Returns the name of its pod.
    pub(super) fn signal_worker(&self, signal: Signal) -> String {
        let processes = self.processes.lock().unwrap();
        let (pod, pid) = processes.iter().next().unwrap();
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
        pod.clone()
    }

    /// Sets the number of pods that the node takes.
    pub(super) fn set_capacity(&self, pods: usize) {
        self.capacity.send_replace(pods);
    }

    /// The name of the pod of the Job `job`, if it has one.
    fn pod_of(&self, job: &str) -> Option<Key> {
        let found =
            self.server.all("pods").into_iter().find(|(_, pod)| pod["metadata"]["labels"]["tunesmith.dev/run"] == job);
        found.map(|(key, _)| key)
    }

    /// Ends the pod of `job` with the notice of a preemption.
    pub(super) fn preempt(&self, job: &str) {
        let pod = self.pod_of(job).unwrap();
        self.server.change(&pod, |pod| {
            pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True",
                "reason": "PreemptionByScheduler", "message": "preempted by another pod"}]);
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z".into();
        });
        self.signal(&pod.2, Signal::TERM);
    }

    /// The node of the pod of `job` is lost: its processes may live.
    pub(super) fn lose_node(&self, job: &str) {
        let pod = self.pod_of(job).unwrap();
        self.server.change(&pod, |pod| {
            pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True",
                "reason": "DeletionByTaintManager", "message": "Taint manager: deleting due to NoExecute taint"}]);
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z".into();
        });
    }

    /// A queue suspends `job`: its pod is removed, and its agent gets `signal`. Returns the key of the job.
    pub(super) fn suspend(&self, job: &str, signal: Signal) -> Key {
        let pod = self.pod_of(job).unwrap();
        let key = ("jobs".to_owned(), pod.1.clone(), job.to_owned());
        self.server.change(&key, |job| job["spec"]["suspend"] = true.into());
        self.signal(&pod.2, signal);
        self.server.remove(&pod);
        key
    }

    /// Kills the container of the pod of `job` as the kernel does when it exceeds its memory.
    pub(super) fn exceed_memory(&self, job: &str) {
        let pod = self.pod_of(job).unwrap();
        self.server.change(&pod, |pod| pod["test/oom"] = true.into());
        self.signal(&pod.2, Signal::KILL);
    }

    fn signal(&self, pod: &str, signal: Signal) {
        let pid = self.processes.lock().unwrap()[pod];
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        for &pid in self.processes.lock().unwrap().values() {
            // Its supervisor ends the program.
            let _ = kill_process_group(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
        }
    }
}

#[derive(Clone)]
pub(super) struct Node {
    pub(super) server: ApiServer,
    pub(super) folder: PathBuf,
    working_directory: PathBuf,
    pub(super) processes: Processes,
    capacity: watch::Receiver<usize>,
    pub(super) quota: watch::Receiver<usize>,
}

impl Node {
    async fn run(self) {
        let (mut changes, mut capacity, mut quota) = (self.server.changes(), self.capacity.clone(), self.quota.clone());
        loop {
            changes.mark_unchanged();
            let most = *capacity.borrow_and_update();
            self.reconcile();
            self.reconcile_deployments();
            self.schedule(most);
            let changed = tokio::select! {
                changed = changes.changed() => changed,
                changed = capacity.changed() => changed,
                changed = quota.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
        }
    }

    /// Creates missing pods, and removes what belongs to nothing.
    fn reconcile(&self) {
        let owner = |object: &Value| object["metadata"]["ownerReferences"][0]["uid"].as_str().map(str::to_owned);
        let owners =
            ["jobs", "deployments"].into_iter().flat_map(|kind| self.server.view(kind, |_, one| Some(uid(one))));
        let uids: BTreeSet<String> = owners.collect();
        let served: BTreeSet<String> = self.server.view("pods", |_, pod| owner(pod)).into_iter().collect();
        let lacking = self.server.view("jobs", |key, job| {
            let is_active = job["status"]["conditions"].is_null() && job["spec"]["suspend"] != true;
            (is_active && !served.contains(&uid(job))).then(|| (key.clone(), job.clone()))
        });
        for (key, job) in &lacking {
            self.create_pod(key, job);
        }
        let orphan = |key: &Key, object: &Value| {
            owner(object).is_some_and(|owner| !uids.contains(&owner)).then(|| (key.clone(), object.clone()))
        };
        for (key, _) in self.server.view("secrets", orphan) {
            self.server.remove(&key);
        }
        for (key, pod) in self.server.view("pods", orphan) {
            if pod["spec"]["nodeName"].is_null() || has_ended(&pod) {
                self.server.remove(&key);
            } else if pod["metadata"]["deletionTimestamp"].is_null() {
                self.server.change(&key, |pod| pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z".into());
                if let Some(&pid) = self.processes.lock().unwrap().get(&key.2) {
                    // It may have ended.
                    let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::TERM);
                }
            }
        }
    }

    fn create_pod(&self, job_key: &Key, job: &Value) {
        let mut pod = job["spec"]["template"].clone();
        let name = format!("{}-x7v2p", job_key.2);
        pod["metadata"]["name"] = name.clone().into();
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": job_key.2, "uid": job["metadata"]["uid"]});
        pod["metadata"]["ownerReferences"] = json!([owner]);
        pod["status"] = json!({"phase": "Pending"});
        if self.server.is_restricted() {
            let found = violations(&serde_json::from_value(pod["spec"].clone()).unwrap());
            if !found.is_empty() {
                return self.refuse_pod(job_key, job, &name, &found.join(", "));
            }
        }
        if !pod["spec"]["nodeSelector"].is_null() {
            pod["status"]["conditions"] = unschedulable("1 node(s) didn't match Pod's node affinity/selector");
        }
        self.server.put("pods", &job_key.1, pod);
    }

    /// Reports that a pod of `job` was not created, as the Job controller does.
    fn refuse_pod(&self, job_key: &Key, job: &Value, pod: &str, violations: &str) {
        let name = format!("{}.refused", job_key.2);
        if self.server.get(&("events".to_owned(), job_key.1.clone(), name.clone())).is_some() {
            return;
        }
        let message = format!(
            "Error creating: pods \"{pod}\" is forbidden: violates PodSecurity \"restricted:latest\": {violations}"
        );
        let event = json!({"metadata": {"name": name}, "reason": "FailedCreate", "type": "Warning", "message": message,
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "involvedObject": {"kind": "Job", "name": job_key.2, "uid": job["metadata"]["uid"]}});
        self.server.put("events", &job_key.1, event);
    }

    /// Starts pods that wait, while there are fewer than `most`.
    fn schedule(&self, most: usize) {
        let is_running = |pod: &Value| !pod["spec"]["nodeName"].is_null() && !has_ended(pod);
        let mut running = self.server.view("pods", |_, pod| is_running(pod).then_some(())).len();
        let unplaced = |key: &Key, pod: &Value| pod["spec"]["nodeName"].is_null().then(|| (key.clone(), pod.clone()));
        for (key, pod) in self.server.view("pods", unplaced) {
            // The node has no labels.
            let has_labels = !pod["spec"]["nodeSelector"].is_null();
            if !has_labels && running < most {
                running += 1;
                self.server.change(&key, |pod| {
                    pod["spec"]["nodeName"] = NODE.into();
                    pod["status"]["conditions"] = Value::Null;
                });
                if pod["metadata"]["ownerReferences"][0]["kind"] == "Deployment" {
                    tokio::spawn(self.clone().run_worker(key, pod));
                    continue;
                }
                let owner = pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap().to_owned();
                let job = ("jobs".to_owned(), key.1.clone(), owner);
                tokio::spawn(self.clone().run_pod(key, job, pod));
            } else if pod["status"]["conditions"].is_null() {
                let what =
                    if has_labels { "1 node(s) didn't match Pod's node affinity/selector" } else { "1 Too many pods" };
                self.server.change(&key, |pod| {
                    pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False",
                        "reason": "Unschedulable", "message": format!("0/1 nodes are available: {what}.")}]);
                });
            }
        }
    }

    async fn run_pod(self, key: Key, job: Key, pod: Value) {
        let folder = tempfile::tempdir_in(&self.folder).unwrap();
        let Some(volumes) = self.volumes(&key, &pod, folder.path()).await else {
            // It was deleted before its container started.
            self.server.remove(&key);
            return;
        };
        let spec = &pod["spec"];
        for container in spec["initContainers"].as_array().unwrap() {
            let argv = arguments(container, &volumes);
            assert_eq!(argv[0], "cp");
            if !Path::new(&argv[1]).exists() {
                let log = format!("cp: cannot stat '{}': No such file or directory\n", argv[1]);
                return self.end(&key, &job, container, 1, &log);
            }
            std::os::unix::fs::symlink(&argv[1], &argv[2]).unwrap();
        }
        let container = &spec["containers"][0];
        let argv = arguments(container, &volumes);
        let log = folder.path().join("log");
        let output = fs::File::create(&log).unwrap();
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        command.current_dir(container["workingDir"].as_str().map_or(&*self.working_directory, Path::new));
        command.env_clear().env("PATH", tunesmith_testing::environment::path()).process_group(0);
        for variable in container["env"].as_array().unwrap() {
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some(field) => {
                    assert_eq!(field, "status.podIP");
                    "127.0.0.1".to_owned()
                }
                None => on_this_machine(variable["value"].as_str().unwrap(), &volumes),
            };
            command.env(variable["name"].as_str().unwrap(), value);
        }
        let mut child = command.spawn().unwrap();
        self.processes.lock().unwrap().insert(key.2.clone(), child.id().unwrap());
        self.server.change(&key, |pod| pod["status"]["phase"] = "Running".into());
        let grace = Duration::from_secs(spec["terminationGracePeriodSeconds"].as_u64().unwrap());
        let mut changes = self.server.changes();
        let is_deleted = async {
            while self.server.get(&key).is_none_or(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
                changes.changed().await.unwrap();
            }
            tokio::time::sleep(grace).await;
        };
        let status = tokio::select! {
            status = child.wait() => status.unwrap(),
            () = is_deleted => {
                child.start_kill().unwrap();
                child.wait().await.unwrap()
            }
        };
        self.processes.lock().unwrap().remove(&key.2);
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
        self.end(&key, &job, container, code, &fs::read_to_string(&log).unwrap());
    }

    /// Records the end of a pod with its `container`, and of its Job as the Job controller does.
    fn end(&self, key: &Key, job: &Key, container: &Value, code: i32, log: &str) {
        let Some(pod) = self.server.get(key) else { return };
        let is_disrupted = pod["status"]["conditions"].to_string().contains("DisruptionTarget");
        let reason = if pod["test/oom"] == true {
            "OOMKilled"
        } else if code == 0 {
            "Completed"
        } else {
            "Error"
        };
        self.server.change(key, |pod| {
            pod["status"]["phase"] = if code == 0 { "Succeeded" } else { "Failed" }.into();
            let statuses = if container["name"] == "trial" { "containerStatuses" } else { "initContainerStatuses" };
            let has_log = container["terminationMessagePolicy"] == "FallbackToLogsOnError" && code != 0;
            let message = if has_log { log } else { "" };
            pod["status"][statuses] = json!([{"name": container["name"], "image": "", "imageID": "", "ready": false,
                "restartCount": 0, "state": {"terminated": {"exitCode": code, "reason": reason, "message": message}}}]);
        });
        let (early, last, reason) = match (code, is_disrupted) {
            (_, true) => ("FailureTarget", "Failed", "PodFailurePolicy"),
            (0, false) => ("SuccessCriteriaMet", "Complete", "CompletionsReached"),
            (_, false) => ("FailureTarget", "Failed", "BackoffLimitExceeded"),
        };
        let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": reason});
        self.server.change(job, |job| job["status"]["conditions"] = json!([condition(early)]));
        self.server.change(job, |job| job["status"]["conditions"] = json!([condition(early), condition(last)]));
        if !pod["metadata"]["deletionTimestamp"].is_null() && !is_disrupted {
            self.server.remove(key);
        }
    }

    /// The folders of this machine for the paths at which the containers of the pod `key` mount volumes; `None` if the pod is
    /// deleted meanwhile.
    async fn volumes(&self, key: &Key, pod: &Value, folder: &Path) -> Option<Vec<(String, PathBuf)>> {
        let mut changes = self.server.changes();
        let mut folders = BTreeMap::new();
        for volume in pod["spec"]["volumes"].as_array().unwrap() {
            let name = volume["name"].as_str().unwrap();
            let path = folder.join(name);
            fs::create_dir(&path).unwrap();
            if let Some(secret) = volume["secret"]["secretName"].as_str() {
                let secret = ("secrets".to_owned(), key.1.clone(), secret.to_owned());
                let content = loop {
                    if self.server.get(key).is_none_or(|pod| !pod["metadata"]["deletionTimestamp"].is_null()) {
                        return None;
                    }
                    match self.server.get(&secret) {
                        Some(secret) => break secret,
                        None => changes.changed().await.unwrap(),
                    }
                };
                let data = content["data"].as_object().unwrap().iter();
                lay_out(
                    &path,
                    data.map(|(file, text)| (file, BASE64_STANDARD.decode(text.as_str().unwrap()).unwrap())),
                );
            }
            if let Some(name) = volume["configMap"]["name"].as_str() {
                let content = self.server.get(&("configmaps".to_owned(), key.1.clone(), name.to_owned())).unwrap();
                let data = content["data"].as_object().unwrap().iter();
                lay_out(&path, data.map(|(file, text)| (file, text.as_str().unwrap().into())));
            }
            folders.insert(name.to_owned(), path);
        }
        let containers = [&pod["spec"]["initContainers"][0], &pod["spec"]["containers"][0]];
        let mounts = containers.into_iter().flat_map(|container| container["volumeMounts"].as_array().unwrap());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let source = |mount: &Value| {
            let folder = &folders[&text(&mount["name"])];
            match mount["subPath"].as_str() {
                // Links are followed before the file is mounted.
                Some(file) => fs::canonicalize(folder.join(file)).unwrap(),
                None => folder.clone(),
            }
        };
        Some(mounts.map(|mount| (text(&mount["mountPath"]), source(mount))).collect())
    }
}

/// Whether the containers of `pod` have ended.
pub(super) fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap())
}

/// The UID of an object.
fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Lays the files of a Secret or ConfigMap out as the kubelet's atomic writer does: each is a link through `..data`, which an update
/// replaces.
fn lay_out<'a>(folder: &Path, data: impl Iterator<Item = (&'a String, Vec<u8>)>) {
    let version = "..2026_01_01_00_00_00.1234567890";
    fs::create_dir(folder.join(version)).unwrap();
    std::os::unix::fs::symlink(version, folder.join("..data")).unwrap();
    for (file, content) in data {
        fs::write(folder.join(version).join(file), content).unwrap();
        std::os::unix::fs::symlink(format!("..data/{file}"), folder.join(file)).unwrap();
    }
}

/// The conditions of a pod that no node takes, since `what`.
fn unschedulable(what: &str) -> Value {
    json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": format!("0/1 nodes are available: {what}.")}])
}

/// The command of a container, with the paths of this machine.
pub(super) fn arguments(container: &Value, volumes: &[(String, PathBuf)]) -> Vec<String> {
    let lists = [&container["command"], &container["args"]];
    let words = lists.into_iter().filter_map(Value::as_array).flatten().map(|word| word.as_str().unwrap());
    words.map(|word| on_this_machine(word, volumes)).collect()
}

/// `word`, or the path of this machine for a path in a volume.
pub(super) fn on_this_machine(word: &str, volumes: &[(String, PathBuf)]) -> String {
    for (mounted, folder) in volumes {
        if let Some(rest) = word.strip_prefix(mounted.as_str())
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return format!("{}{rest}", folder.display());
        }
    }
    word.to_owned()
}
