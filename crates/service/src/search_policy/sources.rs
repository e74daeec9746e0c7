//! The trials of source studies that a study makes use of: those of the job that a job continues, above all.

use std::collections::BTreeMap;
use std::pin::pin;

use futures::TryStreamExt;
use tunesmith_algorithms::problem::{ProblemStatement, TrialOutcome, ValueError};
use tunesmith_domain::{StudyId, Trial, TrialState};
use tunesmith_store::{Store, StoreError};

use super::history::outcome;
use crate::pages;
use crate::study_spec::StudySpec;

/// A trial of a source study, as the search of another study uses it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SourceUse {
    /// The trial is a point of the study's own search space, and counts as one of its trials.
    Own(TrialOutcome),
    /// The trial lies outside the search space for this reason. It is a trial of another space, from which a search may learn.
    Outside(String),
    /// The trial has not the value of this metric or constraint.
    WithoutMetric(String),
    /// The trial has no result yet.
    Unfinished,
}

/// Converts `trial`, of a study with the problem `source`, for a study with `problem`.
pub(super) fn source_use(trial: &Trial, source: &ProblemStatement, problem: &ProblemStatement) -> SourceUse {
    if !trial.state.is_final() {
        return SourceUse::Unfinished;
    }
    let outside = problem.search_space().check(&trial.parameters).err();
    // A trial that succeeded without the value has not failed: its study did not ask for it.
    let asked_for: Vec<&str> = source.value_names().collect();
    let missing = problem.value_names().find(|name| match &trial.final_measurement {
        Some(measurement) => measurement.value(name).is_none(),
        None => trial.state == TrialState::Succeeded,
    });
    if let Some(missing) = missing.filter(|_| trial.state == TrialState::Succeeded) {
        return SourceUse::WithoutMetric(missing.to_owned());
    }
    match outside {
        None => SourceUse::Own(outcome(trial, problem)),
        // The model of a source study predicts its own first metric.
        Some(_) if asked_for.first() != problem.value_names().next().as_ref() => {
            SourceUse::WithoutMetric(problem.value_names().next().unwrap_or_default().to_owned())
        }
        Some(reason) => SourceUse::Outside(match reason {
            ValueError::Missing { parameter } => format!("have no parameter {parameter:?}"),
            ValueError::Unknown { parameter } => format!("have a parameter {parameter:?} that this job has not"),
            ValueError::Infeasible { parameter, .. } => format!("have a value of {parameter:?} that is out of range"),
            ValueError::Inactive { parameter, .. } => format!("have a value of {parameter:?} where it does not exist"),
            other => other.to_string(),
        }),
    }
}

/// Describes what the search of `spec` takes over from the trials of `sources`; `None` if there are none.
///
/// # Errors
/// [`StoreError`], if the trials cannot be read.
pub(crate) async fn sources_in_words(
    store: &dyn Store,
    spec: &StudySpec,
    sources: &[StudyId],
) -> Result<Option<String>, StoreError> {
    if sources.is_empty() {
        return Ok(None);
    }
    let problem = &spec.problem;
    let learns_from_others = spec.algorithm.uses_source_studies() && problem.metrics().len() == 1;
    let (mut all, mut own, mut informing) = (0_usize, 0_usize, 0_usize);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for source in sources {
        let study = match store.study(source).await {
            Ok(study) => study,
            Err(StoreError::NotFound { .. }) => continue,
            Err(error) => return Err(error),
        };
        let mut trials = pin!(pages::trials(store, source));
        while let Some(trial) = trials.try_next().await? {
            if trial.state == TrialState::Deleted {
                continue;
            }
            all += 1;
            let reason = match source_use(&trial, &study.problem, problem) {
                SourceUse::Own(_) => {
                    own += 1;
                    continue;
                }
                SourceUse::Outside(reason) => {
                    informing += usize::from(learns_from_others);
                    reason
                }
                SourceUse::WithoutMetric(metric) => format!("have no result of {metric:?}"),
                SourceUse::Unfinished => "have not ended".to_owned(),
            };
            *reasons.entry(reason).or_default() += 1;
        }
    }
    if all == 0 {
        return Ok(None);
    }
    let mut text = format!("{own} of {all} earlier trials count as results of this search");
    if own < all {
        let listed: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        text = format!("{text}: {}", listed.join(", "));
        if informing > 0 {
            text = format!("{text}; {informing} outside the search space still inform it as trials of another one");
        }
    }
    Ok(Some(text))
}
