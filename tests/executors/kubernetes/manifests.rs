//! The chart and the base of kustomize in `examples/kubernetes`: that they agree, and that their objects are those of Kubernetes and
//! what the engine needs.

use std::path::Path;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tunesmith_kubernetes::{PERMISSIONS, WORKER_PERMISSIONS};
use tunesmith_testing::documents::assert_current;

use super::rendering::{VARIANTS, VERSIONS, comparable, custom_faults, faults, folder, helm, kustomize, objects, tool};

/// The one object of the type `T` in `objects` with this kind, name and namespace.
fn object<T: DeserializeOwned>(objects: &[Value], kind: &str, [namespace, name]: [&str; 2]) -> T {
    let is_it = |object: &&Value| {
        object["kind"] == kind && object["metadata"]["name"] == name && object["metadata"]["namespace"] == namespace
    };
    let found: Vec<&Value> = objects.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{kind} {namespace}/{name}");
    serde_json::from_value(found[0].clone()).unwrap()
}

/// Builds an overlay of a copy of the files, whose kustomization has this text.
fn overlay(text: &str) -> Vec<Value> {
    let copy = TempDir::new().unwrap();
    for name in ["base", "components"] {
        copy_folder(&folder().join(name), &copy.path().join(name));
    }
    let overlay = copy.path().join("overlay");
    std::fs::create_dir(&overlay).unwrap();
    std::fs::copy(folder().join("base/image.yaml"), overlay.join("image.yaml")).unwrap();
    std::fs::write(overlay.join("kustomization.yaml"), text).unwrap();
    kustomize(&overlay)
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, copy) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy_folder(&path, &copy);
        } else {
            std::fs::copy(path, copy).unwrap();
        }
    }
}

#[test]
fn files_of_kustomize_are_rendered_from_the_chart() {
    // Comments of the template are kept, and those of helm are not.
    let rendered = |values: &[&str], templates: &[&str]| -> String {
        let shown: Vec<String> = templates.iter().map(|name| format!("--show-only=templates/{name}.yaml")).collect();
        let text = helm(values, &shown.iter().map(String::as_str).collect::<Vec<_>>());
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("# Source:"));
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        text.trim_start_matches("---\n").to_owned()
    };
    let configuration = |values: &[&str]| {
        let config = &objects(&rendered(values, &["config"]))[0];
        config["data"]["server.yaml"].as_str().unwrap().to_owned()
    };
    let base = rendered(&[], &["namespaces", "rbac", "service", "server", "disruption"]);
    assert_current("examples/kubernetes/base/tunesmith.yaml", &base);
    assert_current("examples/kubernetes/base/server.yaml", &configuration(&[]));
    assert_current("examples/kubernetes/components/tls/server.yaml", &configuration(&["tls"]));
    for name in ["ingress", "network-policy", "service-monitor"] {
        let path = format!("examples/kubernetes/components/{name}/{name}.yaml");
        assert_current(&path, &rendered(&[name], &[name]));
    }
    // Those of the further namespace of trials.
    let further = |values: &[&str], templates: &[&str]| -> String {
        let all = rendered(values, templates);
        let own: Vec<&str> = all
            .split("---\n")
            .filter(|text| text.contains("\n  namespace: tuning-eu\n") || text.contains("\n  name: tuning-eu\n"))
            .collect();
        own.join("---\n")
    };
    assert_current(
        "examples/kubernetes/components/trial-namespace/trial-namespace.yaml",
        &further(&["trial-namespace"], &["namespaces", "rbac"]),
    );
    assert_current(
        "examples/kubernetes/components/network-policy-trial-namespace/network-policy.yaml",
        &further(&["network-policy", "trial-namespace"], &["network-policy"]),
    );
}

#[test]
fn kustomize_and_the_chart_make_the_same_objects() {
    assert_eq!(comparable(kustomize(&folder().join("base"))), comparable(objects(&helm(&[], &[]))), "base");
    for name in VARIANTS {
        let made = overlay(&format!("resources: [../base]\ncomponents: [../components/{name}]\n"));
        assert_eq!(comparable(made), comparable(objects(&helm(&[name], &[]))), "{name}");
    }
    let names = ["network-policy", "trial-namespace"];
    let components = names.into_iter().chain(["network-policy-trial-namespace"]);
    let components: Vec<String> = components.map(|name| format!("../components/{name}")).collect();
    let made = overlay(&format!("resources: [../base]\ncomponents: [{}]\n", components.join(", ")));
    assert_eq!(comparable(made), comparable(objects(&helm(&names, &[]))), "namespaces with policies");
    let production = helm(&["ingress", "postgresql", "network-policy", "service-monitor"], &[]);
    assert_eq!(comparable(kustomize(&folder().join("overlays/production"))), comparable(objects(&production)));
}

