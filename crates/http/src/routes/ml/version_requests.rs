//! Versions as clients request them, resolved for this server.

use crate::response::error::{ApiError, Code};
use tunesmith_api::ai_platform::BuiltInAlgorithm;
use tunesmith_api::ai_platform::machines::MachineMap;
use tunesmith_api::ai_platform::prediction::{FrameworkName, VersionRequest};
use tunesmith_prediction::{FieldNotice, Framework, ModelSource, Scaling, VersionSpec};

const SET_BY_SERVICE: &str = "has no effect: the service sets it";
const NO_EFFECT: &str = "has no effect on this server";

/// Specification of the requested version. Fields without effect give a notice.
pub(super) fn spec(
    request: VersionRequest,
    source: Option<ModelSource>,
    machines: &MachineMap,
) -> Result<VersionSpec, ApiError> {
    let unsupported = |field: &str, text: &str| Err(ApiError::invalid(field, text));
    if request.container.is_some() || request.routes.is_some() {
        let field = if request.container.is_some() { "container" } else { "routes" };
        return unsupported(
            field,
            "custom containers are not supported: serve the model with framework or predictionClass, whose workers run on \
             this server",
        );
    }
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
    notice("machineType", !request.machine_type.is_empty(), NO_EFFECT);
    notice("serviceAccount", !request.service_account.is_empty(), NO_EFFECT);
    notice("acceleratorConfig", request.accelerator_config.is_some(), NO_EFFECT);
    let logging = "has no effect: requests are not logged to BigQuery";
    notice("requestLoggingConfig", request.request_logging_config.is_some(), logging);
    let metrics = request.auto_scaling.as_ref().is_some_and(|scaling| !scaling.metrics.is_empty());
    notice("autoScaling.metrics", metrics, "has no effect: workers are added while requests wait");
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
    let python = match built_in {
        Some(_) => None,
        None => runtime(&request.runtime_version, machines, &mut notice)?,
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
        python,
        requirements,
        notices,
        source,
    })
}

/// Interpreter of the runtime `version`; `None` for the default one.
fn runtime(
    version: &str,
    machines: &MachineMap,
    notice: &mut dyn FnMut(&str, bool, &str),
) -> Result<Option<std::path::PathBuf>, ApiError> {
    if machines.runtimes.is_empty() {
        let text = "has no effect: the server configuration has no runtimeVersions; the workers use python3";
        notice("runtimeVersion", !version.is_empty(), text);
        return Ok(None);
    }
    if version.is_empty() {
        return Ok(None);
    }
    let allowed = || machines.runtimes.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    match machines.runtimes.get(version) {
        None => {
            let text = format!("{version:?} is not a runtime version of this server; allowed: {}", allowed());
            Err(ApiError::invalid("runtimeVersion", text))
        }
        Some(runtime) if runtime.python.is_none() => {
            let text = format!(
                "{version} has no interpreter on this server: runtimeVersions.{version}.python is not configured"
            );
            Err(ApiError::new(Code::FailedPrecondition, format!("runtimeVersion: {text}")))
        }
        Some(runtime) => Ok(runtime.python.clone()),
    }
}

/// A number of workers; `field` is its place in the request.
pub(super) fn nodes(field: &str, given: i32) -> Result<usize, ApiError> {
    usize::try_from(given).map_err(|_| ApiError::invalid(field, format!("{given} is negative")))
}
