//! Repetition of leaders with other seeds or folds, after the search of another designer.
//!
//! The best of many noisy results is also the luckiest. After the first trials, which search, the points with the best
//! mean results, the leaders, are tried again with further values of the repeated parameter, until each of the leaders
//! has its number of trials. A point that falls behind is no leader any more, so that its trials go to others: a race,
//! as in Birattari et al. 2002 ("A Racing Algorithm for Configuring Metaheuristics"), without its test, which rarely
//! rejects a point after four results.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use crate::designer::{Capabilities, Designer, DesignerError, History, SuggestRequest};
use crate::encoding::{Encoding, EncodingError, Key};
use crate::interruption::Interruption;
use crate::problem::{
    AlgorithmName, CompletedTrial, Fidelity, Origin, ParameterValue, ParameterValues, PendingTrial, ProblemStatement,
    Repeats, SearchSpace, TrialId, TrialOutcome, TrialSuggestion,
};
use crate::transfer::SourceInfluence;

/// Designer that searches without the repeated parameter, then repeats the leaders over its values.
pub struct Repeating {
    space: SearchSpace,
    /// The problem of the wrapped designer, without the repeated parameter.
    searched: ProblemStatement,
    encoding: Encoding,
    repeats: Repeats,
    /// Values of the repeated parameter, the one of the search first.
    values: Vec<ParameterValue>,
    designer: Box<dyn Designer>,
}

/// Trials of one point over the values of the repeated parameter.
#[derive(Debug, Default)]
struct Group {
    parameters: ParameterValues,
    /// First trial of the point.
    first: Option<TrialId>,
    /// Maximised results of the trials that ran to their end and satisfy every constraint.
    results: Vec<f64>,
    /// Whether each value was tried, or is being tried.
    tried: Vec<bool>,
    /// Whether a trial failed, was stopped early, or violates a constraint.
    is_flawed: bool,
}

impl Group {
    fn mean(&self) -> f64 {
        let count = self.results.len() as f64;
        // Dividing first prevents overflow of the sum.
        self.results.iter().map(|result| result / count).sum()
    }

    fn trials(&self) -> usize {
        self.tried.iter().filter(|tried| **tried).count()
    }
}

impl Repeating {
    /// Wraps the designer that `search` creates for the problem without the repeated parameter. `problem` has repeats;
    /// without them, the result is that designer.
    ///
    /// # Errors
    /// Those of `search`.
    pub fn wrap(
        problem: &ProblemStatement,
        search: impl FnOnce(&ProblemStatement) -> Result<Box<dyn Designer>, DesignerError>,
    ) -> Result<Box<dyn Designer>, DesignerError> {
        let parts = (problem.repeats(), problem.repeated_parameter(), problem.without_repeated_parameter());
        let (Some(repeats), Some(parameter), Some(searched)) = parts else { return search(problem) };
        Ok(Box::new(Self {
            space: problem.search_space().clone(),
            encoding: Encoding::new(searched.search_space()),
            values: repeats.values(parameter),
            repeats: repeats.clone(),
            designer: search(&searched)?,
            searched,
        }))
    }

    fn key(&self, point: &ParameterValues) -> Result<Key, EncodingError> {
        self.encoding.key(point)
    }

    /// Trials by point, without the repeated parameter.
    fn groups(&self, history: History<'_>) -> Result<BTreeMap<Key, Group>, DesignerError> {
        let mut groups = BTreeMap::new();
        let mut completed: Vec<&CompletedTrial> = history.completed.iter().collect();
        completed.sort_by_key(|trial| trial.id);
        for trial in completed {
            let group = self.group(&mut groups, trial.id, &trial.parameters)?;
            match self.result(&trial.outcome) {
                Some(result) => group.results.push(result),
                None => group.is_flawed = true,
            }
        }
        for trial in history.pending {
            self.group(&mut groups, trial.id, &trial.parameters)?;
        }
        Ok(groups)
    }

