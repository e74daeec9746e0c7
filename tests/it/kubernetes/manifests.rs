//! The manifests in `examples/kubernetes`, as the types of the Kubernetes API and as the engine needs them.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tunesmith_kubernetes::PERMISSIONS;

use crate::support::{Workspace, finished};

/// The objects of `server.yaml`, in order.
fn objects() -> Vec<Value> {
    let text = include_str!("../../../examples/kubernetes/server.yaml");
    yaml_serde::Deserializer::from_str(text).map(|one| Value::deserialize(one).unwrap()).collect()
}

/// The only object of `kind`, without a field that its type does not have.
fn object<T: DeserializeOwned + serde::Serialize>(kind: &str) -> T {
    let mut found = objects().into_iter().filter(|object| object["kind"] == kind);
    let (value, None) = (found.next().unwrap(), found.next()) else { panic!("there are several {kind}") };
    let parsed: T = serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{kind}: {error}"));
    assert_subset(&value, &serde_json::to_value(&parsed).unwrap(), kind);
    parsed
}

/// Every field of `given` is in `parsed`, which drops those that are unknown.
fn assert_subset(given: &Value, parsed: &Value, place: &str) {
    match (given, parsed) {
        (Value::Object(given), Value::Object(parsed)) => {
            for (name, value) in given {
                let kept = parsed.get(name).unwrap_or_else(|| panic!("{place}.{name} is not a field"));
                assert_subset(value, kept, &format!("{place}.{name}"));
            }
        }
        (Value::Array(given), Value::Array(parsed)) => {
            assert_eq!(given.len(), parsed.len(), "{place}");
            for (index, (given, parsed)) in given.iter().zip(parsed).enumerate() {
                assert_subset(given, parsed, &format!("{place}[{index}]"));
            }
        }
        _ => assert_eq!(given, parsed, "{place}"),
    }
}

#[test]
fn manifests_are_objects_of_kubernetes_that_belong_together() {
    assert_eq!(objects().len(), 7);
    let namespace: Namespace = object("Namespace");
    let account: ServiceAccount = object("ServiceAccount");
    let binding: RoleBinding = object("RoleBinding");
    let role: Role = object("Role");
    let claim: PersistentVolumeClaim = object("PersistentVolumeClaim");
    let service: Service = object("Service");
    let deployment: Deployment = object("Deployment");
    for metadata in
        [&account.metadata, &binding.metadata, &role.metadata, &claim.metadata, &service.metadata, &deployment.metadata]
    {
        assert_eq!(metadata.namespace, namespace.metadata.name);
    }
    let subjects = binding.subjects.unwrap();
    assert_eq!((subjects.len(), Some(&subjects[0].name)), (1, account.metadata.name.as_ref()));
    assert_eq!(Some(binding.role_ref.name), role.metadata.name);
    let template = deployment.spec.unwrap().template;
    assert_eq!(service.spec.unwrap().selector, template.metadata.unwrap().labels);
    let pod = template.spec.unwrap();
    assert_eq!(pod.service_account_name, account.metadata.name);
    let volume = &pod.volumes.unwrap()[0];
    assert_eq!(Some(&volume.persistent_volume_claim.as_ref().unwrap().claim_name), claim.metadata.name.as_ref());
}

#[test]
fn role_permits_what_the_engine_does_and_nothing_else() {
    let role: Role = object("Role");
    let mut granted: Vec<(String, String, String)> = Vec::new();
    for rule in role.rules.unwrap() {
        for group in rule.api_groups.as_ref().unwrap() {
            for resource in rule.resources.as_ref().unwrap() {
                granted.extend(rule.verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())));
            }
        }
    }
    granted.sort();
    let text = |&(group, resource, verb): &(&str, &str, &str)| (group.into(), resource.into(), verb.into());
    let mut needed: Vec<(String, String, String)> = PERMISSIONS.iter().map(text).collect();
    needed.sort();
    assert_eq!(granted, needed);
}

#[test]
fn arguments_of_the_server_in_the_manifest_are_valid() {
    let deployment: Deployment = object("Deployment");
    let server = deployment.spec.unwrap().template.spec.unwrap().containers.remove(0);
    let words: Vec<String> = server.command.unwrap().into_iter().chain(server.args.unwrap()).collect();
    assert_eq!(words[..2], ["tunesmith", "serve"]);
    let workspace = Workspace::new("");
    let mut command = workspace.command();
    command.args(words[1..].iter().map(|word| match word.as_str() {
        "--data-dir=/data/server" => "--data-dir=data",
        // It is not reached, and tests listen on the loopback interface only.
        "--listen=0.0.0.0:8080" => "--listen=127.0.0.1:0",
        word => word,
    }));
    command.env("KUBECONFIG", "/nowhere").env("HOME", "/nowhere");
    let mut token = workspace.command();
    token.args(["tokens", "create", "--data-dir", "data", "--principal", "user:admin@tunesmith", "--role", "ml.admin"]);
    finished(token.output().unwrap()).expect(0);
    // Everything but the cluster is there.
    let output = finished(command.output().unwrap());
    assert!(output.stderr.contains("the configuration of Kubernetes cannot be read"), "{}", output.stderr);
}
