//! `VizierService` and `JobService` of `google.cloud.aiplatform.v1` and `v1beta1`.

mod job_filter;
mod jobs;
mod read_mask;
mod studies;
mod trials;

use tunesmith_admission::use_cases;
use tunesmith_vizier::messages::vertex::*;

use crate::method::Method;

pub(crate) fn methods() -> Vec<Method> {
    let mut methods = of_studies();
    methods.extend(of_jobs());
    let beta: Vec<Method> = methods.iter().filter_map(Method::in_beta).collect();
    methods.extend(beta);
    methods
}

macro_rules! method {
    ($name:literal, $use_case:expr, $request:ident.$field:ident, $handler:path) => {
        Method::new(
            concat!("google.cloud.aiplatform.v1.", $name),
            $use_case,
            |request: &$request| &request.$field,
            $handler,
        )
        .beta(concat!("google.cloud.aiplatform.v1beta1.", $name))
    };
}

fn of_studies() -> Vec<Method> {
    vec![
        method!("VizierService.CreateStudy", use_cases::CREATE_STUDY, CreateStudyRequest.parent, studies::create)
            .http("POST /v1/{parent=projects/*/locations/*}/studies study"),
        method!("VizierService.GetStudy", use_cases::GET_STUDY, GetStudyRequest.name, studies::get)
            .http("GET /v1/{name=projects/*/locations/*/studies/*}"),
        method!("VizierService.ListStudies", use_cases::LIST_STUDIES, ListStudiesRequest.parent, studies::list)
            .http("GET /v1/{parent=projects/*/locations/*}/studies"),
        method!("VizierService.DeleteStudy", use_cases::DELETE_STUDY, DeleteStudyRequest.name, studies::delete)
            .http("DELETE /v1/{name=projects/*/locations/*/studies/*}"),
        method!("VizierService.LookupStudy", use_cases::LOOKUP_STUDY, LookupStudyRequest.parent, studies::lookup)
            .http("POST /v1/{parent=projects/*/locations/*}/studies:lookup *"),
        method!("VizierService.SuggestTrials", use_cases::SUGGEST_TRIALS, SuggestTrialsRequest.parent, trials::suggest)
            .http("POST /v1/{parent=projects/*/locations/*/studies/*}/trials:suggest *"),
        method!("VizierService.CreateTrial", use_cases::CREATE_TRIAL, CreateTrialRequest.parent, trials::create)
            .http("POST /v1/{parent=projects/*/locations/*/studies/*}/trials trial"),
        method!("VizierService.GetTrial", use_cases::GET_TRIAL, GetTrialRequest.name, trials::get)
            .http("GET /v1/{name=projects/*/locations/*/studies/*/trials/*}"),
        method!("VizierService.ListTrials", use_cases::LIST_TRIALS, ListTrialsRequest.parent, trials::list)
            .http("GET /v1/{parent=projects/*/locations/*/studies/*}/trials"),
        method!(
            "VizierService.AddTrialMeasurement",
            use_cases::ADD_MEASUREMENT,
            AddTrialMeasurementRequest.trial_name,
            trials::add_measurement
        )
        .http("POST /v1/{trial_name=projects/*/locations/*/studies/*/trials/*}:addTrialMeasurement *"),
        method!("VizierService.CompleteTrial", use_cases::COMPLETE_TRIAL, CompleteTrialRequest.name, trials::complete)
            .http("POST /v1/{name=projects/*/locations/*/studies/*/trials/*}:complete *"),
        method!("VizierService.DeleteTrial", use_cases::DELETE_TRIAL, DeleteTrialRequest.name, trials::delete)
            .http("DELETE /v1/{name=projects/*/locations/*/studies/*/trials/*}"),
        method!(
            "VizierService.CheckTrialEarlyStoppingState",
            use_cases::CHECK_EARLY_STOPPING,
            CheckTrialEarlyStoppingStateRequest.trial_name,
            trials::check_early_stopping
        )
        .http("POST /v1/{trial_name=projects/*/locations/*/studies/*/trials/*}:checkTrialEarlyStoppingState *"),
        method!("VizierService.StopTrial", use_cases::STOP_TRIAL, StopTrialRequest.name, trials::stop)
            .http("POST /v1/{name=projects/*/locations/*/studies/*/trials/*}:stop *"),
        method!(
            "VizierService.ListOptimalTrials",
            use_cases::LIST_OPTIMAL_TRIALS,
            ListOptimalTrialsRequest.parent,
            trials::list_optimal
        )
        .http("POST /v1/{parent=projects/*/locations/*/studies/*}/trials:listOptimalTrials *"),
    ]
}