#[test]
fn objects_comply_with_the_schemas_of_the_lowest_and_the_highest_version() {
    let mut all = objects(&helm(&VARIANTS, &[]));
    all.extend(objects(&helm(&["kueue"], &[])));
    all.extend(objects(&std::fs::read_to_string(folder().join("kueue.yaml")).unwrap()));
    // Their schemas come with their operators; those of the fields that are used are here.
    let (custom, own): (Vec<Value>, Vec<Value>) = all.into_iter().partition(|object| {
        let group = object["apiVersion"].as_str().unwrap();
        group.starts_with("monitoring.coreos.com/") || group.starts_with("kueue.x-k8s.io/")
    });
    let kinds: Vec<&str> = custom.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    let queue = ["ResourceFlavor", "ClusterQueue", "LocalQueue", "WorkloadPriorityClass", "WorkloadPriorityClass"];
    assert_eq!(kinds, [&["ServiceMonitor"][..], &queue].concat());
    assert_eq!(custom_faults(&custom), [""; 0]);
    for version in VERSIONS {
        assert_eq!(faults(&own, version), [""; 0], "{version}");
    }
    let mut misspelled = custom;
    misspelled[0]["spec"]["endpoints"][0]["intervall"] = json!("30s");
    misspelled[2]["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = json!(null);
    let found = custom_faults(&misspelled);
    assert!(found.len() == 2 && found[0].contains("intervall") && found[1].contains("nominalQuota"), "{found:?}");
    let mut wrong = own.into_iter().find(|object| object["kind"] == "StatefulSet").unwrap();
    wrong["spec"]["template"]["spec"]["containers"][0]["imagePullPolice"] = json!("Always");
    let faults = faults(&[wrong], VERSIONS[0]);
    assert!(faults.len() == 1 && faults[0].contains("imagePullPolice"), "{faults:?}");
}

#[test]
fn objects_belong_together() {
    let objects = objects(&helm(&VARIANTS, &[]));
    const OWN: [&str; 2] = ["tunesmith", "tunesmith"];
    let account: ServiceAccount = object(&objects, "ServiceAccount", OWN);
    let service: Service = object(&objects, "Service", OWN);
    let servers: StatefulSet = object(&objects, "StatefulSet", OWN);
    let budget: PodDisruptionBudget = object(&objects, "PodDisruptionBudget", OWN);
    let ingress: Ingress = object(&objects, "Ingress", OWN);
    let spec = servers.spec.unwrap();
    let labels = spec.template.metadata.unwrap().labels;
    let service = service.spec.unwrap();
    assert_eq!(service.selector, labels);
    assert_eq!(spec.selector.match_labels, labels);
    assert_eq!(budget.spec.unwrap().selector.unwrap().match_labels, labels);
    assert_eq!(spec.service_name.as_deref(), Some("tunesmith"));
    let pod = spec.template.spec.unwrap();
    assert_eq!(pod.service_account_name, account.metadata.name);
    let server = &pod.containers[0];
    let port = &server.ports.as_ref().unwrap()[0];
    let (name, number) = (port.name.clone().unwrap(), port.container_port);
    let port = &service.ports.as_ref().unwrap()[0];
    assert_eq!(port.target_port, Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(name.clone())));
    let backend = serde_json::to_value(&ingress.spec.unwrap().rules).unwrap()[0]["http"]["paths"][0]["backend"].clone();
    assert_eq!(backend, json!({"service": {"name": "tunesmith", "port": {"name": port.name}}}));
    for probe in [&server.startup_probe, &server.readiness_probe, &server.liveness_probe] {
        let get = probe.as_ref().unwrap().http_get.as_ref().unwrap();
        assert_eq!(serde_json::to_value(&get.port).unwrap(), json!(name));
        assert_eq!(get.scheme.as_deref(), Some("HTTPS"));
    }
    let monitor: Value = object(&objects, "ServiceMonitor", OWN);
    assert_eq!(monitor["spec"]["endpoints"][0]["port"], json!(port.name));
    assert_eq!(monitor["spec"]["selector"]["matchLabels"], json!(labels));
    for namespace in ["tunesmith", "tuning-eu"] {
        let policy: NetworkPolicy = object(&objects, "NetworkPolicy", [namespace, "tunesmith-trials"]);
        let policy = serde_json::to_value(policy.spec.unwrap()).unwrap();
        assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
        let to_server = &policy["egress"][0];
        assert_eq!(to_server["ports"], json!([{"port": number}]));
        assert_eq!(to_server["to"][0]["podSelector"]["matchLabels"], json!(labels));
        let binding: RoleBinding = object(&objects, "RoleBinding", [namespace, "tunesmith"]);
        assert_eq!(binding.role_ref.name, "tunesmith");
        let subjects = binding.subjects.unwrap();
        assert_eq!((subjects.len(), Some(&subjects[0].name)), (1, account.metadata.name.as_ref()));
        assert_eq!(subjects[0].namespace.as_deref(), Some("tunesmith"));
        let found = objects.iter().find(|one| one["kind"] == "Namespace" && one["metadata"]["name"] == namespace);
        let labels = &found.unwrap()["metadata"]["labels"];
        assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted");
    }
}

