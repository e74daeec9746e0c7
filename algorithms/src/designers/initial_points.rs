//! User-supplied points, proposed before those of another designer.

use std::num::NonZeroUsize;

use super::UsedPoints;
use crate::designer::{Capabilities, Designer, DesignerError, History, PointDesigner, SuggestRequest};
use crate::encoding::{Encoding, EncodingError};
use crate::interruption::Interruption;
use crate::prior::{PriorDensity, middle};
use crate::problem::{
    AlgorithmName, Origin, ParameterPrior, ParameterValues, PendingTrial, ProblemStatement, SearchSpace,
    TrialSuggestion,
};
use crate::transfer::SourceInfluence;

/// Designer that proposes given points, exactly and in order, followed by the suggestions of another designer.
///
/// Points of completed or pending trials in the history are skipped. So no point is proposed twice, even if trials are
/// user-supplied or copied from another study, and other trials do not shift the remaining points. The other designer
/// treats the resulting trials like any others.
pub struct InitialPoints {
    space: SearchSpace,
    points: Vec<ParameterValues>,
    designer: Box<dyn Designer>,
}

impl InitialPoints {
    /// Puts `points` of the space of `problem` before the suggestions of `designer`.
    ///
    /// # Errors
    /// The first missing, infeasible, inactive or unknown parameter of a point, with the index of the point.
    pub fn new(
        problem: &ProblemStatement,
        points: Vec<ParameterValues>,
        designer: Box<dyn Designer>,
    ) -> Result<Self, (usize, EncodingError)> {
        for (index, point) in points.iter().enumerate() {
            problem.search_space().check(point).map_err(|error| (index, error))?;
        }
        Ok(Self { space: problem.search_space().clone(), points, designer })
    }

    /// Requires all trials to be points of the space, like the other designer.
    fn check(&self, history: History<'_>) -> Result<(), DesignerError> {
        for (trial, parameters) in history.points() {
            self.space.check(parameters).map_err(DesignerError::foreign(trial))?;
        }
        Ok(())
    }
}

/// Completes `partial` to a point of `problem`'s space: other active parameters get the mode of their prior or else the
/// middle of their range on its scale (the first level by name of a categorical parameter). The repeated parameter gets
/// its first value.
///
/// # Errors
/// The first infeasible or unknown parameter of `partial`, or one that is inactive by the values of those above it.
pub fn completed_point(
    problem: &ProblemStatement,
    partial: &ParameterValues,
) -> Result<ParameterValues, EncodingError> {
    let space = problem.search_space();
    let encoding = Encoding::new(space);
    let prior = PriorDensity::new(space, &encoding);
    let middles: Vec<f64> =
        (0..encoding.dimensions()).map(|feature| middle(prior.as_ref(), &encoding, feature)).collect();
    let mut point = ParameterValues::new();
    for &index in space.top_down() {
        let spec = &space.parameters()[index];
        let name = spec.name();
        if let Some(condition) = spec.condition()
            && !point.get(condition.parent()).is_some_and(|value| condition.values().contains(value))
        {
            continue;
        }
        let first = || problem.repeats().filter(|repeats| repeats.parameter == name)?.values(spec).into_iter().next();
        let given = partial.get(name).cloned().or_else(first);
        let value = match (given, spec.prior()) {
            // The mode itself: its coordinate would return it with a rounding error.
            (Some(value), _) => value,
            (None, Some(ParameterPrior::Normal { mode, .. })) => mode.clone(),
            _ => match encoding.features().iter().position(|feature| feature.name == name) {
                Some(feature) => encoding.value(feature, middles[feature]),
                None => {
                    let missing = || EncodingError::Missing { parameter: name.to_owned() };
                    encoding.fixed_value(name).cloned().ok_or_else(missing)?
                }
            },
        };
        point.insert(name.to_owned(), value);
    }
    // The remaining values are unknown or inactive; the check reports which.
    for (name, value) in partial {
        point.entry(name.clone()).or_insert_with(|| value.clone());
    }
    space.check(&point)?;
    Ok(point)
}

impl Designer for InitialPoints {
    fn capabilities(&self) -> Capabilities {
        self.designer.capabilities()
    }

    fn suggest_until(
        &self,
        history: History<'_>,
        request: SuggestRequest,
        interruption: &Interruption,
    ) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let mut known: Vec<&ParameterValues> = history.points().map(|(_, parameters)| parameters).collect();
        let mut first = Vec::new();
        for point in &self.points {
            if first.len() < request.count.get() && !known.contains(&point) {
                known.push(point);
                let origin = Origin::of(AlgorithmName::InitialTrials);
                first.push(TrialSuggestion { parameters: point.clone(), origin });
            }
        }
        if first.is_empty() {
            return self.designer.suggest_until(history, request, interruption);
        }
        self.check(history)?;
        let left = request.count.get() - first.len();
        let Ok(left) = left.try_into() else { return Ok(first) };
        let mut pending = history.pending.to_vec();
        let mut id = request.first_trial_id;
        for TrialSuggestion { parameters, .. } in &first {
            pending.push(PendingTrial { id, parameters: parameters.clone() });
            id = id.offset(1);
        }
        let history = History { completed: history.completed, pending: &pending };
        let rest = SuggestRequest { first_trial_id: id, count: left };
        first.extend(self.designer.suggest_until(history, rest, interruption)?);
        Ok(first)
    }

    fn source_influences(
        &self,
        history: History<'_>,
        interruption: &Interruption,
    ) -> Result<Vec<SourceInfluence>, DesignerError> {
        self.designer.source_influences(history, interruption)
    }

    fn by_points(&self) -> Option<&dyn PointDesigner> {
        self.designer.by_points().map(|_| self as &dyn PointDesigner)
    }
}

/// Without [`Designer::by_points`] of the other designer, there are no further points and no numbers.
impl PointDesigner for InitialPoints {
    fn is_finite(&self) -> bool {
        self.designer.by_points().is_some_and(PointDesigner::is_finite)
    }

    fn needs_more_than(&self, used: &UsedPoints) -> bool {
        let is_missing = |point| self.number(point).is_ok_and(|number| number.is_some_and(|n| !used.contains(n)));
        self.is_finite() || self.points.iter().any(is_missing)
    }

    /// Number of the point in the other designer. An initial point without one gets one of the highest numbers, which
    /// no point of a finite space has.
    fn number(&self, parameters: &ParameterValues) -> Result<Option<u128>, EncodingError> {
        let number = match self.designer.by_points() {
            Some(designer) => designer.number(parameters)?,
            None => None,
        };
        let own = || self.points.iter().position(|point| point == parameters).map(|index| u128::MAX - index as u128);
        Ok(number.or_else(own))
    }

    fn suggest_unused(&self, used: &mut UsedPoints, request: SuggestRequest) -> Vec<TrialSuggestion> {
        let mut suggestions = Vec::new();
        for point in &self.points {
            let number = self.number(point).ok().flatten().filter(|number| !used.contains(*number));
            if let Some(number) = number.filter(|_| suggestions.len() < request.count.get()) {
                used.insert(number);
                let origin = Origin::of(AlgorithmName::InitialTrials);
                suggestions.push(TrialSuggestion { parameters: point.clone(), origin });
            }
        }
        let first_trial_id = request.first_trial_id.offset(suggestions.len() as u64);
        let left = NonZeroUsize::new(request.count.get() - suggestions.len());
        if let (Some(count), Some(designer)) = (left, self.designer.by_points()) {
            suggestions.extend(designer.suggest_unused(used, SuggestRequest { first_trial_id, count }));
        }
        suggestions
    }
}
