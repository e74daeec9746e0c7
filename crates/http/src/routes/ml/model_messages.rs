//! Messages of models, versions and their operations.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::routes::state::Api;
use tunesmith_api::ai_platform::prediction::{
    AutoScaling, ContainerPort, ContainerSpec, EnvVar, FrameworkName, ManualScaling, ModelAdditions, ModelMessage,
    ModelOperation, ModelOperationKind, ModelOperationMetadata, ModelOperationResponse, RouteMap, VersionAdditions,
    VersionMessage, WorkerStatus,
};
use tunesmith_api::ai_platform::rpc::Status;
use tunesmith_api::ai_platform::{Notice, Notices};
use tunesmith_prediction::{
    Container, FieldNotice, Framework, Model, Operation, OperationKind, Outcome, PoolStatus, Scaling, Version,
};

pub(super) fn model(api: &Api, model: &Model) -> ModelMessage {
    let default = model.default_version.as_ref().and_then(|name| model.version(name));
    ModelMessage {
        name: model.resource_name(),
        description: model.description.clone(),
        regions: model.regions.clone(),
        default_version: default.map(|default| Box::new(version(api, model, default))),
        online_prediction_logging: model.online_prediction_logging,
        online_prediction_console_logging: model.online_prediction_console_logging,
        labels: model.labels.clone(),
        etag: etag(model.revision),
        tunesmith: ModelAdditions {
            create_time: model.create_time,
            version_count: model.versions.len(),
            notices: Notices::default(),
        },
    }
}

pub(super) fn version(api: &Api, model: &Model, version: &Version) -> VersionMessage {
    let is_default = model.default_version.as_ref() == Some(&version.name);
    let status = api.models.status(version);
    message(&model.resource_name(), version, is_default, &etag(model.revision), &status)
}

fn message(model: &str, version: &Version, is_default: bool, etag: &str, status: &PoolStatus) -> VersionMessage {
    let spec = &version.spec;
    let nodes = |nodes: usize| i32::try_from(nodes).unwrap_or(i32::MAX);
    let (auto_scaling, manual_scaling) = match spec.scaling {
        Scaling::Manual { nodes: count } => (None, Some(ManualScaling { nodes: nodes(count) })),
        Scaling::Automatic { min_nodes, max_nodes } => {
            let max_nodes = max_nodes.map_or(0, nodes);
            (Some(AutoScaling { min_nodes: nodes(min_nodes), max_nodes, metrics: Vec::new() }), None)
        }
    };
    let report = version.report.clone().unwrap_or_default();
    VersionMessage {
        name: format!("{model}/versions/{}", version.name),
        description: spec.description.clone(),
        is_default,
        deployment_uri: spec.deployment_uri.clone(),
        create_time: version.create_time,
        last_use_time: version.last_use_time.max(status.last_use),
        runtime_version: spec.runtime_version.clone(),
        python_version: spec.python_version.clone(),
        framework: match spec.framework {
            Framework::FrameworkUnspecified => FrameworkName::FrameworkUnspecified,
            Framework::Tensorflow => FrameworkName::Tensorflow,
            Framework::ScikitLearn => FrameworkName::ScikitLearn,
            Framework::Xgboost => FrameworkName::Xgboost,
        },
        machine_type: spec.machine_type.clone(),
        package_uris: spec.package_uris.clone(),
        prediction_class: spec.prediction_class.clone(),
        container: spec.container.as_ref().map(container),
        routes: spec.container.as_ref().map(routes),
        auto_scaling,
        manual_scaling,
        labels: spec.labels.clone(),
        state: version.state.as_str().to_owned(),
        error_message: version.error_message.clone(),
        etag: etag.to_owned(),
        tunesmith: VersionAdditions {
            notices: Notices { notices: spec.notices.iter().map(notice).collect() },
            job: spec.source.as_ref().map(|source| source.job.clone()).unwrap_or_default(),
            trial: spec
                .source
                .as_ref()
                .and_then(|source| source.trial)
                .map(|trial| trial.to_string())
                .unwrap_or_default(),
            requirements: spec.requirements.clone(),
            python: match (&spec.container, &spec.python) {
                (Some(_), _) => String::new(),
                (None, Some(python)) => python.display().to_string(),
                (None, None) => "python3".to_owned(),
            },
            python_version: report.python,
            loaded_framework: report.framework,
            package_versions: report.versions,
            warnings: report.warnings,
            workers: WorkerStatus {
                ready: status.ready,
                starting: status.starting,
                waiting_requests: status.waiting,
                requests: status.requests,
                errors: status.errors,
                failures: status.failures,
                mean_millis: mean_millis(status),
                median_millis: quantile_millis(status, 0.5),
                p95_millis: quantile_millis(status, 0.95),
                failure: status.failure.clone().unwrap_or_default(),
            },
        },
    }
}