#[test]
fn role_permits_what_the_engine_does_and_nothing_else() {
    let objects = objects(&helm(&["trial-namespace"], &[]));
    let text = |&(group, resource, verb): &(&str, &str, &str)| (group.into(), resource.into(), verb.into());
    let mut needed: Vec<(String, String, String)> = PERMISSIONS.iter().chain(&WORKER_PERMISSIONS).map(text).collect();
    needed.sort();
    needed.dedup();
    for namespace in ["tunesmith", "tuning-eu"] {
        let role: Role = object(&objects, "Role", [namespace, "tunesmith"]);
        let mut granted: Vec<(String, String, String)> = Vec::new();
        for rule in role.rules.unwrap() {
            for group in rule.api_groups.as_ref().unwrap() {
                for resource in rule.resources.as_ref().unwrap() {
                    granted.extend(rule.verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())));
                }
            }
        }
        granted.sort();
        assert_eq!(granted, needed, "{namespace}");
    }
}

#[test]
fn image_has_one_place() {
    let images = |objects: &[Value]| -> Vec<String> {
        let servers: Value = object(objects, "StatefulSet", ["tunesmith", "tunesmith"]);
        let pod = &servers["spec"]["template"]["spec"];
        let agent = &pod["containers"][0]["env"].as_array().unwrap().iter();
        let agent = agent.clone().find(|one| one["name"] == "TUNESMITH_KUBERNETES_AGENT_IMAGE").unwrap();
        let places = [&pod["initContainers"][0]["image"], &pod["containers"][0]["image"], &agent["value"]];
        places.map(|place| place.as_str().unwrap().to_owned()).into()
    };
    let own = "ghcr.example.org/team/tunesmith:2";
    assert_eq!(images(&objects(&helm(&[], &["--set", &format!("image={own}")]))), [own; 3]);
    let made = overlay(
        "resources: [../base]\nconfigurations: [image.yaml]\nimages:\n- name: registry.example.com/tunesmith\n  \
         newName: ghcr.example.org/team/tunesmith\n  newTag: '2'\n",
    );
    assert_eq!(images(&made), [own; 3]);
}

#[test]
fn values_that_cannot_work_are_refused() {
    let refused = |arguments: &[&str]| {
        let mut command = tool("helm");
        let output = command.args(["template", "tunesmith", "chart"]).args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for (argument, named) in [
        ("replica=2", "replica"),
        ("postgresql.secret=x", "secret"),
        ("namespaces.podSecurity=strict", "podSecurity"),
        ("listen=127.0.0.1:8080", "listen"),
        ("extraEnv[0].value=x", "name"),
        // Several servers on SQLite.
        ("replicas=2", "postgresql/secretName"),
    ] {
        let error = refused(&["--set", argument]);
        assert!(error.contains(named), "{argument}: {error}");
    }
    let error = refused(&["--kube-version", "1.30.9"]);
    assert!(error.contains("requires kubeVersion: >=1.31.0"), "{error}");
}

#[test]
fn further_variables_and_volumes_are_those_of_the_server() {
    let values = TempDir::new().unwrap();
    let file = values.path().join("extra.yaml");
    let variable = json!({"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": "/etc/bucket/key.json"});
    let volume = json!({"name": "bucket", "secret": {"secretName": "bucket"}});
    let mount = json!({"name": "bucket", "mountPath": "/etc/bucket", "readOnly": true});
    let extra = json!({"extraEnv": [variable], "extraVolumes": [volume], "extraVolumeMounts": [mount]});
    std::fs::write(&file, extra.to_string()).unwrap();
    let made = objects(&helm(&["tls"], &["--values", file.to_str().unwrap()]));
    assert_eq!(faults(&made, VERSIONS[0]), [""; 0]);
    let servers: Value = object(&made, "StatefulSet", ["tunesmith", "tunesmith"]);
    let pod = &servers["spec"]["template"]["spec"];
    let last = |list: &Value| list.as_array().unwrap().last().unwrap().clone();
    assert_eq!(last(&pod["volumes"]), volume);
    assert_eq!(last(&pod["containers"][0]["volumeMounts"]), mount);
    assert_eq!(last(&pod["containers"][0]["env"]), variable);
    assert_eq!(pod["containers"][0]["volumeMounts"].as_array().unwrap().len(), 4);
    assert_eq!(pod["initContainers"][0]["volumeMounts"].as_array().unwrap().len(), 1);
}
