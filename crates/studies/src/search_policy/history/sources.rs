//! Source trials in a study's history.

use std::pin::pin;

use futures::TryStreamExt;
use tunesmith_algorithms::interruption::Interruption;
use tunesmith_algorithms::problem::{ProblemStatement, TrialId};
use tunesmith_algorithms::transfer::{SourceInfluence, SourceStudy};

use super::super::model_trials::ModelTrials;
use super::super::sources::{SourceUse, source_use};
use super::{StudyHistory, outcome};
use tunesmith_algorithms::designer::DesignerError;
use tunesmith_domain::{SourceRelation, Study, StudyId};
use tunesmith_store::{OptionalExtension, Store, StoreError, pages};
use tunesmith_views::SourceStudy as SourceStudyView;

/// A source study in a history.
#[derive(Debug, Clone)]
pub(super) struct UsedSource {
    id: StudyId,
    relation: SourceRelation,
    /// Number of its trials that count as trials of the study.
    own_trials: u64,
    /// Index among the source studies of the designer, if its other trials inform the search.
    index: Option<usize>,
}

/// Use of a source study by the search of another study so far.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceReport {
    pub study: StudyId,
    pub relation: SourceRelation,
    /// Number of its trials that count as trials of the study, as far as the algorithm reads them.
    pub own_trials: u64,
    /// Influence of its other trials; `None` if the algorithm does not use them, or if they have too few different results
    /// in the search space.
    pub influence: Option<SourceInfluence>,
}

impl From<&SourceReport> for SourceStudyView {
    fn from(report: &SourceReport) -> Self {
        Self::new(&report.study, report.relation, report.own_trials, report.influence)
    }
}

impl StudyHistory {
    /// Adds trials of continued studies inside the search space of `study`, and returns the other source trials.
    pub(super) async fn add_sources(
        &mut self,
        store: &dyn Store,
        study: &Study,
    ) -> Result<Vec<SourceStudy>, StoreError> {
        let mut foreign = Vec::new();
        for (relation, id) in study.sources().iter() {
            let Some(source) = store.study(id).await.optional()? else {
                tracing::warn!(
                    study.name = %study.id, prior.name = %id,
                    "the source study was deleted; the search continues without its trials"
                );
                continue;
            };
            let before = self.prior_count;
            let others = match relation {
                SourceRelation::Related => self.related_trials(store, &source).await?,
                SourceRelation::Continued if self.ignores_points() => {
                    self.pass_source(store, &source).await?;
                    None
                }
                SourceRelation::Continued => self.add_source(store, &source).await?,
            };
            let index = others.is_some().then_some(foreign.len());
            foreign.extend(others);
            let own_trials = self.prior_count - before;
            self.sources.push(UsedSource { id: id.clone(), relation, own_trials, index });
        }
        Ok(foreign)
    }

    /// Whether trials cannot affect the designer, except for initial points.
    fn ignores_points(&self) -> bool {
        self.designer.by_points().is_some_and(|designer| !designer.is_finite())
    }

    /// Skips the trials of a continued study that cannot affect the designer, except for initial points.
    async fn pass_source(&mut self, store: &dyn Store, source: &Study) -> Result<(), StoreError> {
        self.prior_count += source.next_trial_id.0.saturating_sub(1);
        let mut pages = pin!(pages::trials_by_page(store, source));
        while self.needs_more()
            && let Some(trials) = pages.try_next().await?
        {
            for trial in &trials {
                let used = source_use(trial, &source.problem, &self.study.problem, SourceRelation::Continued);
                if let SourceUse::Own(_) = used
                    && let Ok(Some(number)) = self.number(&trial.parameters)
                {
                    self.used.insert(number);
                }
            }
        }
        Ok(())
    }

