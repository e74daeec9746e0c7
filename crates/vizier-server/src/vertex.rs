//! `google.cloud.aiplatform.v1.VizierService`.

mod studies;
mod trials;

use tunesmith_admission::use_cases;
use tunesmith_vizier::messages::vertex::*;

use crate::method::Method;

pub(crate) fn methods() -> Vec<Method> {
    macro_rules! method {
        ($name:literal, $use_case:expr, $request:ident.$field:ident, $handler:path) => {
            Method::new(
                concat!("google.cloud.aiplatform.v1.VizierService.", $name),
                $use_case,
                |request: &$request| &request.$field,
                $handler,
            )
        };
    }
    vec![
        method!("CreateStudy", use_cases::CREATE_STUDY, CreateStudyRequest.parent, studies::create)
            .http("POST /v1/{parent=projects/*/locations/*}/studies study"),
        method!("GetStudy", use_cases::GET_STUDY, GetStudyRequest.name, studies::get)
            .http("GET /v1/{name=projects/*/locations/*/studies/*}"),
        method!("ListStudies", use_cases::LIST_STUDIES, ListStudiesRequest.parent, studies::list)
            .http("GET /v1/{parent=projects/*/locations/*}/studies"),
        method!("DeleteStudy", use_cases::DELETE_STUDY, DeleteStudyRequest.name, studies::delete)
            .http("DELETE /v1/{name=projects/*/locations/*/studies/*}"),
        method!("LookupStudy", use_cases::LOOKUP_STUDY, LookupStudyRequest.parent, studies::lookup)
            .http("POST /v1/{parent=projects/*/locations/*}/studies:lookup *"),
        method!("SuggestTrials", use_cases::SUGGEST_TRIALS, SuggestTrialsRequest.parent, trials::suggest)
            .http("POST /v1/{parent=projects/*/locations/*/studies/*}/trials:suggest *"),
        method!("CreateTrial", use_cases::CREATE_TRIAL, CreateTrialRequest.parent, trials::create)
            .http("POST /v1/{parent=projects/*/locations/*/studies/*}/trials trial"),
        method!("GetTrial", use_cases::GET_TRIAL, GetTrialRequest.name, trials::get)
            .http("GET /v1/{name=projects/*/locations/*/studies/*/trials/*}"),
        method!("ListTrials", use_cases::LIST_TRIALS, ListTrialsRequest.parent, trials::list)
            .http("GET /v1/{parent=projects/*/locations/*/studies/*}/trials"),
        method!(
            "AddTrialMeasurement",
            use_cases::ADD_MEASUREMENT,
            AddTrialMeasurementRequest.trial_name,
            trials::add_measurement
        )
        .http("POST /v1/{trial_name=projects/*/locations/*/studies/*/trials/*}:addTrialMeasurement *"),
        method!("CompleteTrial", use_cases::COMPLETE_TRIAL, CompleteTrialRequest.name, trials::complete)
            .http("POST /v1/{name=projects/*/locations/*/studies/*/trials/*}:complete *"),
        method!("DeleteTrial", use_cases::DELETE_TRIAL, DeleteTrialRequest.name, trials::delete)
            .http("DELETE /v1/{name=projects/*/locations/*/studies/*/trials/*}"),
        method!(
            "CheckTrialEarlyStoppingState",
            use_cases::CHECK_EARLY_STOPPING,
            CheckTrialEarlyStoppingStateRequest.trial_name,
            trials::check_early_stopping
        )
        .http("POST /v1/{trial_name=projects/*/locations/*/studies/*/trials/*}:checkTrialEarlyStoppingState *"),
        method!("StopTrial", use_cases::STOP_TRIAL, StopTrialRequest.name, trials::stop)
            .http("POST /v1/{name=projects/*/locations/*/studies/*/trials/*}:stop *"),
        method!(
            "ListOptimalTrials",
            use_cases::LIST_OPTIMAL_TRIALS,
            ListOptimalTrialsRequest.parent,
            trials::list_optimal
        )
        .http("POST /v1/{parent=projects/*/locations/*/studies/*}/trials:listOptimalTrials *"),
    ]
}
