//! Versions with the files that the program of a job has left.

use super::views::recommended_trial;
use crate::request::names::job_id;
use crate::response::error::{ApiError, Code};
use crate::routes::state::Api;
use tunesmith_access::Permission;
use tunesmith_admission::{Admission, allows};
use tunesmith_api::ai_platform::BuiltInAlgorithmOutput;
use tunesmith_api::ai_platform::prediction::{FrameworkName, VersionRequest};
use tunesmith_domain::{Job, JobId, Study, TrialId, TrialState};
use tunesmith_jobs::JobsError;
use tunesmith_prediction::ModelSource;
use tunesmith_store::StoreError;

/// Maximum length of a name that is made of that of a job.
const MAX_NAME: usize = 100;

/// Completes a request that names a job: folder, name, runtime and packages. Returns the job and trial.
pub(super) async fn complete(
    api: &Api,
    admission: &Admission,
    project: &str,
    request: &mut VersionRequest,
) -> Result<Option<ModelSource>, ApiError> {
    let additions = request.tunesmith.clone();
    if additions.job.is_empty() {
        for (field, value) in [("tunesmith.trial", &additions.trial), ("tunesmith.subfolder", &additions.subfolder)] {
            if !value.is_empty() {
                return Err(ApiError::invalid(field, "has no meaning without tunesmith.job"));
            }
        }
        return Ok(None);
    }
    if !request.deployment_uri.is_empty() {
        return Err(ApiError::invalid("deploymentUri", "has no meaning with tunesmith.job, which has the folder"));
    }
    let job = visible(api, admission, &job_id(project, &additions.job)?).await?;
    let study = match &job.study {
        Some(study) => Some(api.studies.study(study).await?),
        None => None,
    };
    let trial = match &study {
        Some(study) => Some(trial_of(api, &job, study, &additions.trial).await?),
        None if matches!(additions.trial.as_str(), "" | "best") => None,
        None => {
            let text = format!("{:?} does not exist: job {} runs its program once", additions.trial, additions.job);
            return Err(ApiError::invalid("tunesmith.trial", text));
        }
    };
    request.deployment_uri = folder(api, &job, trial, &additions.subfolder).await?;
    let id = job.id.parts().1;
    if request.name.is_empty() {
        let plain = id.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
        let plain: String = plain.take(MAX_NAME).collect();
        request.name = trial.map_or_else(|| format!("v_{plain}"), |trial| format!("v_{plain}_{trial}"));
    }
    // The server has the library of a built-in algorithm under these names.
    if let Some(built_in) = BuiltInAlgorithmOutput::of(&job).filter(|_| request.runtime_version.is_empty()) {
        request.runtime_version = built_in.runtime_version;
        if request.framework == FrameworkName::FrameworkUnspecified {
            request.framework = serde_json::from_value(built_in.framework.into()).unwrap_or_default();
        }
    }
    let input = &job.training_input;
    if request.runtime_version.is_empty() {
        request.runtime_version = input["runtimeVersion"].as_str().unwrap_or_default().to_owned();
    }
    // Pickles may refer to classes of the trainer.
    if request.package_uris.is_empty() {
        let uris = input["packageUris"].as_array().into_iter().flatten();
        request.package_uris = uris.filter_map(|uri| uri.as_str().map(str::to_owned)).collect();
    }
    Ok(Some(ModelSource { job: id.to_owned(), trial: trial.map(|trial| trial.0) }))
}

/// The job `id`, if the caller may read it.
async fn visible(api: &Api, admission: &Admission, id: &JobId) -> Result<Job, ApiError> {
    let permission = Permission::JobsGet;
    let (caller, project) = (admission.caller(), id.parts().0);
    let denied = || {
        let text = format!("permission {permission} is denied on {id} (or it does not exist)");
        ApiError::new(Code::PermissionDenied, text)
    };
    match api.jobs.job(id).await {
        Ok(job) if caller.may(permission, project) || allows(&job.policy, caller.principal(), permission) => Ok(job),
        Ok(_) => Err(denied()),
        Err(JobsError::Store(StoreError::NotFound { .. })) if !caller.may(permission, project) => Err(denied()),
        Err(error) => Err(error.into()),
    }
}

/// The trial of `job` that `wanted` names.
async fn trial_of(api: &Api, job: &Job, study: &Study, wanted: &str) -> Result<TrialId, ApiError> {
    let id = job.id.parts().1;
    let best = || async {
        let best = api.studies.optimal_trials(study).await?;
        let none = || ApiError::new(Code::FailedPrecondition, format!("job {id} has no successful trial yet"));
        best.first().copied().ok_or_else(none)
    };
    match wanted {
        "" | "best" => best().await,
        "recommended" => match recommended_trial(api, study).await? {
            Some(trial) => Ok(trial),
            // The model has no better choice.
            None => best().await,
        },
        number => {
            let invalid = || format!("{number:?} is not a trial; allowed: best, recommended, or its number");
            let number = number.parse().map_err(|_| ApiError::invalid("tunesmith.trial", invalid()))?;
            let trial = api.studies.trial(&study.id, TrialId(number)).await?;
            if !matches!(trial.state, TrialState::Succeeded | TrialState::Infeasible) {
                let text = format!("trial {number} of job {id} has not ended: its files may be incomplete");
                return Err(ApiError::new(Code::FailedPrecondition, text));
            }
            Ok(trial.id)
        }
    }
}

/// Folder with the model that a program has left.
async fn folder(api: &Api, job: &Job, trial: Option<TrialId>, subfolder: &str) -> Result<String, ApiError> {
    let address = job.training_input["jobDir"].as_str();
    // The server does not list buckets for clients.
    if let Some(address) = address.filter(|folder| folder.starts_with("gs://") || folder.starts_with("s3://")) {
        let address = address.trim_end_matches('/');
        let parts = trial.map(|trial| trial.to_string()).into_iter().chain([subfolder.to_owned()]);
        return Ok(parts
            .filter(|part| !part.is_empty())
            .fold(address.to_owned(), |path, part| format!("{path}/{part}")));
    }
    let found = api.jobs.artifacts(&job.id, trial).await?;
    let folder = found.folder.display().to_string();
    if found.files.is_empty() {
        let id = job.id.parts().1;
        let of = trial.map_or_else(|| format!("job {id}"), |trial| format!("trial {trial} of job {id}"));
        let text = format!("{of} has left no files in {folder}: its program must save the model below --job-dir");
        return Err(ApiError::new(Code::FailedPrecondition, text));
    }
    let has_model = found.files.iter().any(|file| file.name.starts_with("model/"));
    Ok(match subfolder {
        "" if has_model => format!("{folder}/model"),
        "" => folder,
        name => format!("{folder}/{name}"),
    })
}
