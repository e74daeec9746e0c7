//! Requests about models and their versions.

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::Value;
use tunesmith_api::ai_platform::prediction::{ModelMessage, ModelOperation, VersionMessage};

use super::error::Refusal;
use super::transport::{Payload, Request, Response};
use super::{Client, ClientError, Resource};

/// Page of models.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ModelPage {
    models: Vec<Resource<ModelMessage>>,
    next_page_token: String,
}

/// Page of versions.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VersionPage {
    versions: Vec<Resource<VersionMessage>>,
    next_page_token: String,
}

/// # Errors
/// [`ClientError`] for every request.
impl Client {
    pub async fn create_model(&self, model: &Value) -> Result<Resource<ModelMessage>, ClientError> {
        self.post(&self.path(&["models"]), &[], model).await
    }

    pub async fn model(&self, name: &str) -> Result<Resource<ModelMessage>, ClientError> {
        self.get(&self.path(&["models", name]), &[]).await
    }

    /// All models that match `filter`, by name.
    pub async fn models(&self, filter: &str) -> Result<Vec<Resource<ModelMessage>>, ClientError> {
        let (mut models, mut token) = (Vec::new(), String::new());
        loop {
            let query = [("filter", filter), ("pageSize", "100"), ("pageToken", &token)];
            let page: ModelPage = self.get(&self.path(&["models"]), &query).await?;
            models.extend(page.models);
            token = page.next_page_token;
            if token.is_empty() {
                return Ok(models);
            }
        }
    }

    pub async fn delete_model(&self, name: &str) -> Result<Value, ClientError> {
        self.delete(&self.path(&["models", name])).await
    }

    /// Starts the creation of a version.
    pub async fn create_version(&self, model: &str, version: &Value) -> Result<Resource<ModelOperation>, ClientError> {
        self.post(&self.path(&["models", model, "versions"]), &[], version).await
    }

    pub async fn version(&self, model: &str, version: &str) -> Result<Resource<VersionMessage>, ClientError> {
        self.get(&self.path(&["models", model, "versions", version]), &[]).await
    }

    /// All versions of a model that match `filter`, by name.
    pub async fn versions(&self, model: &str, filter: &str) -> Result<Vec<Resource<VersionMessage>>, ClientError> {
        let (mut versions, mut token) = (Vec::new(), String::new());
        loop {
            let query = [("filter", filter), ("pageSize", "100"), ("pageToken", &token)];
            let page: VersionPage = self.get(&self.path(&["models", model, "versions"]), &query).await?;
            versions.extend(page.versions);
            token = page.next_page_token;
            if token.is_empty() {
                return Ok(versions);
            }
        }
    }

    pub async fn delete_version(&self, model: &str, version: &str) -> Result<Value, ClientError> {
        self.delete(&self.path(&["models", model, "versions", version])).await
    }

    pub async fn set_default_version(
        &self,
        model: &str,
        version: &str,
    ) -> Result<Resource<VersionMessage>, ClientError> {
        let path = format!("{}:setDefault", self.path(&["models", model, "versions", version]));
        self.post(&path, &[], &serde_json::json!({})).await
    }

    /// An operation by its ID within the project.
    pub async fn operation(&self, id: &str) -> Result<Resource<ModelOperation>, ClientError> {
        self.get(&self.path(&["operations", id]), &[]).await
    }

    /// Predicts with a model or one of its versions. Returns the response as it is.
    pub async fn predict(&self, model: &str, version: Option<&str>, body: Vec<u8>) -> Result<Bytes, ClientError> {
        let name = match version {
            Some(version) => self.path(&["models", model, "versions", version]),
            None => self.path(&["models", model]),
        };
        let target = format!("{name}:predict");
        let request = Request { method: Method::POST, target, payload: Payload::Json(body), is_repeated: false };
        let Response { status, request_id, body } = self.transport.send(request).await?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        Err(Refusal::error(&self.address(), status, request_id, &body))
    }
}
