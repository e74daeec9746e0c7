//! `getIamPolicy`, `setIamPolicy` and `testIamPermissions` of a job. A job's policy grants roles on this job to
//! principals that lack them in its project.

use axum::Json;
use axum::extract::{Extension, State};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;

use super::body::Body;
use super::examples;
use super::job_policy::allows;
use super::names::{Names, job_id};
use super::openapi::Operation;
use super::query::Query;
use super::routes::Routes;
use super::state::JobsState;
use super::status::{ApiError, Code};
use tunesmith_access::{Caller, Permission};
use tunesmith_api::ai_platform::iam::{
    IamPolicy, SetIamPolicyRequest, TestIamPermissionsRequest, TestIamPermissionsResponse,
};
use tunesmith_api::ai_platform::proto_json;
use tunesmith_domain::{Job, JobChange, TransitionError};
use tunesmith_service::jobs::JobsError;
use tunesmith_store::StoreError;

/// Maximum number of members of a policy.
const MAX_MEMBERS: usize = 1500;
/// Maximum number of groups among them.
const MAX_GROUPS: usize = 250;

/// Adds the routes of policies to `routes`.
pub(super) fn routes(routes: Routes<JobsState>) -> Routes<JobsState> {
    routes
        .add(
            Operation::get(
                "/v1/projects/{project}/jobs/{job}:getIamPolicy",
                "ml.projects.jobs.getIamPolicy",
                "Gets a job's IAM policy; an empty one if none was set.",
            )
            .permission(Permission::JobsGetIamPolicy)
            .or_not_found(),
            get,
        )
        .add(
            Operation::post(
                "/v1/projects/{project}/jobs/{job}:setIamPolicy",
                "ml.projects.jobs.setIamPolicy",
                "Sets a job's IAM policy.",
            )
            .permission(Permission::JobsSetIamPolicy)
            .example(examples::POLICY)
            .or_not_found()
            .or_conflict(),
            set,
        )
        .add(
            Operation::post(
                "/v1/projects/{project}/jobs/{job}:testIamPermissions",
                "ml.projects.jobs.testIamPermissions",
                "Gets the tested permissions that the caller has on a job; none if the job does not exist.",
            )
            .only_reads()
            .example(examples::PERMISSIONS),
            test,
        )
}

/// The requested version of a policy.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct GetQuery {
    /// Version of the format: 0, 1 or 3.
    #[serde(rename = "options.requestedPolicyVersion")]
    #[schemars(extend("enum" = [0, 1, 3]))]
    requested_policy_version: i32,
}

async fn get(
    State(api): State<JobsState>,
    Names([project, id]): Names<2>,
    Query(query): Query<GetQuery>,
) -> Result<Json<IamPolicy>, ApiError> {
    let version = query.requested_policy_version;
    if !matches!(version, 0 | 1 | 3) {
        return Err(ApiError::invalid("options.requestedPolicyVersion", format!("{version} is not 0, 1 or 3")));
    }
    stored(&api.jobs.report(&job_id(&project, &id)?).await?.job).map(Json)
}

/// The stored policy; an empty one if none was set.
fn stored(job: &Job) -> Result<IamPolicy, ApiError> {
    if job.policy.is_null() {
        return Ok(IamPolicy::default());
    }
    IamPolicy::deserialize(&job.policy).map_err(|error| {
        tracing::error!(job.id = %job.id, %error, "a stored policy cannot be read");
        ApiError::new(Code::Internal, "the job's policy cannot be read; see the server's log")
    })
}

