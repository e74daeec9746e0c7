//! Reuse of trials of source studies, mainly those of the job that a job continues.

use std::collections::BTreeMap;
use std::pin::pin;

use futures::TryStreamExt;
use tunesmith_algorithms::problem::{ProblemStatement, TrialOutcome, ValueError};
use tunesmith_store::{OptionalExtension, Store, StoreError, pages};

use super::history::outcome;
use tunesmith_domain::{StudyId, StudySpec, Trial, TrialState};

/// Use of a source trial by another study's search.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SourceUse {
    /// Inside the study's own search space; counts as one of its trials.
    Own(TrialOutcome),
    /// Outside the search space, for this reason; a trial of a different space, from which a search may still learn.
    Outside(String),
    /// Lacks the value of this metric or constraint.
    WithoutMetric(String),
    /// Without a result so far.
    Unfinished,
}

/// Converts `trial`, from a study with the problem `source`, for a study with `problem`.
pub(super) fn source_use(trial: &Trial, source: &ProblemStatement, problem: &ProblemStatement) -> SourceUse {
    if !trial.state.is_final() {
        return SourceUse::Unfinished;
    }
    let outside = problem.search_space().check(&trial.parameters).err();
    // A success without the value is no failure: its study did not request it.
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
        // The model of a source study predicts that study's first metric.
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

/// Describes what the search of `spec` reuses from `sources`; `None` without trials.
pub async fn describe_sources(
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
        let Some(study) = store.study(source).await.optional()? else { continue };
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
