//! Versions as clients request them, resolved for this server.

use crate::response::error::{ApiError, Code};
use tunesmith_api::ai_platform::BuiltInAlgorithm;
use tunesmith_api::ai_platform::machines::{MachineMap, MachinePlacement, MachineType, Runtime};
use tunesmith_api::ai_platform::prediction::{FrameworkName, VersionRequest};
use tunesmith_prediction::{Container, DEFAULT_PORT, FieldNotice, Framework, ModelSource, Scaling, VersionSpec};

const SET_BY_SERVICE: &str = "has no effect: the service sets it";
const UNKNOWN_MACHINE: &str = "has no effect: the server knows no such machine type";
const NO_EFFECT: &str = "has no effect on this server";

/// Specification of the requested version, whose workers are `in_pods` or processes of this machine. Fields without effect
/// give a notice.
pub(super) fn spec(
    request: VersionRequest,
    model: &str,
    source: Option<ModelSource>,
    machines: &MachineMap,
    in_pods: bool,
) -> Result<VersionSpec, ApiError> {
    let unsupported = |field: &str, text: &str| Err(ApiError::invalid(field, text));
    if request.explanation_config.is_some() {
        return unsupported("explanationConfig", "explanations are not supported: leave it out");
    }
    let mut notices = Vec::new();
    let mut notice = |field: &str, is_given: bool, description: &str| {
        if is_given {
            notices.push(FieldNotice { field: field.to_owned(), description: description.to_owned() });
        }
    };
    notice(
        "isDefault",
        request.is_default,
        "has no effect: the first version is the default, and setDefault changes it",
    );
    for (field, value) in [
        ("createTime", &request.create_time),
        ("lastUseTime", &request.last_use_time),
        ("lastMigrationTime", &request.last_migration_time),
        ("lastMigrationModelId", &request.last_migration_model_id),
        ("state", &request.state),
        ("errorMessage", &request.error_message),
    ] {
        notice(field, value.is_some(), SET_BY_SERVICE);
    }
    notice("etag", !request.etag.is_empty(), SET_BY_SERVICE);
    let resources = machine(&request.machine_type, machines);
    notice("machineType", resources.is_none() && !request.machine_type.is_empty(), UNKNOWN_MACHINE);
    let resources = resources.unwrap_or_default();
    let has_place = resources.accelerators.is_some() || resources.place != MachinePlacement::default();
    let place =
        "its accelerators, queue and options have no effect on workers: settings of the executor choose their nodes";
    notice("machineType", in_pods && has_place, place);
    notice("serviceAccount", !request.service_account.is_empty(), NO_EFFECT);
    notice("acceleratorConfig", request.accelerator_config.is_some(), NO_EFFECT);
    let logging = "has no effect: requests are not logged to BigQuery";
    notice("requestLoggingConfig", request.request_logging_config.is_some(), logging);
    let metrics = request.auto_scaling.as_ref().is_some_and(|scaling| !scaling.metrics.is_empty());
    notice("autoScaling.metrics", metrics, "has no effect: workers are added while requests wait");
    let container = container(&request, model, &mut notice)?;
    let framework = match request.framework {
        FrameworkName::FrameworkUnspecified => Framework::FrameworkUnspecified,
        FrameworkName::Tensorflow => Framework::Tensorflow,
        FrameworkName::ScikitLearn => Framework::ScikitLearn,
        FrameworkName::Xgboost => Framework::Xgboost,
    };
    // A runtime of the operator precedes that of a built-in algorithm.
    let built_in = match machines.runtimes.contains_key(&request.runtime_version) {
        true => None,
        false => BuiltInAlgorithm::of_runtime(request.framework, &request.runtime_version),
    };
    let runtime = match built_in {
        Some(_) => None,
        None if container.is_some() => None,
        None => runtime(&request.runtime_version, machines, in_pods, &mut notice)?,
    };
    let (python, image) = match runtime.cloned().unwrap_or_default() {
        Runtime { image, .. } if in_pods => (None, image),
        Runtime { python, .. } => (python, None),
    };
    let mut requirements = request.tunesmith.requirements;
    requirements.extend(built_in.map(|algorithm| algorithm.requirement.to_owned()));
    let version_of_runtime = "has no effect: the interpreter is that of the runtime version";
    notice("pythonVersion", !request.python_version.is_empty(), version_of_runtime);
    Ok(VersionSpec {
        description: request.description,
        labels: request.labels,
        deployment_uri: request.deployment_uri,
        framework,
        runtime_version: request.runtime_version,
        python_version: request.python_version,
        machine_type: request.machine_type,
        package_uris: request.package_uris,
        prediction_class: request.prediction_class,
        scaling: match (request.auto_scaling, request.manual_scaling) {
            (Some(_), Some(_)) => {
                return Err(ApiError::invalid(
                    "manualScaling",
                    "is given together with autoScaling: one of the two is allowed",
                ));
            }
            (None, Some(manual)) => Scaling::Manual { nodes: nodes("manualScaling.nodes", manual.nodes)? },
            (None, None) => Scaling::default(),
            (Some(auto), None) => Scaling::Automatic {
                min_nodes: nodes("autoScaling.minNodes", auto.min_nodes)?,
                // 0 is the absent field.
                max_nodes: Some(nodes("autoScaling.maxNodes", auto.max_nodes)?).filter(|nodes| *nodes > 0),
            },
        },
        container,
        memory_bytes: resources.memory_bytes,
        milli_cpus: resources.milli_cpus,
        python,
        image,
        requirements,
        notices,
        source,
    })
}

