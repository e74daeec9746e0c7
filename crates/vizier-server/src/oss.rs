//! `vizier.VizierService`, the service of OSS Vizier.

mod metadata;
mod studies;
mod trials;

use tunesmith_admission::use_cases;
use tunesmith_domain::Refusal;
use tunesmith_vizier::messages::longrunning::{GetOperationRequest, Operation};
use tunesmith_vizier::messages::oss::*;

use crate::method::Method;
use crate::operations::{self, Protocol};
use crate::services::{Context, Reply};

pub(crate) fn methods() -> Vec<Method> {
    macro_rules! method {
        ($name:literal, $use_case:expr, $request:ident.$field:ident, $handler:path) => {
            Method::new(
                concat!("vizier.VizierService.", $name),
                $use_case,
                |request: &$request| &request.$field,
                $handler,
            )
        };
    }
    vec![
        method!("CreateStudy", use_cases::CREATE_STUDY, CreateStudyRequest.parent, studies::create),
        method!("GetStudy", use_cases::GET_STUDY, GetStudyRequest.name, studies::get),
        method!("ListStudies", use_cases::LIST_STUDIES, ListStudiesRequest.parent, studies::list),
        method!("DeleteStudy", use_cases::DELETE_STUDY, DeleteStudyRequest.name, studies::delete),
        method!("SetStudyState", use_cases::SET_STUDY_STATE, SetStudyStateRequest.parent, studies::set_state),
        method!("SuggestTrials", use_cases::SUGGEST_TRIALS, SuggestTrialsRequest.parent, trials::suggest),
        method!("GetOperation", use_cases::GET_OPERATION, GetOperationRequest.name, get_operation),
        method!("CreateTrial", use_cases::CREATE_TRIAL, CreateTrialRequest.parent, trials::create),
        method!("GetTrial", use_cases::GET_TRIAL, GetTrialRequest.name, trials::get),
        method!("ListTrials", use_cases::LIST_TRIALS, ListTrialsRequest.parent, trials::list),
        method!(
            "AddTrialMeasurement",
            use_cases::ADD_MEASUREMENT,
            AddTrialMeasurementRequest.trial_name,
            trials::add_measurement
        ),
        method!("CompleteTrial", use_cases::COMPLETE_TRIAL, CompleteTrialRequest.name, trials::complete),
        method!("DeleteTrial", use_cases::DELETE_TRIAL, DeleteTrialRequest.name, trials::delete),
        method!(
            "CheckTrialEarlyStoppingState",
            use_cases::CHECK_EARLY_STOPPING,
            CheckTrialEarlyStoppingStateRequest.trial_name,
            trials::check_early_stopping
        ),
        method!("StopTrial", use_cases::STOP_TRIAL, StopTrialRequest.name, trials::stop),
        method!(
            "ListOptimalTrials",
            use_cases::LIST_OPTIMAL_TRIALS,
            ListOptimalTrialsRequest.parent,
            trials::list_optimal
        ),
        method!("UpdateMetadata", use_cases::UPDATE_METADATA, UpdateMetadataRequest.name, metadata::update),
    ]
}

async fn get_operation(context: Context, request: GetOperationRequest) -> Result<Reply<Operation>, Refusal> {
    Ok(operations::read(&context, Protocol::OssVizier, &request.name).await?.into())
}
