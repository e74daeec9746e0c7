//! Reuse of trials of source studies: those that a study continues, and related ones.

use std::collections::BTreeMap;
use std::pin::pin;

use futures::TryStreamExt;
use tunesmith_algorithms::problem::{ProblemStatement, TrialOutcome, ValueError};
use tunesmith_store::{OptionalExtension, Store, StoreError, pages};

use super::history::outcome;
use tunesmith_domain::{SourceRelation, SourceStudies, Study, StudyId, StudySpec, Trial, TrialState};

/// Use of a source trial by another study's search.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SourceUse {
    /// Inside the search space of a study that continues the source; counts as one of its trials.
    Own(TrialOutcome),
    /// Result of a related study, from which a search may learn by a model.
    Related,
    /// Outside the search space, for this reason; a trial of a different space, from which a search may still learn.
    Outside(String),
    /// Lacks the value of this metric or constraint.
    WithoutMetric(String),
    /// Failure of a related study, whose cause may not apply.
    Failed,
    /// Without a result so far.
    Unfinished,
}

/// Converts `trial`, from a study with the problem `source`, for a study with `problem` and this relation to it.
pub(super) fn source_use(
    trial: &Trial,
    source: &ProblemStatement,
    problem: &ProblemStatement,
    relation: SourceRelation,
) -> SourceUse {
    if !trial.state.is_final() || trial.state == TrialState::Deleted {
        return SourceUse::Unfinished;
    }
    match relation {
        SourceRelation::Continued => continued_use(trial, source, problem),
        SourceRelation::Related => related_use(trial, source, problem),
    }
}

fn related_use(trial: &Trial, source: &ProblemStatement, problem: &ProblemStatement) -> SourceUse {
    // A constraint may differ between studies, and its slack is learned without sources.
    let metric = problem.metrics().first().map(|metric| metric.name.as_str()).unwrap_or_default();
    let is_metric = source.metrics().iter().any(|other| other.name == metric);
    match outcome(trial, source) {
        _ if !is_metric => SourceUse::WithoutMetric(metric.to_owned()),
        TrialOutcome::Measured { .. } => SourceUse::Related,
        TrialOutcome::Infeasible if trial.state == TrialState::Succeeded => SourceUse::WithoutMetric(metric.to_owned()),
        TrialOutcome::Infeasible => SourceUse::Failed,
    }
}

fn continued_use(trial: &Trial, source: &ProblemStatement, problem: &ProblemStatement) -> SourceUse {
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

/// Reuse of source studies by the search of a new study.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceDescriptions {
    /// Reuse of the continued studies' trials; `None` without trials.
    pub continued: Option<SourceDescription>,
    /// Reuse of the related studies' trials; `None` without trials.
    pub related: Option<SourceDescription>,
}

impl SourceDescriptions {
    /// Texts about continued and related studies of which some trials are not used as their relation promises.
    pub fn incomplete(self) -> [Option<String>; 2] {
        [self.continued, self.related]
            .map(|reused| reused.filter(|reused| !reused.is_complete).map(|reused| reused.text))
    }
}

/// Reuse of the trials of some source studies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceDescription {
    pub text: String,
    /// Whether every trial is used as its relation promises.
    pub is_complete: bool,
}

/// Describes what the search of `spec` reuses from `sources`.
pub async fn describe_sources(
    store: &dyn Store,
    spec: &StudySpec,
    sources: &SourceStudies,
) -> Result<SourceDescriptions, StoreError> {
    let (mut continued, mut related) = (Vec::new(), Vec::new());
    for (relation, id) in sources.iter() {
        let Some(study) = store.study(id).await.optional()? else { continue };
        let tally = Tally::of(store, &study, spec, relation).await?;
        match relation {
            _ if tally.all == 0 => {}
            SourceRelation::Continued => continued.push(tally),
            SourceRelation::Related => related.push(tally),
        }
    }
    let described = |tallies: &[Tally], text: String| {
        let is_complete = tallies.iter().all(Tally::is_complete);
        (!tallies.is_empty()).then_some(SourceDescription { text, is_complete })
    };
    let related_text = related.iter().map(Tally::related_text).collect::<Vec<_>>().join("; ");
    Ok(SourceDescriptions {
        continued: described(&continued, continued_text(&continued)),
        related: described(&related, related_text),
    })
}

