//! The optimal trials of each study, kept up to date by reading only the changes since the last request.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt;
use jiff::Timestamp;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;
use tunesmith_algorithms::problem::{TrialId, pareto};

use crate::pages;
use crate::study_cache::StudyCache;
use tunesmith_domain::{Study, StudyId, Trial, TrialState, compare_values};
use tunesmith_store::{FEW, Store, StoreError};

/// Number of new trials from which the front of one or two metrics is computed anew: O(n log n) in all trials together,
/// instead of O(f) for each new one beside a front of f.
const MANY: usize = 32;

/// Product of new trials and trials of the front above which the front is computed on a blocking thread (a guess: 1 ms).
const LONG: usize = 100_000;

/// Number of changes of a study after which [`OptimalTrials::follow`] brings its front up to date.
const FOLLOWED: u64 = 500;

/// One front for each study that was asked for, or that changes.
#[derive(Default)]
pub(super) struct OptimalTrials(StudyCache<Known>);

/// The optimal trials up to a revision of the study.
struct Known {
    /// Distinguishes studies of the same name.
    create_time: Timestamp,
    revision: u64,
    front: Front,
    /// The front of the trials that were stopped early, which count only if no trial ran to its end.
    front_of_stopped: Front,
}

impl OptimalTrials {
    /// The numbers of the trials of `study` that satisfy all constraints and that no other such trial dominates, best first by
    /// the first metric; with one metric, of the first one with the best value.
    pub(super) async fn numbers(&self, store: &dyn Store, study: &Study) -> Result<Vec<TrialId>, StoreError> {
        let known = self.0.get_or_insert(&study.id, || Known::new(study));
        let mut known = known.lock_owned().await;
        if known.create_time != study.create_time {
            *known = Known::new(study);
        }
        let known = refresh(known, store, study).await?;
        let front = if known.front.0.is_empty() { &known.front_of_stopped } else { &known.front };
        let mut trials: Vec<(&TrialId, &Vec<f64>)> = front.0.iter().collect();
        trials.sort_by(|(first, a), (second, b)| compare_values(a, b).then(first.cmp(second)));
        Ok(trials.into_iter().map(|(id, _)| *id).collect())
    }

    /// Brings the front of `study` up to date in the background if at least [`FOLLOWED`] changes are missing from it, so
    /// that the first request for it does not read all trials. `revision` is that of the latest change. A failure has no
    /// effect: the next request reads the same again.
    pub(super) fn follow(&self, store: &Arc<dyn Store>, study: &Study, revision: u64) -> Option<JoinHandle<()>> {
        let known = self.0.get_or_insert(&study.id, || Known::new(study));
        // The holder of the lock brings it up to date.
        let mut known = known.try_lock_owned().ok()?;
        if known.create_time != study.create_time {
            *known = Known::new(study);
        }
        let (store, study) = (Arc::clone(store), study.clone());
        (revision >= known.revision + FOLLOWED).then(|| {
            tokio::spawn(async move {
                if let Err(error) = refresh(known, &*store, &study).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(study.name = %study.id, error, "the optimal trials cannot be brought up to date");
                }
            })
        })
    }

    /// Drops the front of `study`.
    pub(super) fn forget(&self, study: &StudyId) {
        self.0.forget(study);
    }

    /// Drops the fronts that were not used during the last `calls` calls of this function, and returns their number.
    pub(super) fn drop_idle(&self, calls: u32) -> usize {
        self.0.drop_idle(calls)
    }

    /// Drops all fronts, and returns their number.
    pub(super) fn clear(&self) -> usize {
        self.0.clear()
    }
}

impl Known {
    fn new(study: &Study) -> Self {
        Self {
            create_time: study.create_time,
            revision: 0,
            front: Front::default(),
            front_of_stopped: Front::default(),
        }
    }
}

/// Reads the changes since the last call.
async fn refresh(
    mut known: OwnedMutexGuard<Known>,
    store: &dyn Store,
    study: &Study,
) -> Result<OwnedMutexGuard<Known>, StoreError> {
    let is_single = study.problem.metrics().len() == 1;
    loop {
        let mut new = BTreeMap::new();
        let mut revision = known.revision;
        let mut lost = false;
        if revision == 0 {
            let mut pages = std::pin::pin!(pages::trials_by_page(store, study));
            while let Some(trials) = pages.try_next().await? {
                new.extend(
                    trials.iter().filter_map(|trial| Some((trial.id, (trial.stopped_early, values(study, trial)?)))),
                );
            }
            // Trials that change while others are read have a higher revision, and are read again.
            revision = study.revision;
        }
        {
            let mut changed = std::pin::pin!(pages::changed_trials(store, &study.id, revision));
            while let Some(trial) = changed.try_next().await? {
                revision = trial.revision;
                if trial.state == TrialState::Deleted {
                    lost |= [&known.front, &known.front_of_stopped].iter().any(|front| front.0.contains_key(&trial.id));
                    new.remove(&trial.id);
                }
                new.extend(values(study, &trial).map(|values| (trial.id, (trial.stopped_early, values))));
            }
        }
        if lost {
            // Trials that only the deleted one dominated are on the front now.
            *known = Known::new(study);
            continue;
        }
        let (stopped, new): (Vec<_>, Vec<_>) = new.into_iter().partition(|(_, (stopped_early, _))| *stopped_early);
        let [stopped, new] =
            [stopped, new].map(|trials| trials.into_iter().map(|(id, (_, values))| (id, values)).collect::<Vec<_>>());
        let largest = known.front.0.len().max(known.front_of_stopped.0.len()).max(FEW);
        if (new.len() + stopped.len()) * largest > LONG {
            let extended = tokio::task::spawn_blocking(move || {
                known.front.extend(new, is_single);
                known.front_of_stopped.extend(stopped, is_single);
                known
            });
            known = extended.await.map_err(|source| StoreError::NotApplied {
                operation: "compute the optimal trials",
                source: source.into(),
            })?;
        } else {
            known.front.extend(new, is_single);
            known.front_of_stopped.extend(stopped, is_single);
        }
        known.revision = revision;
        return Ok(known);
    }
}