async fn set(
    State(api): State<JobsState>,
    Names([project, id]): Names<2>,
    Body(request): Body<SetIamPolicyRequest>,
) -> Result<Json<IamPolicy>, ApiError> {
    let id = job_id(&project, &id)?;
    let policy = request.policy.ok_or_else(|| ApiError::invalid("policy", "is required"))?;
    if !matches!(policy.version, 0 | 1 | 3) {
        return Err(ApiError::invalid("policy.version", format!("{} is not 0, 1 or 3", policy.version)));
    }
    check_update_mask(&request.update_mask)?;
    if !policy.audit_configs.is_empty() {
        let text =
            "is not supported: the audit logs of this server record every change, and reads with --data-access-log";
        return Err(ApiError::invalid("policy.auditConfigs", text));
    }
    for (index, binding) in policy.bindings.iter().enumerate() {
        let field = |name: &str| format!("policy.bindings[{index}].{name}");
        if binding.role.is_empty() {
            return Err(ApiError::invalid(&field("role"), "is required"));
        }
        if binding.members.is_empty() {
            return Err(ApiError::invalid(&field("members"), "at least one member is needed"));
        }
        if binding.condition.is_some() {
            let text =
                "is not supported: conditions are not evaluated; grant the role without a condition, or not at all";
            return Err(ApiError::invalid(&field("condition"), text));
        }
    }
    if policy.bindings.iter().map(|binding| binding.members.len()).sum::<usize>() > MAX_MEMBERS {
        return Err(ApiError::invalid("policy.bindings", format!("more than {MAX_MEMBERS} members")));
    }
    let members = policy.bindings.iter().flat_map(|binding| &binding.members);
    if members.filter(|member| member.starts_with("group:")).count() > MAX_GROUPS {
        return Err(ApiError::invalid("policy.bindings", format!("more than {MAX_GROUPS} groups")));
    }
    let bytes = |text: &str| proto_json::bytes(text).ok_or_else(|| ApiError::invalid("policy.etag", "is not base64"));
    loop {
        let job = api.jobs.job(&id).await?;
        if !policy.etag.is_empty() && bytes(&policy.etag)? != bytes(&stored(&job)?.etag)? {
            let resource = format!("the policy of job {id}");
            return Err(StoreError::Refused(TransitionError::Outdated { resource }).into());
        }
        let etag = STANDARD.encode((job.revision + 1).to_be_bytes());
        let policy = IamPolicy { etag, ..policy.clone() };
        let document = serde_json::to_value(&policy)
            .map_err(|error| ApiError::invalid("policy", format!("cannot be stored: {error}")))?;
        // Applied only to the job as it was read; after another change, the etag is compared again.
        match api.jobs.change(&id, JobChange::SetPolicy { policy: document, revision: job.revision }).await {
            Err(JobsError::Store(StoreError::Refused(TransitionError::Outdated { .. }))) => {}
            changed => return changed.map(|_| Json(policy)).map_err(Into::into),
        }
    }
}

/// Checks the fields to set: `bindings`, and `etag` and `version`, which go with them.
fn check_update_mask(mask: &str) -> Result<(), ApiError> {
    let fields: Vec<&str> = mask.split(',').map(str::trim).filter(|field| !field.is_empty()).collect();
    if let Some(other) = fields.iter().find(|field| !matches!(**field, "bindings" | "etag" | "version")) {
        let text = format!("{other:?} cannot be set; bindings, etag and version can");
        return Err(ApiError::invalid("updateMask", text));
    }
    if !fields.is_empty() && !fields.contains(&"bindings") {
        return Err(ApiError::invalid("updateMask", "must contain bindings, the default"));
    }
    Ok(())
}

/// The tested permissions that the caller has; none if the job does not exist.
async fn test(
    State(api): State<JobsState>,
    Extension(caller): Extension<Caller>,
    Names([project, id]): Names<2>,
    Body(request): Body<TestIamPermissionsRequest>,
) -> Result<Json<TestIamPermissionsResponse>, ApiError> {
    let id = job_id(&project, &id)?;
    if let Some(index) = request.permissions.iter().position(|permission| permission.contains('*')) {
        return Err(ApiError::invalid(&format!("permissions[{index}]"), "wildcards are not allowed"));
    }
    let job = match api.jobs.job(&id).await {
        Ok(job) => job,
        Err(JobsError::Store(StoreError::NotFound { .. })) => return Ok(Json(TestIamPermissionsResponse::default())),
        Err(error) => return Err(error.into()),
    };
    let has = |name: &String| match Permission::named(name) {
        Some(permission) => caller.may(permission, id.parts().0) || allows(&job.policy, caller.principal(), permission),
        // Only the unrestricted caller has permissions that this server does not define.
        None => caller == Caller::Anonymous,
    };
    Ok(Json(TestIamPermissionsResponse { permissions: request.permissions.into_iter().filter(has).collect() }))
}
