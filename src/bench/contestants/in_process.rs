//! Contestants that are our own search algorithms, called as the service calls them: with the whole history each time.

use std::num::NonZeroUsize;

use tunesmith_algorithms::designer::{Designer, DesignerError, History, SuggestRequest};
use tunesmith_algorithms::problem::{CompletedTrial, ParameterValues, PendingTrial, TrialId};
use tunesmith_benchmark::contestant::{Contestant, ContestantError, StudyRequest, TrialResult};

use super::algorithm::Algorithm;

/// One of our algorithms, and the study it is in.
pub(in crate::bench) struct InProcess {
    algorithm: Algorithm,
    study: Option<Study>,
}

struct Study {
    designer: Box<dyn Designer>,
    completed: Vec<CompletedTrial>,
    pending: Vec<PendingTrial>,
}

impl InProcess {
    pub(in crate::bench) fn new(algorithm: Algorithm) -> Self {
        Self { algorithm, study: None }
    }

    fn study(&mut self) -> Result<&mut Study, ContestantError> {
        self.study.as_mut().ok_or_else(|| ContestantError::Failed { reason: "no study was begun".to_owned() })
    }
}

impl Contestant for InProcess {
    fn create(&mut self, study: &StudyRequest) -> Result<(), ContestantError> {
        self.study = None;
        let designer = self.algorithm.designer(&study.problem, study.seed).map_err(contestant_error)?;
        self.study = Some(Study { designer, completed: Vec::new(), pending: Vec::new() });
        Ok(())
    }

    fn suggest(&mut self, trials: &[TrialId]) -> Result<Vec<ParameterValues>, ContestantError> {
        let Study { designer, completed, pending } = self.study()?;
        let (Some(first), Some(count)) = (trials.first(), NonZeroUsize::new(trials.len())) else {
            return Ok(Vec::new());
        };
        let request = SuggestRequest { first_trial_id: *first, count };
        let suggestions = designer.suggest(History { completed, pending }, request).map_err(contestant_error)?;
        let points: Vec<ParameterValues> = suggestions.into_iter().map(|suggestion| suggestion.parameters).collect();
        let given_out = trials.iter().zip(&points);
        pending.extend(given_out.map(|(&id, point)| PendingTrial { id, parameters: point.clone() }));
        Ok(points)
    }

    fn complete(&mut self, result: &TrialResult) -> Result<(), ContestantError> {
        let Study { completed, pending, .. } = self.study()?;
        pending.retain(|trial| trial.id != result.trial.id);
        completed.push(result.trial.clone());
        Ok(())
    }
}

fn contestant_error(error: DesignerError) -> ContestantError {
    match error {
        DesignerError::Unsupported { reason, .. } => ContestantError::Unsupported { reason },
        other => ContestantError::Failed { reason: other.to_string() },
    }
}
