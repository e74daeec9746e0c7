//! The pod of the server in `examples/kubernetes`, started on this machine with its own commands and files, beside the cluster of this
//! process: its trials run, and comply with the Pod Security Standard of their namespace.

use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PodSpec, SecurityContext};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tunesmith_testing::access::bearer;
use tunesmith_testing::paced::found;
use tunesmith_testing::postgres::Cluster;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished, program};

use super::InProcess;
use super::rendering::{VARIANTS, helm, objects};
use super::runs::kubeconfig;

/// The pod of one server. Its claim is a folder of this machine.
struct ServerPod {
    spec: Value,
    claim: PathBuf,
    configuration: PathBuf,
}

impl ServerPod {
    /// The pod of the chart with these files of values. The folder of the authorities of trials is `authorities`.
    fn new(values: &[&str], workspace: &Workspace, name: &str, authorities: &str) -> Self {
        let objects = objects(&helm(values, &[]));
        let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
        let claim = workspace.path().join(name);
        // A file of a ConfigMap is a link.
        let (folder, version) = (claim.join("configuration"), claim.join("configuration/..version"));
        std::fs::create_dir_all(&version).unwrap();
        let text = of_kind("ConfigMap")["data"]["server.yaml"].as_str().unwrap();
        std::fs::write(version.join("server.yaml"), text.replace("/etc/tunesmith-ca", authorities)).unwrap();
        std::os::unix::fs::symlink("..version/server.yaml", folder.join("server.yaml")).unwrap();
        let spec = of_kind("StatefulSet")["spec"]["template"]["spec"].clone();
        Self { spec, claim, configuration: folder }
    }

    /// A word of the pod, with the paths of this machine.
    fn on_this_machine(&self, word: &str) -> String {
        let claim = self.claim.display().to_string();
        word.replace("/data", &claim)
            .replace("/etc/tunesmith-tls", &format!("{claim}/tls"))
            .replace("/etc/tunesmith/", &format!("{}/", self.configuration.display()))
    }

    /// Runs the init container.
    fn make_first_token(&self) {
        let container = &self.spec["initContainers"][0];
        let words = container["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let words: Vec<String> = words.map(|word| self.on_this_machine(word)).collect();
        let programs = Path::new(env!("CARGO_BIN_EXE_tunesmith")).parent().unwrap();
        let path = format!("{}:{}", programs.display(), tunesmith_testing::environment::path());
        finished(program(&words[0]).args(&words[1..]).env("PATH", path).output().unwrap()).expect(0);
    }

    fn token_file(&self) -> PathBuf {
        self.claim.join("admin.token")
    }

    fn token(&self) -> String {
        std::fs::read_to_string(self.token_file()).unwrap().trim().to_owned()
    }

    /// The command of the server on a free port of the loopback interface.
    fn command(&self, workspace: &Workspace) -> Command {
        let container = &self.spec["containers"][0];
        assert_eq!(container["command"], json!(["tunesmith", "serve"]));
        let mut command = workspace.command();
        command.arg("serve");
        for word in container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()) {
            match word.split_once('=').unwrap() {
                ("--listen", "0.0.0.0:8080") => command.arg("--listen=127.0.0.1:0"),
                // The name of a Service, which is that of no machine here.
                ("--public-url", url) => {
                    let host = url.split_once("://").unwrap().1;
                    assert_eq!(host, "tunesmith.$(NAMESPACE).svc:8080");
                    &mut command
                }
                _ => command.arg(self.on_this_machine(word)),
            };
        }
        let environment = container["env"].as_array().unwrap().iter();
        let plain = environment.filter_map(|one| Some((one["name"].as_str()?, one["value"].as_str()?)));
        command.envs(plain).env("TUNESMITH_KUBERNETES_AGENT_PATH", env!("CARGO_BIN_EXE_tunesmith"));
        command
    }
}

