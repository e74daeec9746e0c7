//! Studies of Vertex AI.

use tunesmith_domain::{Code, Metadata, Refusal, StudyId};
use tunesmith_vizier::messages::vertex as wire;
use tunesmith_vizier::names;
use tunesmith_vizier::vertex::{message_of_study, study_config};

use crate::creation::{self, Creation};
use crate::paging::Page;
use crate::refusals::violations;
use crate::services::{Context, Reply};

/// Number of studies per page, if the client does not say, and at most.
const PAGE: (usize, usize) = (100, 1000);

fn id(project: &str, location: &str, study: &str) -> Result<StudyId, Refusal> {
    StudyId::new(project, location, study).map_err(|error| Refusal::invalid("parent", error.to_string()))
}

pub(super) async fn create(context: Context, request: wire::CreateStudyRequest) -> Result<Reply<wire::Study>, Refusal> {
    let [project, location] = names::vertex::location(&request.parent)?;
    let message = request.study.ok_or_else(|| Refusal::invalid("study", "is required"))?;
    let spec = message.study_spec.ok_or_else(|| Refusal::invalid("studySpec", "is required"))?;
    let (config, notices) = study_config(&spec).map_err(violations)?;
    let display_name = message.display_name;
    let id = id(project, location, &names::vertex::id_of(&display_name))?;
    let wanted = config.clone();
    let creation = Creation { id, display_name, config, metadata: Metadata::default(), notices };
    let created = creation::create(&context, creation).await?;
    let message = message_of_study(&created.study)?;
    // The client of `create_or_load` takes no refusal over HTTP: a study with the same specification is returned.
    if !created.is_new && !creation::has_spec(&created.study, &wanted)? {
        let (name, id) = (&message.display_name, &message.name);
        let text = format!("study {name:?} exists already, with another specification, as {id}");
        return Err(Refusal::new(Code::AlreadyExists, text));
    }
    let name = created.is_new.then(|| message.name.clone());
    Ok(Reply { message, created: name, notices: created.notices })
}

pub(super) async fn get(context: Context, request: wire::GetStudyRequest) -> Result<Reply<wire::Study>, Refusal> {
    let study = context.studies().study(&names::vertex::study("name", &request.name)?).await?;
    Ok(message_of_study(&study)?.into())
}

pub(super) async fn list(
    context: Context,
    request: wire::ListStudiesRequest,
) -> Result<Reply<wire::ListStudiesResponse>, Refusal> {
    let parent = names::vertex::location(&request.parent)?;
    let page = Page::<String>::read(request.page_size, &request.page_token, PAGE.0, PAGE.1)?;
    let (project, location) = (parent[0], parent[1]);
    let mut left = page.limit + 1;
    let studies = context.studies().pick(Some((project, location)), |study| {
        let is_wanted = page.after.as_deref().is_none_or(|after| study.id.parts().2 > after) && left > 0;
        left -= usize::from(is_wanted);
        is_wanted.then_some(study)
    });
    let mut studies = studies.await?;
    let has_more = studies.len() > page.limit;
    studies.truncate(page.limit);
    let last = studies.last().filter(|_| has_more);
    let next_page_token = last.map(|last| last.id.parts().2.to_owned()).unwrap_or_default();
    let studies = studies.iter().map(message_of_study).collect::<Result<_, _>>()?;
    Ok(wire::ListStudiesResponse { studies, next_page_token }.into())
}

pub(super) async fn delete(context: Context, request: wire::DeleteStudyRequest) -> Result<Reply<()>, Refusal> {
    context.studies().delete_study(&names::vertex::study("name", &request.name)?).await?;
    Ok(().into())
}

pub(super) async fn lookup(context: Context, request: wire::LookupStudyRequest) -> Result<Reply<wire::Study>, Refusal> {
    let [project, location] = names::vertex::location(&request.parent)?;
    if request.display_name.is_empty() {
        return Err(Refusal::invalid("displayName", "is required"));
    }
    let found = creation::named(&context, &id(project, location, "any")?, &request.display_name).await?;
    let study = found.ok_or_else(|| {
        let text = format!("{} has no study with the display name {:?}", request.parent, request.display_name);
        Refusal::new(Code::NotFound, text)
    })?;
    Ok(message_of_study(&study)?.into())
}
