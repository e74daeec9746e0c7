//! Studies whose trials inform another study, by their relation to it.

use super::{Study, StudyId};

/// Relation of a source study to the study that it informs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceRelation {
    /// Same program and metrics: trials inside the search space count as the study's own.
    Continued,
    /// Another study: only the model of its trials informs the search, whatever their unit and offset.
    Related,
}

/// Source studies of a study, each in one list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceStudies {
    /// Studies of the same program and metrics, oldest first.
    pub continued: Vec<StudyId>,
    /// Other studies, oldest first.
    pub related: Vec<StudyId>,
}

impl SourceStudies {
    /// Adds the sources of `study` with their relations, and then `study` as continued. A related study that `study`
    /// continues becomes a continued one.
    pub fn add_continued(&mut self, study: &Study) {
        for source in study.continued_studies.iter().chain([&study.id]) {
            self.related.retain(|other| other != source);
            if !self.continued.contains(source) {
                self.continued.push(source.clone());
            }
        }
        study.related_studies.iter().for_each(|source| self.relate(source));
    }

    /// Adds the sources of `study`, and then `study`, as related ones, except those that are continued.
    pub fn add_related(&mut self, study: &Study) {
        let sources = study.related_studies.iter().chain(&study.continued_studies);
        sources.chain([&study.id]).for_each(|source| self.relate(source));
    }

    fn relate(&mut self, source: &StudyId) {
        if !self.contains(source) {
            self.related.push(source.clone());
        }
    }

    pub fn contains(&self, study: &StudyId) -> bool {
        self.continued.contains(study) || self.related.contains(study)
    }

    pub fn is_empty(&self) -> bool {
        self.continued.is_empty() && self.related.is_empty()
    }

    /// All sources, the related ones first: what the study continues is nearer to it.
    pub fn iter(&self) -> impl Iterator<Item = (SourceRelation, &StudyId)> {
        let related = self.related.iter().map(|study| (SourceRelation::Related, study));
        related.chain(self.continued.iter().map(|study| (SourceRelation::Continued, study)))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tunesmith_algorithms::problem::{
        Goal, MetricSpec, ParameterKind, ParameterSpec, ProblemStatement, ScaleType, SearchSpace,
    };

    use super::*;
    use crate::StudyFields;

    fn ids(names: &[&str]) -> Vec<StudyId> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn study(name: &str, continued: &[&str], related: &[&str]) -> Study {
        let kind = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
        let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
        let metrics = vec![MetricSpec { name: "loss".to_owned(), goal: Goal::Minimize }];
        let problem = ProblemStatement::new(space, metrics).unwrap();
        Study::restore(StudyFields {
            continued_studies: ids(continued),
            related_studies: ids(related),
            ..StudyFields::new(name.parse().unwrap(), problem, Timestamp::UNIX_EPOCH)
        })
    }

    #[test]
    fn sources_of_a_continued_study_keep_their_relation() {
        let mut sources = SourceStudies::default();
        sources.add_continued(&study("later", &["first", "second"], &["other"]));
        let expected = SourceStudies { continued: ids(&["first", "second", "later"]), related: ids(&["other"]) };
        assert_eq!(sources, expected);
    }

    #[test]
    fn sources_of_a_related_study_are_related() {
        let mut sources = SourceStudies::default();
        sources.add_related(&study("later", &["first"], &["other"]));
        assert_eq!(sources, SourceStudies { continued: Vec::new(), related: ids(&["other", "first", "later"]) });
        let order: Vec<&str> = sources.iter().map(|(_, study)| study.as_str()).collect();
        assert_eq!(order, ["other", "first", "later"]);
    }

    #[test]
    fn a_study_is_in_one_list_and_continued_wins() {
        let mut sources = SourceStudies::default();
        sources.add_related(&study("later", &["first"], &[]));
        sources.add_continued(&study("first", &[], &[]));
        sources.add_related(&study("first", &[], &["later"]));
        assert_eq!(sources, SourceStudies { continued: ids(&["first"]), related: ids(&["later"]) });
        let relations: Vec<SourceRelation> = sources.iter().map(|(relation, _)| relation).collect();
        assert_eq!(relations, [SourceRelation::Related, SourceRelation::Continued]);
        assert!(sources.contains(&ids(&["later"])[0]) && !sources.contains(&ids(&["other"])[0]));
    }
}