/// Demands of the Pod Security Standard `restricted` that `pod` does not meet.
pub(super) fn violations(pod: &PodSpec) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |is_met: bool, demand: &str| {
        if !is_met {
            found.push(demand.to_owned());
        }
    };
    let host = [pod.host_network, pod.host_pid, pod.host_ipc];
    check(host.iter().all(|one| *one != Some(true)), "no namespace of the host");
    let security = pod.security_context.clone().unwrap_or_default();
    let profile = security.seccomp_profile.as_ref().map(|profile| &*profile.type_);
    check(matches!(profile, Some("RuntimeDefault" | "Localhost")), "seccompProfile");
    check(security.run_as_user != Some(0), "runAsUser is not root");
    check(security.sysctls.is_none(), "no sysctls");
    for volume in pod.volumes.iter().flatten() {
        let fields = serde_json::to_value(volume).unwrap();
        let mut kinds = fields.as_object().unwrap().keys().filter(|name| *name != "name");
        let allowed =
            ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected"];
        check(kinds.all(|kind| kind == "secret" || allowed.contains(&&**kind)), "kinds of volumes");
    }
    for container in pod.init_containers.iter().flatten().chain(&pod.containers) {
        let own: SecurityContext = container.security_context.clone().unwrap_or_default();
        check(own.run_as_non_root.or(security.run_as_non_root) == Some(true), "runAsNonRoot");
        check(own.run_as_user != Some(0), "runAsUser is not root");
        check(own.allow_privilege_escalation == Some(false), "allowPrivilegeEscalation");
        check(own.privileged != Some(true), "not privileged");
        check(own.seccomp_profile.is_none() && own.proc_mount.is_none(), "no settings of its own");
        let capabilities = own.capabilities.unwrap_or_default();
        check(capabilities.drop == Some(vec!["ALL".to_owned()]) && capabilities.add.is_none(), "capabilities");
        check(container.ports.iter().flatten().all(|port| port.host_port.is_none()), "no port of the host");
    }
    found
}