/// The values of the metrics of a succeeded trial of `study`, all maximised; `None` if one is missing or NaN, or if the trial
/// violates a constraint.
fn values(study: &Study, trial: &Trial) -> Option<Vec<f64>> {
    if trial.state == TrialState::Deleted || !study.is_feasible(trial) {
        return None;
    }
    let measurement = trial.final_measurement.as_ref()?;
    let values =
        study.problem.metrics().iter().map(|metric| Some(metric.goal.to_maximized(measurement.value(&metric.name)?)));
    values.collect::<Option<Vec<f64>>>().filter(|values| !values.iter().any(|value| value.is_nan()))
}

/// The values of the trials that no other trial dominates.
#[derive(Debug, Default, PartialEq)]
struct Front(BTreeMap<TrialId, Vec<f64>>);

impl Front {
    /// Adds `new` trials; with a `single` metric, keeps the first trial of the best value only. All copies of a point of
    /// several metrics are kept.
    fn extend(&mut self, new: Vec<(TrialId, Vec<f64>)>, single: bool) {
        if new.len() < MANY || new.first().is_some_and(|(_, values)| values.len() > 2) {
            for (id, values) in new {
                self.insert(id, values, single);
            }
            return;
        }
        self.0.extend(new);
        // By number, so that the first of equal points is the one with the smallest number.
        let (ids, points): (Vec<TrialId>, Vec<Vec<f64>>) = std::mem::take(&mut self.0).into_iter().unzip();
        let front = if single { pareto::distinct_front(&points) } else { pareto::front(&points) };
        let mut points: Vec<Option<Vec<f64>>> = points.into_iter().map(Some).collect();
        self.0 = front.into_iter().filter_map(|index| Some((ids[index], points[index].take()?))).collect();
    }

    fn insert(&mut self, id: TrialId, values: Vec<f64>, single: bool) {
        let is_worse = |(other, point): (&TrialId, &Vec<f64>)| {
            pareto::dominates(point, &values) || (single && *point == values && *other < id)
        };
        if self.0.iter().any(is_worse) {
            return;
        }
        self.0.retain(|_, point| !(pareto::dominates(&values, point) || (single && *point == values)));
        self.0.insert(id, values);
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_domain::{Completion, NewTrial, TrialStart};
    use tunesmith_store::MemoryStore;
    use tunesmith_store::contract::samples;

    use super::*;

    /// Small numbers, so that points are equal often; a function of `seed` and the place.
    fn points(seed: u64, count: u64, metrics: u64) -> Vec<(TrialId, Vec<f64>)> {
        let draw = |place: u64| {
            let mixed =
                (place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            ((mixed >> 40) % 7) as f64 - 3.0
        };
        (0..count)
            .map(|index| (TrialId(index + 1), (0..metrics).map(|j| draw(index * metrics + j)).collect()))
            .collect()
    }

    fn whole(points: &[(TrialId, Vec<f64>)], single: bool) -> Vec<TrialId> {
        let values: Vec<&[f64]> = points.iter().map(|(_, values)| values.as_slice()).collect();
        let front = if single { pareto::distinct_front(&values) } else { pareto::front(&values) };
        front.into_iter().map(|index| points[index].0).collect()
    }

    #[test]
    fn front_in_steps_equals_the_front_of_all() {
        for metrics in 1..=4 {
            for seed in 0..20 {
                let all = points(seed, 300, metrics);
                for step in [1, 7, MANY, 100, 300] {
                    let mut front = Front::default();
                    // Results arrive in another order than by number.
                    let mut arriving = all.clone();
                    arriving.sort_by_key(|(id, _)| (id.0 * 37) % 101);
                    let mut seen = Vec::new();
                    for part in arriving.chunks(step) {
                        front.extend(part.to_vec(), metrics == 1);
                        seen.extend_from_slice(part);
                        seen.sort_by_key(|(id, _)| *id);
                        assert_eq!(
                            front.0.keys().copied().collect::<Vec<_>>(),
                            whole(&seen, metrics == 1),
                            "{metrics} metrics, seed {seed}, step {step}"
                        );
                    }
                }
            }
        }
    }

    #[tokio::test]
    async fn front_of_a_study_that_changes_is_up_to_date_without_a_request() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let study = samples::study("p/l/s");
        store.create_study(study.clone()).await.unwrap();
        let fronts = OptimalTrials::default();
        let mut followed = Vec::new();
        for number in 1..=2 * FOLLOWED + 7 {
            let final_measurement = samples::measurement(1, number as f64);
            let start = TrialStart::Completed(Completion::Succeeded { final_measurement });
            let new = NewTrial { start, request_key: None, ..samples::new_trial(number) };
            let trial = store.create_trial(&study.id, new).await.unwrap();
            if let Some(refreshed) = fronts.follow(&store, &store.study(&study.id).await.unwrap(), trial.revision) {
                refreshed.await.unwrap();
                followed.push(trial.revision);
            }
        }
        assert_eq!(followed, [FOLLOWED, 2 * FOLLOWED]);
        let known = fronts.0.get_or_insert(&study.id, || panic!("the front is kept"));
        let known = known.lock().await;
        assert_eq!(known.revision, 2 * FOLLOWED);
        // Each trial is better than those before it.
        assert_eq!(known.front.0.keys().copied().collect::<Vec<_>>(), [TrialId(2 * FOLLOWED)]);
    }
}