fn of_jobs() -> Vec<Method> {
    macro_rules! jobs {
        ($name:literal, $use_case:expr, $request:ident.$field:ident, $handler:path, $rule:literal) => {
            method!($name, $use_case, $request.$field, $handler).http($rule)
        };
    }
    vec![
        jobs!(
            "JobService.CreateCustomJob",
            use_cases::CREATE_JOB,
            CreateCustomJobRequest.parent,
            jobs::create_custom,
            "POST /v1/{parent=projects/*/locations/*}/customJobs custom_job"
        ),
        jobs!(
            "JobService.GetCustomJob",
            use_cases::GET_JOB,
            GetCustomJobRequest.name,
            jobs::get_custom,
            "GET /v1/{name=projects/*/locations/*/customJobs/*}"
        ),
        jobs!(
            "JobService.ListCustomJobs",
            use_cases::LIST_JOBS,
            ListCustomJobsRequest.parent,
            jobs::list_custom,
            "GET /v1/{parent=projects/*/locations/*}/customJobs"
        ),
        jobs!(
            "JobService.DeleteCustomJob",
            use_cases::DELETE_JOB,
            DeleteCustomJobRequest.name,
            jobs::delete_custom,
            "DELETE /v1/{name=projects/*/locations/*/customJobs/*}"
        ),
        jobs!(
            "JobService.CancelCustomJob",
            use_cases::CANCEL_JOB,
            CancelCustomJobRequest.name,
            jobs::cancel_custom,
            "POST /v1/{name=projects/*/locations/*/customJobs/*}:cancel *"
        ),
        jobs!(
            "JobService.CreateHyperparameterTuningJob",
            use_cases::CREATE_JOB,
            CreateHyperparameterTuningJobRequest.parent,
            jobs::create_tuning,
            "POST /v1/{parent=projects/*/locations/*}/hyperparameterTuningJobs hyperparameter_tuning_job"
        ),
        jobs!(
            "JobService.GetHyperparameterTuningJob",
            use_cases::GET_JOB,
            GetHyperparameterTuningJobRequest.name,
            jobs::get_tuning,
            "GET /v1/{name=projects/*/locations/*/hyperparameterTuningJobs/*}"
        ),
        jobs!(
            "JobService.ListHyperparameterTuningJobs",
            use_cases::LIST_JOBS,
            ListHyperparameterTuningJobsRequest.parent,
            jobs::list_tuning,
            "GET /v1/{parent=projects/*/locations/*}/hyperparameterTuningJobs"
        ),
        jobs!(
            "JobService.DeleteHyperparameterTuningJob",
            use_cases::DELETE_JOB,
            DeleteHyperparameterTuningJobRequest.name,
            jobs::delete_tuning,
            "DELETE /v1/{name=projects/*/locations/*/hyperparameterTuningJobs/*}"
        ),
        jobs!(
            "JobService.CancelHyperparameterTuningJob",
            use_cases::CANCEL_JOB,
            CancelHyperparameterTuningJobRequest.name,
            jobs::cancel_tuning,
            "POST /v1/{name=projects/*/locations/*/hyperparameterTuningJobs/*}:cancel *"
        ),
    ]
}
