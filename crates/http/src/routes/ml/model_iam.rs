//! `getIamPolicy`, `setIamPolicy` and `testIamPermissions` of a model. Its policy grants roles on this model and its
//! versions to principals that lack them in the project.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};

use super::job_iam::{GetQuery, is_outdated, may, new_policy, stored_policy};
use crate::openapi::Operation;
use crate::openapi::examples;
use crate::request::body::Body;
use crate::request::names::{self, Names};
use crate::request::query::Query;
use crate::response::error::{ApiError, Code};
use crate::routes::state::Api;
use crate::routes::table::Routes;
use tunesmith_admission::{Admission, use_cases};
use tunesmith_api::ai_platform::iam::{
    IamPolicy, SetIamPolicyRequest, TestIamPermissionsRequest, TestIamPermissionsResponse, check_version,
};
use tunesmith_prediction::check_name;

pub(crate) fn routes(routes: Routes<Arc<Api>>) -> Routes<Arc<Api>> {
    routes
        .add(
            Operation::get("/v1/projects/{project}/models/{model}:getIamPolicy", use_cases::GET_MODEL_POLICY)
                .or_not_found(),
            get,
        )
        .add(
            Operation::post("/v1/projects/{project}/models/{model}:setIamPolicy", use_cases::SET_MODEL_POLICY)
                .example(examples::MODEL_POLICY)
                .or_not_found()
                .or_conflict(),
            set,
        )
        .add(
            Operation::post(
                "/v1/projects/{project}/models/{model}:testIamPermissions",
                use_cases::TEST_MODEL_PERMISSIONS,
            )
            .example(examples::MODEL_PERMISSIONS),
            test,
        )
}

async fn get(
    State(api): State<Arc<Api>>,
    Names([project, name]): Names<2>,
    Query(query): Query<GetQuery>,
) -> Result<Json<IamPolicy>, ApiError> {
    check_version("options.requestedPolicyVersion", query.requested_policy_version)?;
    let model = api.models.model(&project, &name).await?;
    stored_policy(&model.policy, &model.resource_name()).map(Json)
}

async fn set(
    State(api): State<Arc<Api>>,
    Names([project, name]): Names<2>,
    Body(request): Body<SetIamPolicyRequest>,
) -> Result<Json<IamPolicy>, ApiError> {
    let policy = request.into_policy()?;
    loop {
        let model = api.models.model(&project, &name).await?;
        let stored = stored_policy(&model.policy, &model.resource_name())?;
        if is_outdated(&policy, &stored)? {
            let text = format!("the policy of model {} was changed meanwhile: read it again", model.resource_name());
            return Err(ApiError::new(Code::Aborted, text));
        }
        let (policy, document) = new_policy(&policy, model.revision)?;
        // Applies only to the revision read; after a concurrent change, the etag is compared again.
        match api.models.set_policy(&project, &name, &document, model.revision).await {
            Err(refusal) if refusal.code == Code::Aborted => {}
            set => return set.map(|()| Json(policy)).map_err(Into::into),
        }
    }
}

/// Tests which permissions the caller has; none if the model does not exist.
async fn test(
    State(api): State<Arc<Api>>,
    Extension(admission): Extension<Admission>,
    Names([project, name]): Names<2>,
    Body(request): Body<TestIamPermissionsRequest>,
) -> Result<Json<TestIamPermissionsResponse>, ApiError> {
    names::project(&project)?;
    check_name("name", &name)?;
    let policy = match api.models.model(&project, &name).await {
        Ok(model) => model.policy,
        Err(refusal) if refusal.code == Code::NotFound => return Ok(Json(TestIamPermissionsResponse::default())),
        Err(refusal) => return Err(refusal.into()),
    };
    Ok(Json(TestIamPermissionsResponse { permissions: may(&admission, &project, &policy, request.permissions)? }))
}