/// Trials of one source study by their use.
struct Tally {
    id: StudyId,
    all: usize,
    own: usize,
    informing: usize,
    /// Reason why related studies do not inform the search, if they do not.
    obstacle: Option<String>,
    /// Number of other trials by reason.
    reasons: BTreeMap<String, usize>,
}

impl Tally {
    async fn of(
        store: &dyn Store,
        study: &Study,
        spec: &StudySpec,
        relation: SourceRelation,
    ) -> Result<Self, StoreError> {
        let problem = &spec.problem;
        let obstacle = match problem.metrics().len() {
            _ if !spec.algorithm.uses_source_studies() => {
                Some(format!("{} does not learn from other studies", spec.algorithm.as_str()))
            }
            1 => None,
            count => Some(format!("a search with {count} metrics does not learn from other studies")),
        };
        let (all, own, informing, reasons) = (0, 0, 0, BTreeMap::new());
        let mut tally = Self { id: study.id.clone(), all, own, informing, obstacle, reasons };
        let mut trials = pin!(pages::trials(store, &study.id));
        while let Some(trial) = trials.try_next().await? {
            if trial.state == TrialState::Deleted {
                continue;
            }
            tally.all += 1;
            let learned = usize::from(tally.obstacle.is_none());
            let reason = match source_use(&trial, &study.problem, problem, relation) {
                SourceUse::Own(_) => {
                    tally.own += 1;
                    continue;
                }
                SourceUse::Related => {
                    tally.informing += learned;
                    continue;
                }
                SourceUse::Outside(reason) => {
                    tally.informing += learned;
                    reason
                }
                SourceUse::WithoutMetric(metric) => format!("have no result of {metric:?}"),
                SourceUse::Failed => "have failed".to_owned(),
                SourceUse::Unfinished => "have not ended".to_owned(),
            };
            *tally.reasons.entry(reason).or_default() += 1;
        }
        Ok(tally)
    }

    fn is_complete(&self) -> bool {
        self.own.max(self.informing) == self.all && self.reasons.is_empty()
    }

    /// Name within its location.
    fn name(&self) -> &str {
        self.id.parts().2
    }

    fn related_text(&self) -> String {
        let (name, all) = (self.name(), self.all);
        if let Some(obstacle) = &self.obstacle {
            return format!("{name}: 0 of {all} trials are used: {obstacle}");
        }
        let text = format!("{name}: {} of {all} trials inform this search as those of another study", self.informing);
        if self.reasons.is_empty() { text } else { format!("{text}: {}", listed(&self.reasons)) }
    }
}

fn continued_text(tallies: &[Tally]) -> String {
    let sum = |count: fn(&Tally) -> usize| tallies.iter().map(count).sum::<usize>();
    let (all, own, informing) = (sum(|tally| tally.all), sum(|tally| tally.own), sum(|tally| tally.informing));
    let mut text = format!("{own} of {all} earlier trials count as results of this search");
    if tallies.len() > 1 {
        let of_study = |tally: &Tally| format!("{}: {} of {}", tally.name(), tally.own, tally.all);
        text = format!("{text} ({})", tallies.iter().map(of_study).collect::<Vec<_>>().join(", "));
    }
    if own < all {
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for (reason, count) in tallies.iter().flat_map(|tally| &tally.reasons) {
            *reasons.entry(reason.clone()).or_default() += count;
        }
        text = format!("{text}: {}", listed(&reasons));
        if informing > 0 {
            text = format!("{text}; {informing} outside the search space still inform it as trials of another one");
        }
    }
    text
}

fn listed(reasons: &BTreeMap<String, usize>) -> String {
    reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect::<Vec<_>>().join(", ")
}
