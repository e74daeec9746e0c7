//! Study and trial requests.

use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tunesmith_api::ai_platform::optimizer::{
    AddMeasurementRequest, CompleteTrialRequest, MeasurementMessage, Operation, StudyMessage, StudyRequest,
    SuggestTrialsRequest, TrialMessage, TrialRequest,
};

use super::transport::Payload;
use super::{Client, ClientError, Resource};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StudyPage {
    studies: Vec<Resource<StudyMessage>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Trials {
    pub trials: Vec<Resource<TrialMessage>>,
}

/// Response of the recommended trial view.
#[derive(Deserialize)]
struct RecommendedAnswer {
    view: RecommendedView,
}

#[derive(Deserialize)]
struct RecommendedView {
    recommended: Option<Resource<Prediction>>,
}

/// Trial recommended by a model of the results.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Prediction {
    pub trial: Option<u64>,
}

/// A client for one study.
#[derive(Clone)]
pub struct StudyClient {
    client: Client,
    location: String,
    study: String,
}

/// # Errors
/// [`ClientError`] for every request.
impl Client {
    /// Returns a client for the study `study` at `location`.
    pub fn study(&self, location: &str, study: &str) -> StudyClient {
        StudyClient { client: self.clone(), location: location.to_owned(), study: study.to_owned() }
    }

    /// Creates the study `id` at `location` from the user's JSON.
    pub async fn create_study(
        &self,
        location: &str,
        id: &str,
        request: &Value,
    ) -> Result<Resource<StudyMessage>, ClientError> {
        self.post(&self.path(&["locations", location, "studies"]), &[("studyId", id)], request).await
    }

    /// Lists the studies at `location` matching `filter`; `-` stands for all locations.
    pub async fn studies(&self, location: &str, filter: &str) -> Result<Vec<Resource<StudyMessage>>, ClientError> {
        let page: StudyPage = self.get(&self.path(&["locations", location, "studies"]), &[("filter", filter)]).await?;
        Ok(page.studies)
    }
}

/// # Errors
/// [`ClientError`] for every request.
impl StudyClient {
    fn path(&self, more: &[&str]) -> String {
        let segments = ["locations", &self.location, "studies", &self.study];
        self.client.path(&[&segments[..], more].concat())
    }

    async fn call<T: DeserializeOwned>(
        &self,
        trial: &str,
        method: &str,
        message: &impl serde::Serialize,
    ) -> Result<T, ClientError> {
        self.client.post(&format!("{}:{method}", self.path(&["trials", trial])), &[], message).await
    }

    pub async fn get(&self) -> Result<Resource<StudyMessage>, ClientError> {
        self.client.get(&self.path(&[]), &[]).await
    }

    /// Updates the fields `mask` of the study from `change`.
    pub async fn update(&self, mask: &str, change: &StudyRequest) -> Result<Resource<StudyMessage>, ClientError> {
        self.client.patch(&self.path(&[]), mask, change).await
    }

    /// Deletes the study and its trials.
    pub async fn delete(&self) -> Result<Value, ClientError> {
        self.client.delete(&self.path(&[])).await
    }

    /// Lists the trials matching `filter`; all if empty.
    pub async fn trials(&self, filter: &str) -> Result<Resource<Trials>, ClientError> {
        let query = [("filter", filter)];
        let query = if filter.is_empty() { &[] } else { &query[..] };
        self.client.get(&self.path(&["trials"]), query).await
    }

    /// Lists the best trial, or the Pareto-optimal ones with several metrics.
    pub async fn optimal_trials(&self) -> Result<Resource<Trials>, ClientError> {
        self.client.post(&format!("{}:listOptimalTrials", self.path(&["trials"])), &[], &json!({})).await
    }

    pub async fn trial(&self, trial: &str) -> Result<Resource<TrialMessage>, ClientError> {
        self.client.get(&self.path(&["trials", trial]), &[]).await
    }

    pub async fn create_trial(&self, trial: &TrialRequest) -> Result<Resource<TrialMessage>, ClientError> {
        self.client.post(&self.path(&["trials"]), &[], trial).await
    }

    /// Requests trials; the returned operation may still be running.
    pub async fn suggest(&self, request: &SuggestTrialsRequest) -> Result<Resource<Operation>, ClientError> {
        self.client.post(&format!("{}:suggest", self.path(&["trials"])), &[], request).await
    }

    pub async fn operation(&self, name: &str) -> Result<Resource<Operation>, ClientError> {
        self.client.send(Method::GET, &format!("/v1/{name}"), &[], Payload::None).await
    }

    /// Adds an intermediate measurement to `trial`.
    pub async fn add_measurement(
        &self,
        trial: &str,
        measurement: MeasurementMessage,
    ) -> Result<Resource<TrialMessage>, ClientError> {
        self.call(trial, "addMeasurement", &AddMeasurementRequest { measurement: Some(measurement) }).await
    }

    pub async fn complete(
        &self,
        trial: &str,
        outcome: &CompleteTrialRequest,
    ) -> Result<Resource<TrialMessage>, ClientError> {
        self.call(trial, "complete", outcome).await
    }

    /// Asks the client of `trial` to stop it.
    pub async fn stop(&self, trial: &str) -> Result<Resource<TrialMessage>, ClientError> {
        self.call(trial, "stop", &json!({})).await
    }

    pub async fn delete_trial(&self, trial: &str) -> Result<Value, ClientError> {
        self.client.delete(&self.path(&["trials", trial])).await
    }

    /// Reads the view `name` of the study's trials, as `T`.
    pub async fn view<T: DeserializeOwned>(&self, name: &str, query: &[(&str, &str)]) -> Result<T, ClientError> {
        self.client.get(&self.path(&["views", name]), query).await
    }

    /// Reads the trial recommended by a model; `None` with too few results or on a server without this view.
    pub async fn recommended(&self) -> Result<Option<Resource<Prediction>>, ClientError> {
        match self.view::<RecommendedAnswer>("recommended", &[]).await {
            Ok(answer) => Ok(answer.view.recommended),
            Err(error) if error.has_code("FAILED_PRECONDITION") || error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
