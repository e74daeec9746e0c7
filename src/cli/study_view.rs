//! Study with its trials for analysis and display, from a store or from responses.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use tunesmith_algorithms::designer::History;
use tunesmith_algorithms::encoding::{AtBound, Bound};
use tunesmith_algorithms::insight::{InsightModel, Recommendation, SuspiciousTrial};
use tunesmith_algorithms::problem::{CompletedTrial, Fidelity, PendingTrial, ProblemStatement, TrialOutcome};
use tunesmith_algorithms::rounded::RoundedValue;

use super::trial_view::TrialView;
use tunesmith_api::ai_platform::TrainingInput;
use tunesmith_api::ai_platform::optimizer::{PublishedNames, StudyMessage, TrialMessage, point, study_plan};
use tunesmith_api::ai_platform::plan::job_study;
use tunesmith_api::ai_platform::rpc::FieldViolation;
use tunesmith_domain::{
    Algorithm, RankedTrial, StoppingRule, StoppingRuleKind, Study, StudyState, Trial, TrialId, TrialState,
    best_at_bounds,
};

pub(super) struct StudyView {
    pub(super) problem: Arc<ProblemStatement>,
    pub(super) algorithm: Algorithm,
    pub(super) stopping_rule: Option<StoppingRule>,
    pub(super) seed: u64,
    pub(super) state: StudyState,
    /// Reason why the study is not active.
    pub(super) state_reason: String,
    pub(super) trials: Vec<TrialView>,
}

/// Findings of a Gaussian process that was fitted to a metric.
pub(super) struct Judgement {
    /// Tried point with the best expected result. Under noise, a better choice than the best result, which is also the
    /// luckiest (docs/experiments/016).
    pub(super) recommended: Option<Recommendation>,
    /// Trials with results too good to be true, best first.
    pub(super) suspicious_trials: Vec<SuspiciousTrial>,
}

/// Trial of `study` that the model of its results recommends, with enough of them.
pub(crate) fn recommended(study: &Study, trials: &[Trial]) -> Option<TrialId> {
    StudyView::of_store(study, trials).judgement()?.recommended?.point.trial
}

impl StudyView {
    pub(super) fn of_store(study: &Study, trials: &[Trial]) -> Self {
        let names = PublishedNames::of(study.problem.search_space());
        Self {
            problem: Arc::clone(&study.problem),
            algorithm: study.algorithm.clone(),
            stopping_rule: study.stopping_rule,
            seed: study.seed,
            state: study.state,
            state_reason: study.state_reason.clone(),
            trials: trials.iter().map(|trial| TrialView::of_store(study, &names, trial)).collect(),
        }
    }

    /// Study in `message` with `trials`. The study of a job has its parameters in the order of `input`.
    ///
    /// # Errors
    /// If this version does not support their form.
    pub(super) fn of_messages<'a>(
        message: &StudyMessage,
        input: Option<&TrainingInput>,
        trials: impl Iterator<Item = &'a TrialMessage>,
    ) -> anyhow::Result<Self> {
        let refused = |FieldViolation { field, description }| anyhow!("{field}: {description}");
        let config = message.study_config.known()?;
        // The input may lack fields inherited from another job.
        let spec = match input.map(job_study) {
            Some(Ok(Some(spec))) => spec,
            _ => {
                let first = |violations: Vec<FieldViolation>| violations.into_iter().next().map(refused);
                study_plan(&config)
                    .map_err(|violations| {
                        first(violations).unwrap_or_else(|| anyhow!("the configuration is not valid"))
                    })?
                    .spec
            }
        };
        // For a study created without a seed, the additions contain the drawn one.
        let seed = config.tunesmith.seed.or(message.tunesmith.seed).context("the study has no seed")?;
        let view = |trial: &TrialMessage| {
            let parameters = point(spec.problem.search_space(), &trial.parameters).map_err(refused)?;
            anyhow::Ok(TrialView::new(trial, parameters))
        };
        Ok(Self {
            trials: trials.map(view).collect::<anyhow::Result<_>>()?,
            problem: Arc::new(spec.problem),
            algorithm: spec.algorithm,
            stopping_rule: spec.stopping_rule,
            seed: seed.0.cast_unsigned(),
            state: message.state.into(),
            state_reason: [message.inactive_reason.as_str(), &message.tunesmith.state_reason].concat(),
        })
    }

    /// Parameter names in configuration order.
    pub(super) fn parameter_names(&self) -> Vec<&str> {
        self.problem.search_space().parameters().iter().map(|parameter| parameter.name()).collect()
    }

    /// Trials in the algorithms' types.
    pub(super) fn history(&self) -> (Vec<CompletedTrial>, Vec<PendingTrial>) {
        let (mut completed, mut pending) = (Vec::new(), Vec::new());
        for trial in &self.trials {
            let (id, parameters) = (trial.id, trial.parameters.clone());
            if !trial.state.is_final() {
                pending.push(PendingTrial { id, parameters });
                continue;
            }
            let values = self.problem.value_names().map(|name| trial.value(name)).collect::<Option<Vec<f64>>>();
            let outcome = match values.filter(|_| trial.state == TrialState::Succeeded) {
                Some(values) => {
                    let fidelity = if trial.stopped_early { Fidelity::Partial } else { Fidelity::Full };
                    TrialOutcome::Measured { values, fidelity }
                }
                None => TrialOutcome::Infeasible,
            };
            completed.push(CompletedTrial { id, parameters, outcome });
        }
        (completed, pending)
    }

    /// Findings of the model of the first metric. `None` with too few results for a model.
    pub(super) fn judgement(&self) -> Option<Judgement> {
        let (completed, pending) = self.history();
        let metric = &self.problem.metrics()[0].name;
        let history = History { completed: &completed, pending: &pending };
        let model = InsightModel::new(&self.problem, history, metric).ok()?;
        Some(Judgement { recommended: model.recommendation(), suspicious_trials: model.suspicious_trials().to_vec() })
    }

    /// Configured early stopping rule.
    pub(super) fn rule_name(&self) -> Option<&'static str> {
        Some(match self.stopping_rule?.kind() {
            StoppingRuleKind::Median => "MEDIAN",
            StoppingRuleKind::DecayCurve => "DECAY_CURVE",
            StoppingRuleKind::Asha => "ASHA",
        })
    }

    /// Parameters of the best trial at a bound of their range; empty if there are none.
    pub(super) fn at_bounds_text(&self) -> String {
        let bound = |found: &AtBound| match found.bound {
            Bound::Lower => format!("{} (lower, {})", found.parameter, RoundedValue(&found.limit)),
            Bound::Upper => format!("{} (upper, {})", found.parameter, RoundedValue(&found.limit)),
        };
        let bounds: Vec<String> = best_at_bounds(&self.problem, &self.trials).iter().map(bound).collect();
        match &bounds[..] {
            [] => String::new(),
            bounds => format!("the best is at a bound of {}: widen the range\n", bounds.join(", ")),
        }
    }
}