fn body(id: &str, script: &str) -> String {
    let params = [json!({"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1})];
    json!({"jobId": id, "trainingInput": {
        "masterConfig": {"imageUri": "trainer:1", "containerCommand": ["sh", "-c", script, "trainer"]},
        "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "acc", "maxTrials": 2, "params": params},
        "tunesmith": {"metricFromStdout": true},
    }})
    .to_string()
}

#[test]
fn pods_of_the_server_comply_with_the_standard_of_their_namespace() {
    for values in [&[][..], &VARIANTS] {
        let workspace = Workspace::new("");
        let pod = ServerPod::new(values, &workspace, "data-0", "/");
        let spec: PodSpec = serde_json::from_value(pod.spec.clone()).unwrap();
        assert_eq!(violations(&spec), [""; 0]);
    }
    let found = violations(&PodSpec { containers: vec![Default::default()], ..PodSpec::default() });
    assert_eq!(found, ["seccompProfile", "runAsNonRoot", "allowPrivilegeEscalation", "capabilities"]);
}

#[test]
fn first_token_is_made_once() {
    let workspace = Workspace::new("");
    let pod = ServerPod::new(&[], &workspace, "data-0", "/");
    pod.make_first_token();
    let token = pod.token();
    assert!(token.starts_with("tsm_"), "{token}");
    pod.make_first_token();
    assert_eq!(pod.token(), token);
    // An operator who has read it may remove it.
    std::fs::remove_file(pod.token_file()).unwrap();
    pod.make_first_token();
    assert!(!pod.token_file().exists());
}

#[test]
fn arguments_of_the_server_are_valid() {
    for name in VARIANTS.into_iter().chain(["kueue"]) {
        let workspace = Workspace::new("");
        let pod = ServerPod::new(&[name], &workspace, "data-0", "/");
        pod.make_first_token();
        if name == "tls" {
            make_certificates(&pod.claim);
        }
        let mut command = pod.command(&workspace);
        command.env("KUBECONFIG", "/nowhere").env("HOME", "/nowhere");
        // Everything but the cluster is there.
        let output = finished(command.output().unwrap());
        assert!(output.stderr.contains("the configuration of Kubernetes cannot be read"), "{name}: {}", output.stderr);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trials_of_the_chart_run_and_comply_with_the_standard_of_their_namespace() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    let pod = ServerPod::new(&[], &workspace, "data-0", "/");
    pod.make_first_token();
    let mut command = pod.command(&workspace);
    command.env("KUBECONFIG", kubeconfig(&place, &workspace));
    let headers = bearer(&pod.token());
    let run = move || {
        let server = Server::start_command(&mut command);
        let (status, answer) = server.send("POST", "/v1/projects/p/jobs", &headers, &body("j", "echo acc=0.5"));
        assert_eq!(status, 200, "{answer}");
        found(|| {
            let job = server.send("GET", "/v1/projects/p/jobs/j", &headers, "").1;
            job["endTime"].is_string().then_some(job)
        })
    };
    let job = tokio::task::spawn_blocking(run).await.unwrap();
    assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
    let made = place.api().created("jobs");
    assert_eq!(made.len(), 2);
    for (_, made) in made {
        let made: Job = serde_json::from_value(made).unwrap();
        let template = made.spec.unwrap().template;
        let spec = template.spec.unwrap();
        assert_eq!(violations(&spec), [""; 0]);
        assert_eq!(spec.security_context.unwrap().run_as_user, Some(1000));
        assert_eq!(spec.init_containers.unwrap()[0].image.as_deref(), Some("registry.example.com/tunesmith:0.1.0"));
        // The network policies select pods of trials by it.
        assert_eq!(template.metadata.unwrap().labels.unwrap()["app.kubernetes.io/managed-by"], "tunesmith");
    }
}

/// Makes an authority, `authorities/ca.crt`, and a certificate of it for the loopback interface, `tls/tls.crt`, in `folder`.
fn make_certificates(folder: &Path) {
    let key = || KeyPair::generate().unwrap();
    let (authority_key, server_key) = (key(), key());
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let names = vec!["127.0.0.1".to_owned(), "tunesmith.tunesmith.svc".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&server_key, &issuer).unwrap();
    for name in ["authorities", "tls"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    std::fs::write(folder.join("authorities/ca.crt"), root.pem()).unwrap();
    std::fs::write(folder.join("tls/tls.crt"), certificate.pem()).unwrap();
    std::fs::write(folder.join("tls/tls.key"), server_key.serialize_pem()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_trust_a_server_with_a_certificate_of_a_private_authority() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    let authorities = workspace.path().join("data-0/authorities");
    let pod = ServerPod::new(&["tls"], &workspace, "data-0", authorities.to_str().unwrap());
    make_certificates(&pod.claim);
    pod.make_first_token();
    // The folder of the ConfigMap is a volume of the pod.
    let authority = std::fs::read_to_string(authorities.join("ca.crt")).unwrap();
    place.api().put(
        "configmaps",
        "tests",
        json!({"metadata": {"name": "tunesmith-ca"}, "data": {"ca.crt": authority}}),
    );
    let mut command = pod.command(&workspace);
    command.env("KUBECONFIG", kubeconfig(&place, &workspace));
    let token = pod.token();
    let mut client = workspace.command();
    client.env("TUNESMITH_CA_FILE", authorities.join("ca.crt")).env("TUNESMITH_ACCESS_TOKEN", token);
    let run = move || {
        let server = Server::start_command(&mut command);
        client.args(["jobs", "submit", "training", "j", "--stream-logs", "--project", "p"]);
        client.args(["--server", &format!("https://{}", server.address), "--config", "job.yaml"]);
        finished(client.output().unwrap())
    };
    let input: Value =
        serde_json::from_str(&body("j", "echo acc=0.5; echo \"inherited:$TUNESMITH_CA_FILE$SSL_CERT_FILE.\"")).unwrap();
    let config = json!({"trainingInput": input["trainingInput"]});
    workspace.write("job.yaml", &config.to_string());
    let output = tokio::task::spawn_blocking(run).await.unwrap().expect(0);
    assert!(output.stdout.contains("inherited:."), "{output:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_on_a_database_share_the_token_of_the_first() {
    let place = InProcess::without_nodes();
    let workspace = Workspace::new("");
    let kubeconfig = kubeconfig(&place, &workspace);
    let run = move || {
        let cluster = Cluster::start();
        let address = cluster.create_database("tuning");
        let start = |name: &str| {
            let pod = ServerPod::new(&["postgresql"], &workspace, name, "/");
            pod.make_first_token();
            let mut command = pod.command(&workspace);
            command.env("KUBECONFIG", &kubeconfig).env("TUNESMITH_STORE", &address);
            (Server::start_command(&mut command), pod)
        };
        let (servers, pods): (Vec<Server>, Vec<ServerPod>) = ["data-0", "data-1"].into_iter().map(start).unzip();
        for server in &servers {
            let status = |token: &str| server.send("GET", "/v1/projects/p/jobs", &bearer(token), "").0;
            assert_eq!((status(&pods[0].token()), status(&pods[1].token())), (200, 401));
        }
    };
    tokio::task::spawn_blocking(run).await.unwrap();
}
