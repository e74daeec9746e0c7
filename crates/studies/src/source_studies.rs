//! Source studies of studies: named in requests, described, and their use by the search.

use super::search_policy::{SourceDescriptions, SourceReport, describe_sources};
use super::{Studies, StudiesError};
use tunesmith_domain::{Refusal, SourceStudies, Study, StudyId, StudySpec};
use tunesmith_store::StoreError;

/// Studies named in a request.
#[derive(Debug, Clone, Copy)]
pub struct NamedStudies<'a> {
    /// IDs within the location of the new study.
    pub names: &'a [String],
    /// Field of the request.
    pub field: &'static str,
}

impl Studies {
    /// Source studies of the new study `id`: those called `continued` and `related` at its location, with their own
    /// sources.
    ///
    /// # Errors
    /// Refusal of the first name that is invalid, repeated or not a study.
    pub async fn named_sources(
        &self,
        id: &StudyId,
        continued: NamedStudies<'_>,
        related: NamedStudies<'_>,
    ) -> Result<SourceStudies, Refusal> {
        let mut named = Vec::new();
        let mut sources = SourceStudies::default();
        for study in self.studies_named(id, continued, &mut named).await? {
            sources.add_continued(&study);
        }
        for study in self.studies_named(id, related, &mut named).await? {
            sources.add_related(&study);
        }
        Ok(sources)
    }

    /// Studies of `requested` at the location of `id`, which are added to `named`.
    async fn studies_named(
        &self,
        id: &StudyId,
        requested: NamedStudies<'_>,
        named: &mut Vec<StudyId>,
    ) -> Result<Vec<Study>, Refusal> {
        let (project, location, _) = id.parts();
        let mut studies = Vec::with_capacity(requested.names.len());
        for (index, name) in requested.names.iter().enumerate() {
            let refuse = |text: String| Refusal::invalid(&format!("{}[{index}]", requested.field), text);
            let study = StudyId::new(project, location, name).map_err(|error| refuse(error.to_string()))?;
            if named.contains(&study) {
                return Err(refuse(format!("{name:?} is given twice")));
            }
            match self.study(&study).await {
                Err(StudiesError::Store(StoreError::NotFound { .. })) => {
                    return Err(refuse(format!(
                        "{name:?} is not a study; allowed: IDs of studies at the location {location:?}"
                    )));
                }
                found => studies.push(found?),
            }
            named.push(study);
        }
        Ok(studies)
    }

    /// Describes what the search of `spec` reuses from `sources`.
    pub async fn describe_sources(
        &self,
        spec: &StudySpec,
        sources: &SourceStudies,
    ) -> Result<SourceDescriptions, StudiesError> {
        Ok(describe_sources(&*self.store, spec, sources).await?)
    }

    /// Use of each source study of `study` by its search so far, the nearest one last. Fits the model of the search.
    ///
    /// # Errors
    /// As for a suggestion; [`StudiesError::NoSuggestion`] if the algorithm fails.
    pub async fn source_reports(&self, study: &Study) -> Result<Vec<SourceReport>, StudiesError> {
        Ok(self.policy.source_reports(study).await?)
    }
}
