//! Studies of OSS Vizier.

use tunesmith_domain::{Metadata, MetadataKey, MetadataValue, Refusal, StudyId, StudyState};
use tunesmith_vizier::messages::oss as wire;
use tunesmith_vizier::messages::vertex::study::State;
use tunesmith_vizier::names;
use tunesmith_vizier::oss::{message_of_study, metadata, study_config};

use crate::creation::{self, Creation};
use crate::paging::Page;
use crate::refusals::{violation, violations};
use crate::services::{Context, Reply};
use crate::trials::first;

/// Namespace and key of the metadata with notices about a specification.
const NOTICES: (&str, &str) = (":tunesmith", "notices");

pub(super) async fn create(context: Context, request: wire::CreateStudyRequest) -> Result<Reply<wire::Study>, Refusal> {
    let project = names::oss::owner(&request.parent)?;
    let message = request.study.ok_or_else(|| Refusal::invalid("study", "is required"))?;
    let spec = message.study_spec.ok_or_else(|| Refusal::invalid("studySpec", "is required"))?;
    let display_name = message.display_name;
    if display_name.contains('/') {
        return Err(Refusal::invalid("displayName", format!("{display_name:?} has a slash; allowed: a name without")));
    }
    // The name of a study that another protocol has made begins with its location.
    let (location, name) = names::oss::location_of(&display_name);
    let id = StudyId::new(project, location, &names::oss::id_of(name))
        .map_err(|error| Refusal::invalid("displayName", error.to_string()))?;
    let (config, notices) = study_config(&spec).map_err(violations)?;
    let mut values = metadata(spec.metadata, "studySpec.metadata").map_err(violation)?;
    if !notices.is_empty() {
        let text: Vec<String> = notices.iter().map(|it| format!("{}: {}", it.field, it.description)).collect();
        let key = MetadataKey { namespace: NOTICES.0.to_owned(), key: NOTICES.1.to_owned() };
        let given = values.iter().map(|(key, value)| (key.clone(), value.clone()));
        values = given.chain([(key, MetadataValue::Text(text.join("; ")))]).collect::<Metadata>();
    }
    let creation = Creation { id, display_name: name.to_owned(), config, metadata: values, notices };
    let created = creation::create(&context, creation).await?;
    let message = message_of_study(&created.study)?;
    let name = created.is_new.then(|| message.name.clone());
    Ok(Reply { message, created: name, notices: created.notices })
}

pub(super) async fn get(context: Context, request: wire::GetStudyRequest) -> Result<Reply<wire::Study>, Refusal> {
    let study = first(context.studies(), &names::oss::study("name", &request.name)?).await?;
    Ok(message_of_study(&study)?.into())
}

/// Lists the studies of all locations. Its clients read one page only, so that a page has no usual size.
pub(super) async fn list(
    context: Context,
    request: wire::ListStudiesRequest,
) -> Result<Reply<wire::ListStudiesResponse>, Refusal> {
    let project = names::oss::owner(&request.parent)?;
    let page = Page::<StudyId>::read(request.page_size, &request.page_token, usize::MAX - 1, usize::MAX - 1)?;
    let mut left = page.limit + 1;
    let studies = context.studies().pick(None, |study| {
        let is_after = page.after.as_ref().is_none_or(|after| study.id > *after);
        let is_wanted = study.id.parts().0 == project && is_after && left > 0;
        left -= usize::from(is_wanted);
        is_wanted.then_some(study)
    });
    let mut studies = studies.await?;
    let has_more = studies.len() > page.limit;
    studies.truncate(page.limit);
    let last = studies.last().filter(|_| has_more);
    let next_page_token = last.map(|last| last.id.to_string()).unwrap_or_default();
    let studies = studies.iter().map(message_of_study).collect::<Result<_, _>>()?;
    Ok(wire::ListStudiesResponse { studies, next_page_token }.into())
}

pub(super) async fn delete(context: Context, request: wire::DeleteStudyRequest) -> Result<Reply<()>, Refusal> {
    let study = first(context.studies(), &names::oss::study("name", &request.name)?).await?;
    context.studies().delete_study(&study.id).await?;
    Ok(().into())
}

pub(super) async fn set_state(
    context: Context,
    request: wire::SetStudyStateRequest,
) -> Result<Reply<wire::Study>, Refusal> {
    let study = first(context.studies(), &names::oss::study("parent", &request.parent)?).await?;
    let state = match State::try_from(request.state) {
        Ok(State::Unspecified | State::Active) => StudyState::Active,
        Ok(State::Inactive) => StudyState::Inactive,
        Ok(State::Completed) => StudyState::Completed,
        Err(_) => {
            let text = format!("{} is not a published value; allowed: 0 to 3", request.state);
            return Err(Refusal::invalid("state", text));
        }
    };
    // An ended study changes its state by way of an active one.
    if state != StudyState::Active && study.state != state && study.state != StudyState::Active {
        context.studies().set_state(&study.id, StudyState::Active).await?;
    }
    let study = context.studies().set_state(&study.id, state).await?;
    Ok(message_of_study(&study)?.into())
}
