//! `projects.jobs.create` with `predictionInput`.

use std::sync::Arc;

use tunesmith_access::Permission;
use tunesmith_admission::Admission;
use tunesmith_api::ai_platform::Int64;
use tunesmith_api::ai_platform::machines::MachineMap;
use tunesmith_api::ai_platform::prediction::{DataFormat, PredictionInput, VersionRequest};
use tunesmith_domain::{BatchPrediction, Job, JobId, JobPlan, PredictionCounts};
use tunesmith_jobs::PredictionSubmission;
use tunesmith_prediction::{BatchModel, BatchRequest, DEFAULT_MAX_WORKERS, InputFormat, OutputFormat};

use super::version_requests::spec;
use crate::request::names;
use crate::response::error::{ApiError, Code};
use crate::routes::state::Api;

/// Creates the batch prediction `id`.
pub(super) async fn create(
    api: &Api,
    admission: &Admission,
    id: JobId,
    labels: std::collections::BTreeMap<String, String>,
    input: PredictionInput,
) -> Result<Job, ApiError> {
    let project = id.parts().0.to_owned();
    names::project(&project)?;
    let machines = Arc::clone(&api.machines.read());
    let mut notices = Vec::new();
    let mut notice = |field: &str, is_given: bool, text: &str| {
        if is_given {
            notices.push((field.to_owned(), text.to_owned()));
        }
    };
    notice("region", !input.region.is_empty(), "has no effect on this server");
    let of_tensorflow = "has no effect: only TensorFlow models have signatures";
    notice("signatureName", !input.signature_name.is_empty(), of_tensorflow);
    let of_version = "has no effect: the version has a runtime version of its own";
    notice("runtimeVersion", !input.runtime_version.is_empty() && input.uri.is_empty(), of_version);
    let limit = api.models.batch_worker_limit();
    let wanted = input.max_worker_count.map_or(DEFAULT_MAX_WORKERS as i64, |Int64(count)| count);
    let text = format!("this server has at most {limit} workers for batch predictions: --prediction-workers");
    notice(
        "maxWorkerCount",
        input.max_worker_count.is_some() && usize::try_from(wanted).is_ok_and(|wanted| wanted > limit),
        &text,
    );
    let (input_format, output_format) = (input_format(input.data_format)?, output_format(input.output_data_format)?);
    let (model, more) = model(&input, &project, &machines, api.models.runs_in_pods())?;
    notices.extend(more);
    if let BatchModel::Named { model, version } = &model {
        let permission = if version.is_some() { Permission::VersionsPredict } else { Permission::ModelsPredict };
        admission.check_model(permission, &project, model).await?;
    }
    let request = BatchRequest {
        model,
        input_format,
        output_format,
        input_paths: input.input_paths.clone(),
        output_path: input.output_path.clone(),
        batch_size: input.batch_size.map(|Int64(size)| size),
        max_workers: input.max_worker_count.map(|Int64(count)| count),
    };
    let (plan, version) = api.models.plan_batch(&project, request).await?;
    if let Some(version) = version.filter(|_| !input.model_name.is_empty()) {
        notices.push(("modelName".to_owned(), format!("the default version at submission predicts: {version}")));
    }
    let canonical =
        serde_json::to_value(&input).map_err(|error| ApiError::invalid("predictionInput", error.to_string()))?;
    let submission = PredictionSubmission {
        id,
        labels,
        policy: admission.policy_of_creator(),
        plan: JobPlan::of_prediction(api.working_directory.clone(), admission.principal().map(str::to_owned)),
        prediction: BatchPrediction { input: canonical, plan, notices, counts: PredictionCounts::default() },
    };
    Ok(api.jobs.create_prediction(submission).await?)
}

fn input_format(format: DataFormat) -> Result<InputFormat, ApiError> {
    let refused = |text: &str| Err(ApiError::invalid("predictionInput.dataFormat", text));
    match format {
        DataFormat::Json => Ok(InputFormat::Json),
        DataFormat::Text => Ok(InputFormat::Text),
        DataFormat::DataFormatUnspecified => refused("is required; allowed: JSON, TEXT"),
        DataFormat::Csv => refused("CSV is a format of output files; use TEXT for lines of CSV; allowed: JSON, TEXT"),
        DataFormat::TfRecord | DataFormat::TfRecordGzip => refused(
            "TF_RECORD and TF_RECORD_GZIP are not supported: convert the records to lines of JSON; allowed: JSON, TEXT",
        ),
    }
}

fn output_format(format: DataFormat) -> Result<OutputFormat, ApiError> {
    match format {
        DataFormat::Json | DataFormat::DataFormatUnspecified => Ok(OutputFormat::Json),
        DataFormat::Csv => Ok(OutputFormat::Csv),
        DataFormat::Text | DataFormat::TfRecord | DataFormat::TfRecordGzip => {
            Err(ApiError::invalid("predictionInput.outputDataFormat", "is not supported; allowed: JSON, CSV"))
        }
    }
}

type Notices = Vec<(String, String)>;

/// The model of `input`, with notices about its runtime.
fn model(
    input: &PredictionInput,
    project: &str,
    machines: &MachineMap,
    in_pods: bool,
) -> Result<(BatchModel, Notices), ApiError> {
    let given = [&input.model_name, &input.version_name, &input.uri];
    if given.into_iter().filter(|name| !name.is_empty()).count() != 1 {
        let text = "exactly one of modelName, versionName and uri is required";
        return Err(ApiError::invalid("predictionInput", text));
    }
    if !input.uri.is_empty() {
        let request = VersionRequest {
            deployment_uri: input.uri.clone(),
            runtime_version: input.runtime_version.clone(),
            ..VersionRequest::default()
        };
        let spec = spec(request, "", None, machines, in_pods)?;
        let notices = spec.notices.iter().map(|notice| (notice.field.clone(), notice.description.clone())).collect();
        return Ok((BatchModel::Folder(Box::new(spec)), notices));
    }
    let (field, name, form) = match input.model_name.is_empty() {
        false => ("predictionInput.modelName", &input.model_name, "projects/PROJECT/models/MODEL"),
        true => ("predictionInput.versionName", &input.version_name, "projects/PROJECT/models/MODEL/versions/VERSION"),
    };
    let parts: Vec<&str> = name.split('/').collect();
    let (owner, model, version) = match (parts.as_slice(), input.model_name.is_empty()) {
        (["projects", owner, "models", model], false) => (owner, model, None),
        (["projects", owner, "models", model, "versions", version], true) => (owner, model, Some(version)),
        _ => return Err(ApiError::invalid(field, format!("{name:?} is not a name; expected {form}"))),
    };
    if *owner != project {
        let text = format!("{name} belongs to another project than the job: {project}");
        return Err(ApiError::new(Code::InvalidArgument, format!("{field}: {text}")));
    }
    let version = version.map(|version| (*version).to_owned());
    Ok((BatchModel::Named { model: (*model).to_owned(), version }, Vec::new()))
}
