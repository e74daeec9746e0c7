//! Table of the tools of agents: a tool calls use cases, under a name of its own in audit records.

use super::call::CalledAs;
use super::use_cases::{
    ADD_JOB_TRIAL, ADD_MEASUREMENT, CANCEL_JOB, COMPLETE_TRIAL, CREATE_JOB, CREATE_STUDY, CREATE_TRIAL, GET_JOB,
    GET_JOB_LOG, GET_OPERATION, GET_PACKAGE, GET_STUDY, LIST_JOB_LOGS, LIST_JOBS, LIST_STUDIES, LIST_TRIALS, PATCH_JOB,
    RETRY_JOB, STOP_JOB_TRIAL, STOP_TRIAL, SUGGEST_TRIALS, UPLOAD_PACKAGE, UseCase, VIEW_IMPORTANCE, VIEW_RECOMMENDED,
    VIEW_TABLE, VIEW_TRUST,
};

/// Header of a request that a tool sends over HTTP, with the name of the tool.
pub const TOOL_HEADER: &str = "tunesmith-tool";

/// Names of tools, with the use cases that each calls. A tool without any only needs a valid token.
pub const TOOLS: &[(&str, &[UseCase])] = &[
    ("mcp.propose_config", &[]),
    ("mcp.validate_config", &[]),
    ("mcp.upload_package", &[GET_PACKAGE, UPLOAD_PACKAGE]),
    ("mcp.submit_job", &[CREATE_JOB]),
    ("mcp.extend_job", &[PATCH_JOB, VIEW_TABLE, VIEW_RECOMMENDED]),
    ("mcp.cancel_job", &[CANCEL_JOB, GET_JOB]),
    ("mcp.retry_job", &[RETRY_JOB]),
    ("mcp.list_jobs", &[LIST_JOBS]),
    ("mcp.get_job", &[GET_JOB, VIEW_TABLE, VIEW_RECOMMENDED]),
    ("mcp.wait_for_job", &[GET_JOB, VIEW_TABLE]),
    ("mcp.list_trials", &[VIEW_TABLE]),
    ("mcp.get_trial", &[VIEW_TABLE, LIST_TRIALS]),
    ("mcp.why_waiting", &[GET_JOB]),
    ("mcp.why_failed", &[GET_JOB, VIEW_TABLE, LIST_JOB_LOGS, GET_JOB_LOG]),
    ("mcp.read_logs", &[LIST_JOB_LOGS, GET_JOB_LOG]),
    ("mcp.explain", &[VIEW_IMPORTANCE, VIEW_RECOMMENDED, VIEW_TRUST, VIEW_TABLE]),
    ("mcp.compare", &[GET_STUDY, VIEW_TABLE]),
    ("mcp.propose_trials", &[GET_STUDY, ADD_JOB_TRIAL, CREATE_TRIAL]),
    ("mcp.stop_trial", &[STOP_JOB_TRIAL, STOP_TRIAL]),
    ("mcp.list_studies", &[LIST_STUDIES]),
    ("mcp.create_study", &[CREATE_STUDY]),
    ("mcp.suggest_trials", &[SUGGEST_TRIALS, GET_OPERATION]),
    ("mcp.report_measurement", &[ADD_MEASUREMENT]),
    ("mcp.complete_trial", &[COMPLETE_TRIAL]),
];

/// Use cases of the tool `name`; `None` if there is no such tool.
pub fn use_cases_of(name: &str) -> Option<&'static [UseCase]> {
    TOOLS.iter().find(|(known, _)| *known == name).map(|(_, use_cases)| *use_cases)
}

/// Name of a call of `use_case` by a client that claims to be the tool `name`; `None` if that tool makes no such call.
pub fn called_as(name: &str, use_case: UseCase) -> Option<CalledAs> {
    let (name, use_cases) = TOOLS.iter().find(|(known, _)| *known == name)?;
    use_cases.contains(&use_case).then_some(CalledAs(name))
}