fn container(container: &Container) -> ContainerSpec {
    let variable = |(name, value): &(String, String)| EnvVar { name: name.clone(), value: value.clone() };
    ContainerSpec {
        image: container.image.clone(),
        command: container.command.clone(),
        args: container.args.clone(),
        env: container.env.iter().map(variable).collect(),
        ports: vec![ContainerPort { container_port: container.port.into() }],
    }
}

fn routes(container: &Container) -> RouteMap {
    RouteMap { predict: container.predict_route.clone(), health: container.health_route.clone() }
}

fn mean_millis(status: &PoolStatus) -> f64 {
    if status.requests == 0 {
        return 0.0;
    }
    // Microseconds are exact enough.
    let mean = status.time.as_secs_f64() * 1e6 / status.requests as f64;
    mean.round() / 1e3
}

fn quantile_millis(status: &PoolStatus, share: f64) -> f64 {
    let micros = status.latencies.quantile(share).map_or(0.0, |latency| latency.as_secs_f64() * 1e6);
    micros.round() / 1e3
}

fn notice(FieldNotice { field, description }: &FieldNotice) -> Notice {
    Notice { field: field.clone(), description: description.clone() }
}

pub(super) fn operation(api: &Api, operation: &Operation) -> ModelOperation {
    let model_name = format!("projects/{}/models/{}", operation.project, operation.model);
    let of_version =
        |version: &Version| Box::new(message(&model_name, version, false, "", &api.models.status(version)));
    let (mut error, mut response) = (None, None);
    match &operation.outcome {
        None => {}
        Some(Outcome::Failed { code, message }) => {
            error = Some(Status { code: *code, message: message.clone(), details: Vec::new() });
        }
        Some(Outcome::Model(changed)) => response = Some(ModelOperationResponse::Model(Box::new(model(api, changed)))),
        Some(Outcome::Version(changed)) => response = Some(ModelOperationResponse::Version(of_version(changed))),
        Some(Outcome::Empty) => response = Some(ModelOperationResponse::Empty {}),
    }
    ModelOperation {
        name: format!("projects/{}/operations/{}", operation.project, operation.id),
        metadata: ModelOperationMetadata {
            type_name: ModelOperationMetadata::TYPE.to_owned(),
            create_time: operation.create_time,
            start_time: operation.create_time,
            end_time: operation.end_time,
            is_cancellation_requested: operation.is_cancellation_requested,
            operation_type: match operation.kind {
                OperationKind::CreateVersion => ModelOperationKind::CreateVersion,
                OperationKind::DeleteVersion => ModelOperationKind::DeleteVersion,
                OperationKind::DeleteModel => ModelOperationKind::DeleteModel,
                OperationKind::UpdateModel => ModelOperationKind::UpdateModel,
                OperationKind::UpdateVersion => ModelOperationKind::UpdateVersion,
            },
            version: operation.version.as_ref().map(of_version),
            model_name,
        },
        done: operation.outcome.is_some(),
        error,
        response,
    }
}

/// Changes with every change of the model.
pub(super) fn etag(revision: u64) -> String {
    STANDARD.encode(revision.to_be_bytes())
}
