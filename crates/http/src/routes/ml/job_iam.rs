//! `getIamPolicy`, `setIamPolicy` and `testIamPermissions` of a job. Its policy grants roles on this job to principals
//! that lack them in the project.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::openapi::Operation;
use crate::openapi::examples;
use crate::request::body::Body;
use crate::request::names::{Names, job_id};
use crate::request::query::Query;
use crate::response::error::{ApiError, Code};
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_access::{Caller, Permission};
use tunesmith_admission::{Admission, allows, use_cases};
use tunesmith_api::ai_platform::iam::{
    IamPolicy, SetIamPolicyRequest, TestIamPermissionsRequest, TestIamPermissionsResponse, check_version,
};
use tunesmith_api::ai_platform::proto_json;
use tunesmith_domain::{Document, Job, JobChange, TransitionError};
use tunesmith_jobs::JobsError;
use tunesmith_store::StoreError;

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    routes
        .add(
            Operation::get("/v1/projects/{project}/jobs/{job}:getIamPolicy", use_cases::GET_JOB_POLICY).or_not_found(),
            get,
        )
        .add(
            Operation::post("/v1/projects/{project}/jobs/{job}:setIamPolicy", use_cases::SET_JOB_POLICY)
                .example(examples::POLICY)
                .or_not_found()
                .or_conflict(),
            set,
        )
        .add(
            Operation::post("/v1/projects/{project}/jobs/{job}:testIamPermissions", use_cases::TEST_JOB_PERMISSIONS)
                .example(examples::PERMISSIONS),
            test,
        )
}

/// The requested version of a policy.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct GetQuery {
    /// Version of the format: 0, 1 or 3.
    #[serde(rename = "options.requestedPolicyVersion")]
    #[schemars(extend("enum" = [0, 1, 3]))]
    pub(super) requested_policy_version: i32,
}

async fn get(
    State(api): State<Arc<Api>>,
    Names([project, id]): Names<2>,
    Query(query): Query<GetQuery>,
) -> Result<Json<IamPolicy>, ApiError> {
    check_version("options.requestedPolicyVersion", query.requested_policy_version)?;
    stored(&api.jobs.report(&job_id(&project, &id)?).await?.job).map(Json)
}

fn stored(job: &Job) -> Result<IamPolicy, ApiError> {
    stored_policy(&job.policy, job.id.as_str())
}

/// Stored policy of `resource`; empty if none was set.
pub(super) fn stored_policy(policy: &Document, resource: &str) -> Result<IamPolicy, ApiError> {
    if policy.is_null() {
        return Ok(IamPolicy::default());
    }
    IamPolicy::deserialize(policy).map_err(|error| {
        tracing::error!(resource, %error, "a stored policy cannot be read");
        ApiError::new(Code::Internal, format!("the policy of {resource} cannot be read; see the server's log"))
    })
}

/// Whether the client has read another policy than `stored`.
pub(super) fn is_outdated(policy: &IamPolicy, stored: &IamPolicy) -> Result<bool, ApiError> {
    let bytes = |etag: &str| proto_json::bytes(etag).ok_or_else(|| ApiError::invalid("policy.etag", "is not base64"));
    Ok(!policy.etag.is_empty() && bytes(&policy.etag)? != bytes(&stored.etag)?)
}

/// `policy` with the etag that it gets on a resource with `revision`, and its stored form.
pub(super) fn new_policy(policy: &IamPolicy, revision: u64) -> Result<(IamPolicy, Document), ApiError> {
    let policy = IamPolicy { etag: STANDARD.encode((revision + 1).to_be_bytes()), ..policy.clone() };
    let document = serde_json::to_value(&policy)
        .map_err(|error| ApiError::invalid("policy", format!("cannot be stored: {error}")))?;
    Ok((policy, document))
}

async fn set(
    State(api): State<Arc<Api>>,
    Names([project, id]): Names<2>,
    Body(request): Body<SetIamPolicyRequest>,
) -> Result<Json<IamPolicy>, ApiError> {
    let id = job_id(&project, &id)?;
    let policy = request.into_policy()?;
    loop {
        let job = api.jobs.job(&id).await?;
        if is_outdated(&policy, &stored(&job)?)? {
            let resource = format!("the policy of job {id}");
            return Err(StoreError::Refused(TransitionError::Outdated { resource }).into());
        }
        let (policy, document) = new_policy(&policy, job.revision)?;
        // Applies only to the revision read; after a concurrent change, the etag is compared again.
        match api.jobs.change(&id, JobChange::SetPolicy { policy: document, revision: job.revision }).await {
            Err(JobsError::Store(StoreError::Refused(TransitionError::Outdated { .. }))) => {}
            changed => return changed.map(|_| Json(policy)).map_err(Into::into),
        }
    }
}

/// Tests which permissions the caller has; none if the job does not exist.
async fn test(
    State(api): State<Arc<Api>>,
    Extension(admission): Extension<Admission>,
    Names([project, id]): Names<2>,
    Body(request): Body<TestIamPermissionsRequest>,
) -> Result<Json<TestIamPermissionsResponse>, ApiError> {
    let id = job_id(&project, &id)?;
    let job = match api.jobs.job(&id).await {
        Ok(job) => job,
        Err(JobsError::Store(StoreError::NotFound { .. })) => return Ok(Json(TestIamPermissionsResponse::default())),
        Err(error) => return Err(error.into()),
    };
    Ok(Json(TestIamPermissionsResponse {
        permissions: may(&admission, id.parts().0, &job.policy, request.permissions)?,
    }))
}

/// The permissions among `tested` that the caller has in `project`, or by the `policy` of a resource.
pub(super) fn may(
    admission: &Admission,
    project: &str,
    policy: &Document,
    tested: Vec<String>,
) -> Result<Vec<String>, ApiError> {
    if let Some(index) = tested.iter().position(|permission| permission.contains('*')) {
        return Err(ApiError::invalid(&format!("permissions[{index}]"), "wildcards are not allowed"));
    }
    let caller = admission.caller();
    let has = |name: &String| match Permission::named(name) {
        Some(permission) => caller.may(permission, project) || allows(policy, caller.principal(), permission),
        // Only the unrestricted caller has permissions unknown to this server.
        None => *caller == Caller::Anonymous,
    };
    Ok(tested.into_iter().filter(has).collect())
}
