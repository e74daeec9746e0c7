//! Source trials in a study's history.

use std::pin::pin;

use futures::TryStreamExt;
use tunesmith_algorithms::problem::{ProblemStatement, TrialId};
use tunesmith_algorithms::transfer::SourceStudy;

use super::super::model_trials::ModelTrials;
use super::super::sources::{SourceUse, source_use};
use super::{StudyHistory, outcome};
use tunesmith_domain::Study;
use tunesmith_store::{OptionalExtension, Store, StoreError, pages};

impl StudyHistory {
    /// Adds source trials inside the search space of `study`, and returns the others.
    pub(super) async fn add_sources(
        &mut self,
        store: &dyn Store,
        study: &Study,
    ) -> Result<Vec<SourceStudy>, StoreError> {
        let mut sources = Vec::new();
        for prior in &study.prior_studies {
            let Some(source) = store.study(prior).await.optional()? else {
                tracing::warn!(
                    study.name = %study.id, prior.name = %prior,
                    "the source study was deleted; the search continues without its trials"
                );
                continue;
            };
            if self.designer.by_points().is_some_and(|designer| !designer.is_finite()) {
                self.pass_source(store, &source).await?;
            } else {
                sources.extend(self.add_source(store, &source).await?);
            }
        }
        Ok(sources)
    }

    /// Skips the trials of a source study that cannot affect the designer, except for initial points.
    async fn pass_source(&mut self, store: &dyn Store, source: &Study) -> Result<(), StoreError> {
        self.prior_count += source.next_trial_id.0.saturating_sub(1);
        let mut pages = pin!(pages::trials_by_page(store, source));
        while self.needs_more()
            && let Some(trials) = pages.try_next().await?
        {
            let own = trials
                .iter()
                .filter(|trial| matches!(source_use(trial, &source.problem, &self.study.problem), SourceUse::Own(_)));
            for trial in own {
                if let Ok(Some(number)) = self.number(&trial.parameters) {
                    self.used.insert(number);
                }
            }
        }
        Ok(())
    }

    /// Adds completed trials of one source study inside the search space, and returns the others.
    async fn add_source(&mut self, store: &dyn Store, source: &Study) -> Result<Option<SourceStudy>, StoreError> {
        let (mut foreign, mut foreign_count, mut incomplete) = (ModelTrials::new(&source.problem), 0_usize, 0_usize);
        let mut pages = pin!(pages::trials_by_page(store, source));
        while let Some(trials) = pages.try_next().await? {
            for trial in &trials {
                let result = match source_use(trial, &source.problem, &self.study.problem) {
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
                    SourceUse::Unfinished => continue,
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
        foreign.rank();
        Ok(Some(SourceStudy { problem: ProblemStatement::clone(&source.problem), completed: foreign.into_completed() }))
    }
}
