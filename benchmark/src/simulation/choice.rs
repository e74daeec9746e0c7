//! Finished trials that a user would pick.

use tunesmith_algorithms::designer::History;
use tunesmith_algorithms::insight::InsightModel;
use tunesmith_algorithms::problem::{CompletedTrial, ProblemStatement, TrialOutcome};

use crate::record::Chosen;

/// Choice among `completed` trials of a problem with one metric, in their order; `None` if none has a value.
pub(super) fn chosen(statement: &ProblemStatement, completed: &[CompletedTrial]) -> Option<Chosen> {
    let metric = statement.metrics().first()?;
    let value = |trial: &CompletedTrial| match &trial.outcome {
        TrialOutcome::Measured { values, .. } => values.first().map(|value| metric.goal.loss(*value)),
        TrialOutcome::Infeasible => None,
    };
    // The first of equals.
    let values = completed.iter().enumerate().filter_map(|(index, trial)| Some((index, value(trial)?)));
    let (observed, _) = values.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let model = InsightModel::new(statement, History { completed, pending: &[] }, &metric.name).ok();
    let trial = model.and_then(|model| model.recommendation()).and_then(|found| found.point.trial);
    let recommended = trial.and_then(|id| completed.iter().position(|other| other.id == id));
    Some(Chosen { after: completed.len(), observed, recommended })
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::problem::{
        Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ScaleType, SearchSpace, TrialId,
    };

    use super::*;

    /// Trials along one parameter with the value `x^2 + noise`.
    fn trials(noise: impl Fn(usize) -> f64) -> (ProblemStatement, Vec<CompletedTrial>) {
        let kind = ParameterKind::Double { min: -1.0, max: 1.0, scale: ScaleType::UnitLinear };
        let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
        let metric = MetricSpec { name: "loss".into(), goal: Goal::Minimize };
        let trial = |index: usize| {
            let x = -1.0 + index as f64 / 15.0;
            let outcome = TrialOutcome::measured(vec![x * x + noise(index)]);
            let parameters = [("x".to_owned(), ParameterValue::Double(x))].into();
            CompletedTrial { id: TrialId(index as u64 + 1), parameters, outcome }
        };
        (ProblemStatement::new(space, vec![metric]).unwrap(), (0..=30).map(trial).collect())
    }

    #[test]
    fn lucky_trial_is_observed_to_be_best_and_another_one_recommended() {
        // Alternating noise, and trial 5 (x = -0.73) is very lucky.
        let noise = |index: usize| if index == 4 { -0.7 } else { 0.05 * (1.0 - 2.0 * (index % 2) as f64) };
        let (statement, completed) = trials(noise);
        let found = chosen(&statement, &completed).unwrap();
        assert_eq!((found.after, found.observed), (31, 4));
        let recommended = found.recommended.unwrap();
        assert!((11..=19).contains(&recommended), "{recommended}");
    }

    #[test]
    fn few_trials_have_no_recommendation_and_trials_without_values_no_choice() {
        let (statement, mut completed) = trials(|_| 0.0);
        completed.truncate(9);
        let expected = Chosen { after: 9, observed: 8, recommended: None };
        assert_eq!(chosen(&statement, &completed), Some(expected));
        completed.iter_mut().for_each(|trial| trial.outcome = TrialOutcome::Infeasible);
        assert_eq!(chosen(&statement, &completed), None);
    }
}