    fn group<'a>(
        &self,
        groups: &'a mut BTreeMap<Key, Group>,
        trial: TrialId,
        parameters: &ParameterValues,
    ) -> Result<&'a mut Group, DesignerError> {
        self.space.check(parameters).map_err(DesignerError::foreign(trial))?;
        let point = self.repeats.without(parameters);
        let key = self.key(&point).map_err(DesignerError::foreign(trial))?;
        let group = groups.entry(key).or_insert_with(|| Group { parameters: point, ..Group::default() });
        group.first = Some(group.first.map_or(trial, |first| first.min(trial)));
        group.tried.resize(self.values.len(), false);
        let value = parameters.get(&self.repeats.parameter);
        // A user-supplied trial may have a value beyond those of the repetition. It counts as a result only.
        if let Some(place) = self.values.iter().position(|known| Some(known) == value) {
            group.tried[place] = true;
        }
        Ok(group)
    }

    /// Maximised result of a trial that may lead; `None` if it failed, was stopped early, or violates a constraint.
    fn result(&self, outcome: &TrialOutcome) -> Option<f64> {
        let TrialOutcome::Measured { values, fidelity: Fidelity::Full } = outcome else { return None };
        let metrics = self.searched.metrics();
        let mut limits = self.searched.constraints().iter().zip(values.get(metrics.len()..)?);
        let result = metrics.first()?.goal.to_maximized(*values.first()?);
        (result.is_finite() && limits.all(|(constraint, value)| constraint.holds(*value))).then_some(result)
    }

    /// Leader with the fewest trials, the better one of equals, with its next value; `None` if all leaders have theirs.
    fn next_repetition(&self, groups: &mut BTreeMap<Key, Group>) -> Option<ParameterValues> {
        let mut leaders: Vec<&mut Group> =
            groups.values_mut().filter(|group| !group.is_flawed && !group.results.is_empty()).collect();
        leaders.sort_by(|a, b| b.mean().total_cmp(&a.mean()).then(a.first.cmp(&b.first)));
        leaders.truncate(self.repeats.leaders as usize);
        let next =
            leaders.into_iter().filter(|group| group.tried.contains(&false)).min_by_key(|group| group.trials())?;
        let place = next.tried.iter().position(|tried| !tried)?;
        next.tried[place] = true;
        Some(self.with_value(&next.parameters, place))
    }

    fn with_value(&self, point: &ParameterValues, place: usize) -> ParameterValues {
        let mut parameters = point.clone();
        parameters.insert(self.repeats.parameter.clone(), self.values[place].clone());
        parameters
    }

    /// Suggestions of the wrapped designer, with the first value that their point was not tried with.
    fn search(
        &self,
        trials: &Projected,
        groups: &mut BTreeMap<Key, Group>,
        request: SuggestRequest,
        interruption: &Interruption,
    ) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let found = self.designer.suggest_until(trials.as_history(), request, interruption)?;
        let mut suggestions = Vec::with_capacity(found.len());
        for (trial, suggestion) in (0..).zip(found) {
            let trial = request.first_trial_id.offset(trial);
            let fault = |error: EncodingError| DesignerError::foreign(trial)(error);
            let group = groups.entry(self.key(&suggestion.parameters).map_err(fault)?).or_default();
            group.tried.resize(self.values.len(), false);
            let place = group.tried.iter().position(|tried| !tried).unwrap_or(0);
            group.tried[place] = true;
            let parameters = self.with_value(&suggestion.parameters, place);
            suggestions.push(TrialSuggestion { parameters, origin: suggestion.origin });
        }
        Ok(suggestions)
    }
}

/// Trials without the repeated parameter.
struct Projected {
    completed: Vec<CompletedTrial>,
    pending: Vec<PendingTrial>,
}

impl Projected {
    fn new(repeats: &Repeats, history: History<'_>) -> Self {
        let completed = history.completed.iter().map(|trial| repeats.without_parameter_of(trial));
        let pending = history
            .pending
            .iter()
            .map(|trial| PendingTrial { id: trial.id, parameters: repeats.without(&trial.parameters) });
        Self { completed: completed.collect(), pending: pending.collect() }
    }

    fn as_history(&self) -> History<'_> {
        History { completed: &self.completed, pending: &self.pending }
    }

    fn len(&self) -> u64 {
        (self.completed.len() + self.pending.len()) as u64
    }
}

impl Designer for Repeating {
    fn capabilities(&self) -> Capabilities {
        // The leaders depend on the results even if the search does not.
        Capabilities { learns: true, several_metrics: false, ..self.designer.capabilities() }
    }

    fn suggest_until(
        &self,
        history: History<'_>,
        request: SuggestRequest,
        interruption: &Interruption,
    ) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let mut groups = self.groups(history)?;
        let mut trials = Projected::new(&self.repeats, history);
        let mut suggestions: Vec<TrialSuggestion> = Vec::new();
        let mut is_exhausted = false;
        while let Some(left) = NonZeroUsize::new(request.count.get() - suggestions.len()) {
            let first_trial_id = request.first_trial_id.offset(suggestions.len() as u64);
            let to_search = self.repeats.search_trials.saturating_sub(trials.len());
            let repetition = if to_search > 0 && !is_exhausted { None } else { self.next_repetition(&mut groups) };
            let found = match repetition {
                Some(parameters) => vec![TrialSuggestion { parameters, origin: Origin::of(AlgorithmName::Repeats) }],
                None if is_exhausted => break,
                None => {
                    let most = usize::try_from(to_search).ok().and_then(NonZeroUsize::new).unwrap_or(left);
                    let request = SuggestRequest { first_trial_id, count: left.min(most) };
                    let found = self.search(&trials, &mut groups, request, interruption)?;
                    is_exhausted = found.len() < request.count.get();
                    found
                }
            };
            for (offset, suggestion) in (0..).zip(&found) {
                let parameters = self.repeats.without(&suggestion.parameters);
                trials.pending.push(PendingTrial { id: first_trial_id.offset(offset), parameters });
            }
            suggestions.extend(found);
        }
        Ok(suggestions)
    }

    fn source_influences(
        &self,
        history: History<'_>,
        interruption: &Interruption,
    ) -> Result<Vec<SourceInfluence>, DesignerError> {
        self.designer.source_influences(Projected::new(&self.repeats, history).as_history(), interruption)
    }
}
