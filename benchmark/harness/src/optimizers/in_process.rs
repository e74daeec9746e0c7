//! Our algorithms as optimizers, called like in the service: with the whole history each time.

use std::num::NonZeroUsize;

use tunesmith_algorithms::designer::{Designer, DesignerError, History, SuggestRequest};
use tunesmith_algorithms::problem::{
    CompletedTrial, ConstraintSpec, Fidelity, Goal, ParameterValues, PendingTrial, ProblemStatement, TrialId,
    TrialOutcome,
};
use tunesmith_benchmark::optimizer::{Optimizer, OptimizerError, StudyRequest, TrialResult};

use super::VERSION;
use super::algorithm::OwnAlgorithm;

pub(crate) struct InProcess {
    algorithm: OwnAlgorithm,
    study: Option<Study>,
}

struct Study {
    designer: Box<dyn Designer>,
    /// Whether the designer models constraint values. Other designers see violating trials as infeasible.
    sees_constraints: bool,
    completed: Vec<CompletedTrial>,
    pending: Vec<PendingTrial>,
}

impl InProcess {
    pub(crate) fn new(algorithm: OwnAlgorithm) -> Self {
        Self { algorithm, study: None }
    }

    fn study(&mut self) -> Result<&mut Study, OptimizerError> {
        self.study.as_mut().ok_or_else(|| OptimizerError::Failed { reason: "no study was started".to_owned() })
    }
}

impl Optimizer for InProcess {
    fn create(&mut self, study: &StudyRequest) -> Result<(), OptimizerError> {
        self.study = None;
        let mut designer =
            self.algorithm.designer(&study.problem, study.seed, &study.sources).map_err(optimizer_error)?;
        let capabilities = designer.capabilities();
        let sees_constraints = study.constraints > 0 && capabilities.learns && capabilities.constraints;
        if sees_constraints {
            let problem = constrained(&study.problem, study.constraints)?;
            designer = self.algorithm.designer(&problem, study.seed, &study.sources).map_err(optimizer_error)?;
        }
        self.study = Some(Study { designer, sees_constraints, completed: Vec::new(), pending: Vec::new() });
        Ok(())
    }

    fn suggest(&mut self, trials: &[TrialId]) -> Result<Vec<ParameterValues>, OptimizerError> {
        let Study { designer, completed, pending, .. } = self.study()?;
        let (Some(first), Some(count)) = (trials.first(), NonZeroUsize::new(trials.len())) else {
            return Ok(Vec::new());
        };
        let request = SuggestRequest { first_trial_id: *first, count };
        let suggestions = designer.suggest(History { completed, pending }, request).map_err(optimizer_error)?;
        let points: Vec<ParameterValues> = suggestions.into_iter().map(|suggestion| suggestion.parameters).collect();
        let given_out = trials.iter().zip(&points);
        pending.extend(given_out.map(|(&id, point)| PendingTrial { id, parameters: point.clone() }));
        Ok(points)
    }

    fn complete(&mut self, result: &TrialResult) -> Result<(), OptimizerError> {
        let Study { completed, pending, sees_constraints, .. } = self.study()?;
        pending.retain(|trial| trial.id != result.trial.id);
        let mut trial = result.trial.clone();
        if let (true, Some(values)) = (*sees_constraints, &result.values) {
            let fidelity = match trial.outcome {
                TrialOutcome::Measured { fidelity: Fidelity::Partial, .. } => Fidelity::Partial,
                _ => Fidelity::Full,
            };
            trial.outcome = TrialOutcome::Measured { values: [&values[..], &result.constraints].concat(), fidelity };
        }
        match completed.iter_mut().find(|other| other.id == trial.id) {
            Some(before) => *before = trial,
            None => completed.push(trial),
        }
        Ok(())
    }

    fn version(&self) -> Option<String> {
        Some(VERSION.to_owned())
    }
}

/// Adds `count` constraints, feasible up to 0, to `problem`. The space in their names avoids collisions with benchmark
/// metrics.
fn constrained(problem: &ProblemStatement, count: usize) -> Result<ProblemStatement, OptimizerError> {
    let constraint = |place: usize| ConstraintSpec::new(format!("constraint {place}"), Goal::Minimize, 0.0);
    let constrained = problem.clone().with_constraints((0..count).map(constraint).collect());
    constrained.map_err(|error| OptimizerError::Failed { reason: error.to_string() })
}

fn optimizer_error(error: DesignerError) -> OptimizerError {
    match error {
        DesignerError::Unsupported { reason, .. } => OptimizerError::Unsupported { reason },
        other => OptimizerError::Failed { reason: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::problem::{
        MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ScaleType, SearchSpace,
    };

    use super::*;

    /// Suggestion for trial 13 after twelve trials along one parameter and `further` results of the twelfth.
    fn suggestion(further: &[(f64, Fidelity)]) -> Vec<ParameterValues> {
        let kind = ParameterKind::Double { min: -1.0, max: 1.0, scale: ScaleType::UnitLinear };
        let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
        let metric = MetricSpec { name: "loss".into(), goal: Goal::Minimize };
        let problem = ProblemStatement::new(space, vec![metric]).unwrap();
        let mut optimizer = InProcess::new("gp".parse().unwrap());
        let sources = Vec::new();
        optimizer.create(&StudyRequest { problem, seed: 1, budget: 20, parallel: 1, constraints: 0, sources }).unwrap();
        let mut complete = |id: u64, value, fidelity| {
            let x = (id as f64 - 6.0) / 6.0;
            let parameters = [("x".to_owned(), ParameterValue::Double(x))].into();
            let outcome = TrialOutcome::Measured { values: vec![value], fidelity };
            let trial = CompletedTrial { id: TrialId(id), parameters, outcome };
            optimizer.complete(&TrialResult { trial, values: Some(vec![value]), constraints: Vec::new() }).unwrap();
        };
        (1..12).for_each(|id| complete(id, (id as f64 - 4.0).powi(2), Fidelity::Full));
        further.iter().for_each(|(value, fidelity)| complete(12, *value, *fidelity));
        optimizer.suggest(&[TrialId(13)]).unwrap()
    }

    #[test]
    fn a_further_result_of_a_trial_replaces_the_previous_one() {
        let stopped = (80.0, Fidelity::Partial);
        let resumed = (-5.0, Fidelity::Full);
        assert_eq!(suggestion(&[stopped, resumed]), suggestion(&[resumed]));
        assert_ne!(suggestion(&[stopped]), suggestion(&[resumed]));
    }
}
