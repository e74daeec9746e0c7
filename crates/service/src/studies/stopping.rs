//! The stopping rules of studies, with the curves of their trials.

use std::pin::pin;

use futures::TryStreamExt;
use jiff::Timestamp;

use crate::early_stopping::EarlyStopping;
use crate::pages;
use crate::study_cache::StudyCache;
use tunesmith_domain::{Measurement, Study, StudyId, TrialId};
use tunesmith_store::{Store, StoreError};

/// One rule for each study.
#[derive(Default)]
pub(super) struct StoppingRules {
    rules: StudyCache<Learnt>,
}

struct Learnt {
    /// Distinguishes studies of the same name.
    create_time: Timestamp,
    rule: EarlyStopping,
    /// Revision of the study up to which final trials have been read.
    revision: u64,
}

impl StoppingRules {
    /// The reason to stop `trial` with the measurements `curve`, if there is one.
    pub(super) async fn decide(
        &self,
        store: &dyn Store,
        study: &Study,
        trial: TrialId,
        curve: &[Measurement],
    ) -> Result<Option<String>, StoreError> {
        let Some(rule) = study.stopping_rule else { return Ok(None) };
        let fresh = || Learnt { create_time: study.create_time, rule: EarlyStopping::new(rule, study), revision: 0 };
        let learnt = self.rules.get_or_insert(&study.id, fresh);
        let mut learnt = learnt.lock().await;
        if learnt.create_time != study.create_time {
            *learnt = fresh();
        }
        learnt.refresh(store, &study.id).await?;
        Ok(learnt.rule.decide(trial, None, learnt.rule.points(curve)))
    }

    /// Drops the curves of `study`.
    pub(super) fn forget(&self, study: &StudyId) {
        self.rules.forget(study);
    }

    /// Drops the rules that were not used during the last `calls` calls of this function, and returns their number.
    pub(super) fn drop_idle(&self, calls: u32) -> usize {
        self.rules.drop_idle(calls)
    }

    /// Drops the rules that were not used since the last [`Self::drop_idle`], and returns their number.
    pub(super) fn drop_unused(&self) -> usize {
        self.rules.drop_unused()
    }
}

impl Learnt {
    async fn refresh(&mut self, store: &dyn Store, study: &StudyId) -> Result<(), StoreError> {
        let mut changed = pin!(pages::changed_trials(store, study, self.revision));
        while let Some(trial) = changed.try_next().await? {
            if trial.state.is_final() {
                self.rule.learn(store, &trial).await?;
            }
            self.revision = trial.revision;
        }
        Ok(())
    }
}