/// Memory and processors of a machine type, if it is known.
fn machine(name: &str, machines: &MachineMap) -> Option<MachineType> {
    // Published for prediction alone: processors, and GiB of memory.
    let of_prediction = [("mls1-c1-m2", 1, 2), ("mls1-c4-m2", 4, 2), ("n1-standard-2", 2, 7)];
    let published = || {
        let (_, cpus, gib) = of_prediction.into_iter().find(|(published, ..)| *published == name)?;
        let (milli_cpus, memory_bytes) = (Some(cpus * 1000), Some(gib << 30));
        Some(MachineType { milli_cpus, memory_bytes, ..MachineType::default() })
    };
    machines.machine_types.get(name).cloned().or_else(published)
}

/// The requested container, with the routes that AI Platform has by default.
fn container(
    request: &VersionRequest,
    model: &str,
    notice: &mut dyn FnMut(&str, bool, &str),
) -> Result<Option<Container>, ApiError> {
    let Some(container) = &request.container else {
        return match request.routes {
            Some(_) => Err(ApiError::invalid("routes", "has no meaning without container: leave it out")),
            None => Ok(None),
        };
    };
    for (field, is_given) in [
        ("framework", request.framework != FrameworkName::FrameworkUnspecified),
        ("runtimeVersion", !request.runtime_version.is_empty()),
        ("pythonVersion", !request.python_version.is_empty()),
        ("packageUris", !request.package_uris.is_empty()),
        ("predictionClass", !request.prediction_class.is_empty()),
        ("tunesmith.requirements", !request.tunesmith.requirements.is_empty()),
    ] {
        if is_given {
            return Err(ApiError::invalid(field, "has no meaning with container: leave it out"));
        }
    }
    notice("container.ports", container.ports.len() > 1, "only the first port has an effect");
    let port = match container.ports.first() {
        None => DEFAULT_PORT,
        Some(port) => u16::try_from(port.container_port).ok().filter(|port| *port > 0).ok_or_else(|| {
            let text = format!("{} is not a port; allowed: 1 to 65535", port.container_port);
            ApiError::invalid("container.ports[0].containerPort", text)
        })?,
    };
    let routes = request.routes.clone().unwrap_or_default();
    let route = |given: String, end: &str| match given.is_empty() {
        true => format!("/v1/models/{model}/versions/{}{end}", request.name),
        false => given,
    };
    Ok(Some(Container {
        image: container.image.clone(),
        command: container.command.clone(),
        args: container.args.clone(),
        env: container.env.iter().map(|variable| (variable.name.clone(), variable.value.clone())).collect(),
        port,
        predict_route: route(routes.predict, ":predict"),
        health_route: route(routes.health, ""),
    }))
}

/// Runtime `version`, with an image for workers `in_pods` and an interpreter for others; `None` for the default one.
fn runtime<'a>(
    version: &str,
    machines: &'a MachineMap,
    in_pods: bool,
    notice: &mut dyn FnMut(&str, bool, &str),
) -> Result<Option<&'a Runtime>, ApiError> {
    if machines.runtimes.is_empty() {
        let text = match in_pods {
            true => "has no effect: the server configuration has no runtimeVersions; the workers use its default image",
            false => "has no effect: the server configuration has no runtimeVersions; the workers use python3",
        };
        notice("runtimeVersion", !version.is_empty(), text);
        return Ok(None);
    }
    if version.is_empty() {
        return Ok(None);
    }
    let allowed = || machines.runtimes.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let Some(runtime) = machines.runtimes.get(version) else {
        let text = format!("{version:?} is not a runtime version of this server; allowed: {}", allowed());
        return Err(ApiError::invalid("runtimeVersion", text));
    };
    let (is_usable, what, key) = match in_pods {
        true => (runtime.image.is_some(), "image", "image"),
        false => (runtime.python.is_some(), "interpreter", "python"),
    };
    if is_usable {
        return Ok(Some(runtime));
    }
    let text = format!("{version} has no {what} on this server: runtimeVersions.{version}.{key} is not configured");
    Err(ApiError::new(Code::FailedPrecondition, format!("runtimeVersion: {text}")))
}

/// A number of workers; `field` is its place in the request.
pub(super) fn nodes(field: &str, given: i32) -> Result<usize, ApiError> {
    usize::try_from(given).map_err(|_| ApiError::invalid(field, format!("{given} is negative")))
}