    /// Results of a related study for a designer that learns from them. They are no trials of this study: their points
    /// are not used, and their values have no unit.
    async fn related_trials(&self, store: &dyn Store, source: &Study) -> Result<Option<SourceStudy>, StoreError> {
        let (study, prior) = (&self.study.id, &source.id);
        if !self.uses_sources {
            tracing::warn!(
                study.name = %study, prior.name = %prior,
                "the algorithm does not use the trials of related studies"
            );
            return Ok(None);
        }
        let (mut results, mut count, mut incomplete) = (ModelTrials::new(&source.problem), 0_usize, 0_usize);
        let mut pages = pin!(pages::trials_by_page(store, source));
        while let Some(trials) = pages.try_next().await? {
            for trial in &trials {
                match source_use(trial, &source.problem, &self.study.problem, SourceRelation::Related) {
                    SourceUse::Related => {
                        count += 1;
                        results.complete(trial.id, &trial.parameters, || outcome(trial, &source.problem));
                    }
                    SourceUse::WithoutMetric(_) => incomplete += 1,
                    _ => {}
                }
            }
        }
        if incomplete > 0 {
            tracing::warn!(
                study.name = %study, prior.name = %prior, trials = incomplete,
                "trials of the related study lack the value of the metric of this study and are not used"
            );
        }
        if count == 0 {
            return Ok(None);
        }
        tracing::info!(study.name = %study, prior.name = %prior, trials = count, "trials of a related study inform the search");
        Ok(Some(source_study(source, results)))
    }

    /// Adds completed trials of one continued study inside the search space, and returns the others.
    async fn add_source(&mut self, store: &dyn Store, source: &Study) -> Result<Option<SourceStudy>, StoreError> {
        let (mut foreign, mut foreign_count, mut incomplete) = (ModelTrials::new(&source.problem), 0_usize, 0_usize);
        let mut pages = pin!(pages::trials_by_page(store, source));
        while let Some(trials) = pages.try_next().await? {
            for trial in &trials {
                let used = source_use(trial, &source.problem, &self.study.problem, SourceRelation::Continued);
                let result = match used {
                    SourceUse::Own(result) => result,
                    SourceUse::Outside(_) => {
                        foreign_count += 1;
                        foreign.complete(trial.id, &trial.parameters, || outcome(trial, &source.problem));
                        continue;
                    }
                    SourceUse::WithoutMetric(_) => {
                        incomplete += 1;
                        continue;
                    }
                    SourceUse::Unfinished | SourceUse::Failed | SourceUse::Related => continue,
                };
                self.prior_count += 1;
                if let Ok(Some(number)) = self.number(&trial.parameters) {
                    self.used.insert(number);
                }
                if self.designer.by_points().is_none() {
                    self.trials.complete(TrialId(self.prior_count), &trial.parameters, || result);
                }
            }
        }
        let (study, prior) = (&self.study.id, &source.id);
        if incomplete > 0 {
            tracing::warn!(
                study.name = %study, prior.name = %prior, trials = incomplete,
                "trials of the source study lack the value of a metric or a constraint of this study and are not used"
            );
        }
        if foreign_count == 0 {
            return Ok(None);
        }
        let trials = foreign_count;
        if self.uses_sources {
            tracing::info!(
                study.name = %study, prior.name = %prior, trials,
                "trials of the source study are outside this search space and are used as trials of another one"
            );
        } else {
            tracing::warn!(
                study.name = %study, prior.name = %prior, trials,
                "trials of the source study are outside this search space; the algorithm does not use them"
            );
        }
        Ok(Some(source_study(source, foreign)))
    }

    /// Use of each source study after the trials read so far, in the order of the search, the nearest last.
    pub(in super::super) fn source_reports(
        &self,
        interruption: &Interruption,
    ) -> Result<Vec<SourceReport>, DesignerError> {
        let influences = match self.sources.iter().any(|source| source.index.is_some()) {
            true => self.designer.source_influences(self.trials.as_history(), interruption)?,
            false => Vec::new(),
        };
        let report = |source: &UsedSource| SourceReport {
            study: source.id.clone(),
            relation: source.relation,
            own_trials: source.own_trials,
            influence: influences.iter().find(|influence| Some(influence.study) == source.index).copied(),
        };
        Ok(self.sources.iter().map(report).collect())
    }
}

fn source_study(source: &Study, mut trials: ModelTrials) -> SourceStudy {
    trials.rank();
    SourceStudy { problem: ProblemStatement::clone(&source.problem), completed: trials.into_completed() }
}

#[cfg(test)]
mod tests;
