//! Loads jobs and studies with their trials for display and analysis, from a data folder or a server.

use anyhow::Context;
use futures::TryStreamExt;

use super::target::Service;
use crate::cli::results::{Results, shell_word};
use crate::cli::study_view::StudyView;
use tunesmith_api::ai_platform::TrainingInput;
use tunesmith_api::ai_platform::job::JobResource;
use tunesmith_api::ai_platform::proto_json::known;
use tunesmith_client::{Resource, StudyClient};
use tunesmith_domain::{JobId, StudyId};
use tunesmith_store::pages;
use tunesmith_views::{SourceStudies, SourceStudy};

pub(super) async fn job_results(service: &Service, job: &Resource<JobResource>) -> anyhow::Result<Results> {
    let id = JobId::new(service.project(), &job.job_id)?;
    if let Some(folder) = service.folder() {
        let store = folder.store();
        return Ok(Results::read(store, &store.job(&id).await?, folder.job_directory(&id)).await?);
    }
    let input: TrainingInput = known(job.training_input.clone()).with_context(|| foreign(service, "job", &id))?;
    let study = match job.training_output().is_hyperparameter_tuning_job {
        true => {
            let study = service.study(StudyId::JOBS_LOCATION, &job.job_id);
            Some(study_of_server(&study, Some(&input)).await?.with_context(|| foreign(service, "job", &id))?)
        }
        false => None,
    };
    let logs = format!("tunesmith jobs stream-logs {id} --server {}", shell_word(&service.address()));
    Ok(Results::of_response(id, job.message.clone(), &input, study, logs))
}

pub(super) async fn study_view(service: &Service, location: &str, study: &str) -> anyhow::Result<StudyView> {
    let client = service.study(location, study);
    if let Some(folder) = service.folder() {
        client.get().await?;
        let (store, id) = (folder.store(), StudyId::new(service.project(), location, study)?);
        let trials: Vec<_> = pages::trials(store, &id).try_collect().await?;
        return Ok(StudyView::of_store(&store.study(&id).await?, &trials));
    }
    study_of_server(&client, None).await?.with_context(|| foreign(service, "study", &study))
}

pub(super) async fn source_studies(study: &StudyClient) -> anyhow::Result<Vec<SourceStudy>> {
    Ok(study.view::<SourceStudies>("sourceStudies", &[]).await?.sources)
}

/// Reads a study from a server. The inner result is an error if this version cannot decode the study.
async fn study_of_server(
    study: &StudyClient,
    input: Option<&TrainingInput>,
) -> anyhow::Result<anyhow::Result<StudyView>> {
    let (message, trials) = (study.get().await?, study.trials("").await?);
    Ok(StudyView::of_messages(&message, input, trials.trials.iter().map(|trial| &trial.message)))
}

fn foreign(service: &Service, what: &str, id: &dyn std::fmt::Display) -> String {
    format!("{} describes {what} {id} in a form that this version cannot read", service.address())
}
